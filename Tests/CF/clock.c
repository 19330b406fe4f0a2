/* SPDX-License-Identifier: MIT */
/* A C library for CoreFoundation, used by beside.swift. */
#include <CoreFoundation/CoreFoundation.h>

static void tick(CFRunLoopTimerRef timer, void *info) {
    if (++*(int *)info == 3) CFRunLoopTimerInvalidate(timer);
}

/* Runs this library's loop until its timer has fired three times. */
int clock_ticks(void) {
    int ticks = 0;
    CFRunLoopTimerContext context = {0, &ticks, NULL, NULL, NULL};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent(), 0.001, 0, 0, tick, &context);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, CFSTR("clock"));
    CFRelease(timer);
    CFRunLoopRunInMode(CFSTR("clock"), 10, false);
    return ticks;
}

void *clock_loop(void) { return CFRunLoopGetCurrent(); }
long clock_length(const char *text) {
    CFStringRef string = CFStringCreateWithCString(NULL, text, kCFStringEncodingUTF8);
    long length = CFStringGetLength(string);
    CFRelease(string);
    return length;
}

/* SPDX-License-Identifier: MIT */
/* A program for CoreFoundation, of somebody else: a timer prints a string of a dictionary and stops the loop. */
#include <CoreFoundation/CoreFoundation.h>
#include <stdio.h>

static const CFStringRef kGreeting = CFSTR("greeting");

static void greet(CFRunLoopTimerRef timer, void *info) {
    (void)timer;
    CFStringRef line = CFStringCreateWithFormat(kCFAllocatorDefault, NULL, CFSTR("%@, %s"),
                                                CFDictionaryGetValue((CFDictionaryRef)info, kGreeting), "world");
    char text[64];
    if (CFStringGetCString(line, text, sizeof text, kCFStringEncodingUTF8)) puts(text);
    CFRelease(line);
    CFRunLoopStop(CFRunLoopGetCurrent());
}

int main(void) {
    CFMutableDictionaryRef words = CFDictionaryCreateMutable(kCFAllocatorDefault, 0, &kCFTypeDictionaryKeyCallBacks,
                                                             &kCFTypeDictionaryValueCallBacks);
    CFDictionarySetValue(words, kGreeting, CFSTR("hello"));
    CFRunLoopTimerContext context = {0, words, CFRetain, CFRelease, CFCopyDescription};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(kCFAllocatorDefault, CFAbsoluteTimeGetCurrent(), 3600, 0, 0, greet, &context);
    CFRelease(words);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, kCFRunLoopCommonModes);
    CFRunLoopRunResult result = CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, false);
    CFRunLoopTimerInvalidate(timer);
    CFRelease(timer);
    return result == kCFRunLoopRunStopped ? 0 : 1;
}

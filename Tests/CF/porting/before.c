/* SPDX-License-Identifier: MIT */
/* A CoreFoundation program before cf2rl: sources, timers, observers, ports, data and a description. */
#include <CoreFoundation/CoreFoundation.h>
#include <CoreFoundation/CFMessagePort.h>
#include <stdio.h>
#include <unistd.h>

static CFStringRef describe(const void *info) {
    (void)info;
    return CFStringCreateWithCString(kCFAllocatorDefault, "a counter (CFSTR in text stays)", kCFStringEncodingUTF8);
}

static CFStringRef describeTimer(const void *info) {
    return info ? CFSTR("a tick") : NULL;
}

static void perform(void *info) { printf("performed %d\n", ++*(int *)info); }

static void tick(CFRunLoopTimerRef timer, void *info) {
    CFRunLoopSourceRef source = info;
    CFRunLoopSourceSignal(source);
    if (CFRunLoopTimerGetNextFireDate(timer) > 0) CFRunLoopTimerSetNextFireDate(timer, CFAbsoluteTimeGetCurrent() + 0.001);
}

static void note(CFRunLoopObserverRef observer, CFRunLoopActivity activity, void *info) {
    (void)observer, (void)info;
    if (activity == kCFRunLoopEntry) printf("CFRunLoop: entry\n"); /* the CFRunLoop in this text stays */
}

static CFDataRef answer(CFMessagePortRef port, SInt32 number, CFDataRef data, void *info) {
    char text[4] = "";
    CFDataGetBytes(data, CFRangeMake(1, 3), (UInt8 *)text);
    printf("%s: message %d, %ld bytes, %s\n", CFMessagePortIsRemote(port) ? "remote" : "local", (int)number, (long)CFDataGetLength(data), text);
    CFRunLoopStop(info);
    return NULL;
}

int main(void) {
    int count = 0;
    CFRunLoopRef loop = CFRunLoopGetCurrent();
    CFRunLoopSourceContext context = {0, &count, NULL, NULL, describe, NULL, NULL, NULL, NULL, perform};
    CFRunLoopSourceRef source = CFRunLoopSourceCreate(kCFAllocatorDefault, 0, &context);
    CFRunLoopAddSource(loop, source, kCFRunLoopDefaultMode);
    CFRunLoopTimerContext timing = {0, source, NULL, NULL, describeTimer};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(
        (CFAllocatorRef)NULL, CFAbsoluteTimeGetCurrent(), 1000, 0, 0, tick, &timing);
    CFRunLoopAddTimer(loop, timer, kCFRunLoopCommonModes);
    CFRunLoopObserverRef observer = CFRunLoopObserverCreate(NULL, kCFRunLoopAllActivities, true, 0, note, NULL);
    CFRunLoopAddObserver(loop, observer, CFSTR("kCFRunLoopDefaultMode"));
    while (count < 3) CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0.1, true);
    CFRunLoopTimerInvalidate(timer);

    CFMessagePortContext listening = {0, loop, NULL, NULL, NULL};
    Boolean freed = false;
    CFMessagePortRef local = CFMessagePortCreateLocal(NULL, CFSTR("cf2rl.test"), answer, &listening, &freed);
    CFRunLoopSourceRef arrivals = CFMessagePortCreateRunLoopSource(NULL, local, 0);
    CFRunLoopAddSource(loop, arrivals, kCFRunLoopDefaultMode);
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, CFSTR("cf2rl.test"));
    CFDataRef data = CFDataCreate(NULL, (const UInt8 *)"\"abc\"", 5);
    if (CFMessagePortSendRequest(remote, 7, data, 1, 0, NULL, NULL) != kCFMessagePortSuccess) return 1;
    if (CFMessagePortSendRequest(remote, 8, NULL, 1, 0, NULL, NULL) != kCFMessagePortSuccess) return 1;
    SInt32 result = CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, false);
    printf("stopped: %d, same types: %d\n", result == kCFRunLoopRunStopped, CFGetTypeID(source) == CFRunLoopSourceGetTypeID());
    CFMessagePortInvalidate(local);
    CFRelease(data), CFRelease(remote), CFRelease(arrivals), CFRelease(local), CFRelease(observer), CFRelease(timer), CFRelease(source);
    return 0;
}

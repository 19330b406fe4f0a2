/* SPDX-License-Identifier: MIT */
/* A CoreFoundation program before cf2rl: sources, timers, observers, ports, data and a description. */
#include <runloop/runloop.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

static char *describe(const void *info) {
    (void)info;
    return strdup("a counter (CFSTR in text stays)");
}

static char *describeTimer(const void *info) {
    return info ? strdup("a tick") : NULL;
}

static void perform(void *info) { printf("performed %d\n", ++*(int *)info); }

static void tick(RLTimerRef timer, void *info) {
    RLSourceRef source = info;
    RLSourceSignal(source);
    if (RLTimerGetNextFireDate(timer) > 0) RLTimerSetNextFireDate(timer, RLAbsoluteTimeGetCurrent() + 0.001);
}

static void note(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)info;
    if (activity == kRLEntry) printf("CFRunLoop: entry\n"); /* the CFRunLoop in this text stays */
}

static RLDataRef answer(RLMessagePortRef port, int32_t number, RLDataRef data, void *info) {
    char text[4] = "";
    memcpy((uint8_t *)text, (const char *)RLDataGetBytePtr(data) + (1), (size_t)(3));
    printf("%s: message %d, %ld bytes, %s\n", RLMessagePortIsRemote(port) ? "remote" : "local", (int)number, (long)RLDataGetLength(data), text);
    RLStop(info);
    return NULL;
}

int main(void) {
    int count = 0;
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceContext context = {0, &count, NULL, NULL, describe, NULL, NULL, NULL, NULL, perform};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(loop, source, kRLDefaultMode);
    RLTimerContext timing = {0, source, NULL, NULL, describeTimer};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), 1000, 0, 0, tick, &timing);
    RLAddTimer(loop, timer, kRLCommonModes);
    RLObserverRef observer = RLObserverCreate(kRLAllActivities, true, 0, note, NULL);
    RLAddObserver(loop, observer, "kCFRunLoopDefaultMode");
    while (count < 3) RLRunInMode(kRLDefaultMode, 0.1, true);
    RLTimerInvalidate(timer);

    RLMessagePortContext listening = {0, loop, NULL, NULL, NULL};
    bool freed = false;
    RLMessagePortRef local = RLMessagePortCreateLocal("cf2rl.test", answer, &listening, &freed);
    RLSourceRef arrivals = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(loop, arrivals, kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote("cf2rl.test");
    RLDataRef data = RLDataCreate((const uint8_t *)"\"abc\"", 5);
    if (RLMessagePortSendRequest(remote, 7, RLDataGetBytePtr(data), RLDataGetLength(data), 1, 0, NULL, NULL) != kRLMessagePortSuccess) return 1;
    if (RLMessagePortSendRequest(remote, 8, NULL, 0, 1, 0, NULL, NULL) != kRLMessagePortSuccess) return 1;
    int32_t result = RLRunInMode(kRLDefaultMode, 10, false);
    printf("stopped: %d, same types: %d\n", result == kRLRunStopped, RLGetTypeIDOf(source) == RLSourceGetTypeID());
    RLMessagePortInvalidate(local);
    RLRelease(data), RLRelease(remote), RLRelease(arrivals), RLRelease(local), RLRelease(observer), RLRelease(timer), RLRelease(source);
    return 0;
}

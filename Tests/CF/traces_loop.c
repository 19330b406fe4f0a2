/* SPDX-License-Identifier: MIT */
/* Loops, sources, timers and observers, as far as their functions have CoreFoundation's types. */
#include "traces.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MODE CFSTR("mode of the test")

static const void *sayRetain(const void *info) {
    say("retain:%s", (const char *)info);
    return info;
}
static void sayRelease(const void *info) { say("release:%s", (const char *)info); }
static CFStringRef describe(const void *info) { return CFStringCreateWithFormat(NULL, NULL, CFSTR("words of %s"), (const char *)info); }

static void sayMode(const char *name, CFRunLoopMode mode) {
    if (mode && CFEqual(mode, kCFRunLoopDefaultMode)) say("%s@default", name);
    else sayString(name, mode);
}
static void schedule(void *info, CFRunLoopRef loop, CFRunLoopMode mode) {
    yes("loop", loop == CFRunLoopGetCurrent());
    say("+%s", (const char *)info);
    sayMode("mode", mode);
}
static void cancel(void *info, CFRunLoopRef loop, CFRunLoopMode mode) {
    (void)loop;
    say("-%s", (const char *)info);
    sayMode("mode", mode);
}
static void perform(void *info) { say("!%s", (const char *)info); }

static CFRunLoopSourceContext sourceContext(const char *name) {
    CFRunLoopSourceContext context = {0, (void *)name, sayRetain, sayRelease, describe, NULL, NULL, schedule, cancel, perform};
    return context;
}

static void contains(CFTypeRef object, CFStringRef words) {
    CFStringRef description = CFCopyDescription(object);
    yes("described", CFStringFind(description, words, 0).location != kCFNotFound);
    CFRelease(description);
}

SCENARIO(sources_call_their_context, "S-CF-16") {
    CFRunLoopSourceContext context = sourceContext("s");
    CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 7, &context);
    number("order", CFRunLoopSourceGetOrder(source));
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    yes("contains", CFRunLoopContainsSource(CFRunLoopGetCurrent(), source, MODE));
    CFRunLoopSourceSignal(source);
    number("result", CFRunLoopRunInMode(MODE, 0, true));
    contains(source, CFSTR("words of s"));
    CFRunLoopSourceContext back = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    CFRunLoopSourceGetContext(source, &back);
    yes("info", back.info == context.info);
    yes("functions", back.retain == sayRetain && back.release == sayRelease && back.copyDescription == describe && back.equal == NULL &&
                         back.schedule == schedule && back.cancel == cancel && back.perform == perform);
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRunLoopSourceInvalidate(source);
    yes("valid", CFRunLoopSourceIsValid(source));
    CFRelease(source);
}

static Boolean sameLetter(const void *one, const void *two) { return *(const char *)one == *(const char *)two; }
static CFHashCode firstLetter(const void *one) { return (CFHashCode) * (const char *)one; }

SCENARIO(sources_are_equal_by_their_functions, "S-CF-16 S-SRC-5") {
    CFRunLoopSourceContext context = {0, (void *)"a1", NULL, NULL, NULL, sameLetter, firstLetter, NULL, NULL, perform};
    CFRunLoopSourceRef one = CFRunLoopSourceCreate(NULL, 0, &context);
    context.info = (void *)"a2";
    CFRunLoopSourceRef two = CFRunLoopSourceCreate(NULL, 0, &context);
    context.info = (void *)"b";
    CFRunLoopSourceRef other = CFRunLoopSourceCreate(NULL, 0, &context);
    yes("equal", CFEqual(one, two));
    yes("hashes", CFHash(one) == CFHash(two));
    yes("equal", CFEqual(one, other));
    CFRunLoopAddSource(CFRunLoopGetCurrent(), one, MODE);
    yes("contains", CFRunLoopContainsSource(CFRunLoopGetCurrent(), two, MODE));
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), two, MODE);
    yes("contains", CFRunLoopContainsSource(CFRunLoopGetCurrent(), one, MODE));
    /* Without functions, by info and perform. */
    CFRunLoopSourceContext plain = {0, (void *)"p", NULL, NULL, NULL, NULL, NULL, NULL, NULL, perform};
    CFRunLoopSourceRef p1 = CFRunLoopSourceCreate(NULL, 0, &plain), p2 = CFRunLoopSourceCreate(NULL, 0, &plain);
    yes("equal", CFEqual(p1, p2));
    plain.schedule = schedule;
    CFRunLoopSourceRef p3 = CFRunLoopSourceCreate(NULL, 0, &plain);
    yes("equal", CFEqual(p1, p3));
    plain.perform = NULL;
    CFRunLoopSourceRef p4 = CFRunLoopSourceCreate(NULL, 0, &plain);
    yes("equal", CFEqual(p1, p4));
    CFRelease(one), CFRelease(two), CFRelease(other), CFRelease(p1), CFRelease(p2), CFRelease(p3), CFRelease(p4);
}

static int thePort;
static __CFPort getPort(void *info) {
    (void)info;
    return thePort;
}

SCENARIO(port_sources_perform, "S-CF-16") {
    thePort = eventfd(0, EFD_CLOEXEC);
    CFRunLoopSourceContext1 context = {1, (void *)"port", sayRetain, sayRelease, NULL, NULL, NULL, getPort, perform};
    CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 0, (CFRunLoopSourceContext *)&context);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    eventfd_write(thePort, 1);
    number("result", CFRunLoopRunInMode(MODE, 10, true));
    CFRunLoopSourceContext1 back;
    memset(&back, 0, sizeof back);
    back.version = 1;
    CFRunLoopSourceGetContext(source, (CFRunLoopSourceContext *)&back);
    yes("functions", back.getPort == getPort && back.perform == perform && back.info == context.info);
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, MODE);
    CFRelease(source);
    close(thePort);
}

static void fire(CFRunLoopTimerRef timer, void *info) {
    say("fire:%s", (const char *)info);
    yes("repeats", CFRunLoopTimerDoesRepeat(timer));
}

static void runTimer(const char *name, CFStringRef (*copyDescription)(const void *info), CFTimeInterval interval) {
    CFRunLoopTimerContext context = {0, (void *)name, sayRetain, sayRelease, copyDescription};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() - 1, interval, 0, 3, fire, &context);
    number("order", CFRunLoopTimerGetOrder(timer));
    say("%g", CFRunLoopTimerGetInterval(timer));
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, MODE);
    if (copyDescription) contains(timer, CFSTR("words of"));
    CFRunLoopTimerContext back;
    memset(&back, 0, sizeof back);
    CFRunLoopTimerGetContext(timer, &back);
    yes("context", back.info == (void *)name && back.retain == sayRetain && back.copyDescription == copyDescription);
    number("result", CFRunLoopRunInMode(MODE, 0, false));
    yes("valid", CFRunLoopTimerIsValid(timer));
    CFRunLoopTimerInvalidate(timer);
    CFRunLoopTimerGetContext(timer, &back);
    yes("no info", back.info == NULL);
    CFRelease(timer);
}

SCENARIO(timers_hold_their_context, "S-CF-16 S-CF-18") {
    runTimer("plain", NULL, 0);
    runTimer("described", describe, 0);
    runTimer("repeating", describe, 1000);
}

static int copies;
static const void *copyInfo(const void *info) {
    copies++;
    return strdup((const char *)info);
}
static void freeInfo(const void *info) {
    copies--;
    free((void *)info);
}

SCENARIO(contexts_may_be_copied_at_each_retain, "S-CF-16") {
    CFRunLoopTimerContext context = {0, (void *)"copied", copyInfo, freeInfo, describe};
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() - 1, 0.001, 0, 0, fire, &context);
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, MODE);
    CFRunLoopRunInMode(MODE, 0, false);
    number("held", copies);
    CFRunLoopTimerInvalidate(timer);
    number("held", copies);
    CFRelease(timer);
}

static void observed(CFRunLoopObserverRef observer, CFRunLoopActivity activity, void *info) {
    (void)observer;
    say("%s%lu", (const char *)info, (unsigned long)activity);
}

static void runObserver(const char *name, CFStringRef (*copyDescription)(const void *info), Boolean repeats) {
    CFRunLoopObserverContext context = {0, (void *)name, sayRetain, sayRelease, copyDescription};
    CFRunLoopObserverRef observer = CFRunLoopObserverCreate(NULL, kCFRunLoopAllActivities, repeats, 2, observed, &context);
    say("%lx", CFRunLoopObserverGetActivities(observer));
    yes("repeats", CFRunLoopObserverDoesRepeat(observer));
    number("order", CFRunLoopObserverGetOrder(observer));
    CFRunLoopAddObserver(CFRunLoopGetCurrent(), observer, MODE);
    yes("contains", CFRunLoopContainsObserver(CFRunLoopGetCurrent(), observer, MODE));
    CFRunLoopSourceContext keep = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 0, &keep);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    if (copyDescription) contains(observer, CFSTR("words of"));
    number("result", CFRunLoopRunInMode(MODE, 0, false));
    yes("valid", CFRunLoopObserverIsValid(observer));
    CFRunLoopRemoveObserver(CFRunLoopGetCurrent(), observer, MODE);
    CFRunLoopObserverInvalidate(observer);
    CFRunLoopRemoveSource(CFRunLoopGetCurrent(), source, MODE);
    CFRelease(observer), CFRelease(source);
}

SCENARIO(observers_hold_their_context, "S-CF-16") {
    runObserver("a", NULL, true);
    runObserver("b", describe, true);
    runObserver("c", describe, false);
}

static int byText(const void *one, const void *two) { return strcmp(*(char *const *)one, *(char *const *)two); }

SCENARIO(modes_are_strings, "S-CF-15") {
    CFRunLoopRef loop = CFRunLoopGetCurrent();
    yes("same", loop == CFRunLoopGetCurrent() && loop == CFRunLoopGetMain());
    yes("none", CFRunLoopCopyCurrentMode(loop) == NULL);
    CFMutableStringRef built = CFStringCreateMutable(NULL, 0);
    CFStringAppend(built, CFSTR("mode of "));
    CFStringAppend(built, CFSTR("the test"));
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() + 1000, 0, 0, 0, fire, NULL);
    CFRunLoopAddTimer(loop, timer, built);
    CFStringRef umlaut = CFStringCreateWithCString(NULL, "\303\244\342\202\254", kCFStringEncodingUTF8);
    CFRunLoopAddTimer(loop, timer, umlaut);
    yes("contains", CFRunLoopContainsTimer(loop, timer, MODE));
    yes("contains", CFRunLoopContainsTimer(loop, timer, kCFRunLoopDefaultMode));
    CFArrayRef modes = CFRunLoopCopyAllModes(loop);
    char *names[8];
    CFIndex count = CFArrayGetCount(modes);
    for (CFIndex index = 0; index < count && index < 8; index++) {
        names[index] = (char *)malloc(64);
        CFStringGetCString((CFStringRef)CFArrayGetValueAtIndex(modes, index), names[index], 64, kCFStringEncodingUTF8);
    }
    qsort(names, (size_t)count, sizeof *names, byText);
    for (CFIndex index = 0; index < count; index++) say("[%s]", names[index]), free(names[index]);
    yes("next", CFRunLoopGetNextTimerFireDate(loop, MODE) > CFAbsoluteTimeGetCurrent());
    CFRunLoopAddCommonMode(loop, MODE);
    CFRunLoopTimerRef common = CFRunLoopTimerCreate(NULL, CFAbsoluteTimeGetCurrent() + 1000, 0, 0, 0, fire, NULL);
    CFRunLoopAddTimer(loop, common, kCFRunLoopCommonModes);
    yes("common", CFRunLoopContainsTimer(loop, common, MODE));
    CFRunLoopRemoveTimer(loop, common, kCFRunLoopCommonModes);
    yes("common", CFRunLoopContainsTimer(loop, common, MODE));
    number("run", CFRunLoopRunInMode(umlaut, 0, false));
    number("missing", CFRunLoopRunInMode(CFSTR("missing"), 1, false));
    CFRelease(modes), CFRelease(timer), CFRelease(common), CFRelease(built), CFRelease(umlaut);
}

static void sayCurrentMode(void *info) {
    (void)info;
    CFRunLoopMode mode = CFRunLoopCopyCurrentMode(CFRunLoopGetCurrent());
    sayMode("current", mode);
    CFRelease(mode);
}

SCENARIO(the_current_mode_is_told, "S-CF-15") {
    CFRunLoopSourceContext context = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, sayCurrentMode};
    CFRunLoopSourceRef source = CFRunLoopSourceCreate(NULL, 0, &context);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, MODE);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRunLoopSourceSignal(source);
    CFRunLoopRunInMode(MODE, 0, true);
    CFRunLoopSourceSignal(source);
    CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, true);
    CFRelease(source);
}

#if defined(__BLOCKS__)
SCENARIO(blocks_run_in_their_modes, "S-CF-17") {
    CFRunLoopRef loop = CFRunLoopGetCurrent();
    const void *names[] = {MODE, CFSTR("other")};
    CFArrayRef array = CFArrayCreate(NULL, names, 2, &kCFTypeArrayCallBacks);
    CFRunLoopPerformBlock(loop, MODE, ^{ say("string"); });
    CFRunLoopPerformBlock(loop, array, ^{ say("array"); });
    CFRunLoopPerformBlock(loop, CFSTR("other"), ^{ say("other"); });
    CFRunLoopPerformBlock(loop, kCFRunLoopCommonModes, ^{ say("common"); });
    CFRunLoopRunInMode(MODE, 0, false);
    say("|");
    CFRunLoopRunInMode(CFSTR("other"), 0, false);
    say("|");
    CFRunLoopRunInMode(kCFRunLoopDefaultMode, 0, false);
    CFRelease(array);
}

SCENARIO(handlers_are_called, "S-CF-17") {
    __block int left = 2;
    CFRunLoopTimerRef timer = CFRunLoopTimerCreateWithHandler(NULL, CFAbsoluteTimeGetCurrent() - 1, 0.001, 0, 0, ^(CFRunLoopTimerRef it) {
        say("timer");
        if (--left == 0) CFRunLoopTimerInvalidate(it);
    });
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, MODE);
    CFRunLoopObserverRef observer = CFRunLoopObserverCreateWithHandler(
        NULL, kCFRunLoopEntry | kCFRunLoopExit, true, 0, ^(CFRunLoopObserverRef it, CFRunLoopActivity activity) {
            yes("same", CFRunLoopObserverIsValid(it));
            number("activity", activity);
        });
    CFRunLoopAddObserver(CFRunLoopGetCurrent(), observer, MODE);
    number("result", CFRunLoopRunInMode(MODE, 10, false));
    CFRelease(timer), CFRelease(observer);
}

SCENARIO(handlers_may_be_null, "S-TMR-49 S-OBS-20") {
    CFRunLoopTimerRef timer = CFRunLoopTimerCreateWithHandler(NULL, 1e12, 0, 0, 0, NULL);
    CFRunLoopObserverRef observer = CFRunLoopObserverCreateWithHandler(NULL, kCFRunLoopAllActivities, true, 7, NULL);
    yes("timer", CFRunLoopTimerIsValid(timer));
    yes("observer", CFRunLoopObserverIsValid(observer));
    CFRunLoopAddTimer(CFRunLoopGetCurrent(), timer, MODE);
    number("result", CFRunLoopRunInMode(MODE, 0, false));
    number("order", CFRunLoopObserverGetOrder(observer));
    CFRelease(timer), CFRelease(observer);
}
#endif

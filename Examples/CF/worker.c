/* SPDX-License-Identifier: MIT */
/*
 * A program for the Mac, unchanged: a worker thread with a run loop of its own. It checks in at the main thread's message port, is given
 * commands by a custom source, and counts the passes of its loop with an observer.
 */
#include <CoreFoundation/CoreFoundation.h>
#include <pthread.h>
#include <unistd.h>

/* Commands for the worker, and the source that tells of them; the worker sets it before it checks in. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CFMutableArrayRef commands; /* guarded by lock */
static CFRunLoopSourceRef source;
static CFRunLoopRef workersLoop;

static void give(CFStringRef command) {
    pthread_mutex_lock(&lock);
    CFArrayAppendValue(commands, command);
    pthread_mutex_unlock(&lock);
    CFRunLoopSourceSignal(source);
    CFRunLoopWakeUp(workersLoop);
}

static void scheduled(void *info, CFRunLoopRef loop, CFRunLoopMode mode) {
    (void)info, (void)loop;
    CFShow(mode);
}

static void perform(void *info) {
    (void)info;
    pthread_mutex_lock(&lock);
    CFArrayRef taken = CFArrayCreateCopy(kCFAllocatorDefault, commands);
    CFArrayRemoveAllValues(commands);
    pthread_mutex_unlock(&lock);
    for (CFIndex index = 0; index < CFArrayGetCount(taken); index++) {
        CFStringRef command = CFArrayGetValueAtIndex(taken, index);
        CFStringRef line = CFStringCreateWithFormat(NULL, NULL, CFSTR("worker: %@"), command);
        CFShow(line);
        CFRelease(line);
        if (CFEqual(command, CFSTR("quit"))) CFRunLoopStop(CFRunLoopGetCurrent());
    }
    CFRelease(taken);
}

static void passed(CFRunLoopObserverRef observer, CFRunLoopActivity activity, void *info) {
    (void)observer, (void)activity;
    ++*(int *)info;
}

static void *work(void *name) {
    int passes = 0;
    CFRunLoopObserverContext counter = {0, &passes, NULL, NULL, NULL};
    CFRunLoopObserverRef observer = CFRunLoopObserverCreate(NULL, kCFRunLoopBeforeSources, true, 0, passed, &counter);
    CFRunLoopAddObserver(CFRunLoopGetCurrent(), observer, kCFRunLoopDefaultMode);
    CFRunLoopSourceContext context = {0, NULL, NULL, NULL, NULL, NULL, NULL, scheduled, NULL, perform};
    pthread_mutex_lock(&lock);
    source = CFRunLoopSourceCreate(NULL, 0, &context);
    workersLoop = CFRunLoopGetCurrent();
    pthread_mutex_unlock(&lock);
    CFRunLoopAddSource(workersLoop, source, kCFRunLoopDefaultMode);
    CFMessagePortRef port = CFMessagePortCreateRemote(NULL, name);
    CFDataRef greeting = CFDataCreate(NULL, (const UInt8 *)"ready", 5);
    if (CFMessagePortSendRequest(port, 100, greeting, 1, 1, NULL, NULL) != kCFMessagePortSuccess) exit(1);
    CFRelease(greeting), CFRelease(port);
    CFRunLoopRun();
    printf("worker: ends, %s\n", passes > 0 ? "after some passes" : "without a pass");
    CFRelease(observer);
    return NULL;
}

static CFDataRef checkedIn(CFMessagePortRef port, SInt32 message, CFDataRef data, void *info) {
    (void)port;
    printf("main: message %d, \"%.*s\"\n", (int)message, (int)CFDataGetLength(data), (const char *)CFDataGetBytePtr(data));
    CFRunLoopStop(info);
    return NULL;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    commands = CFArrayCreateMutable(kCFAllocatorDefault, 0, &kCFTypeArrayCallBacks);
    CFStringRef name = CFStringCreateWithFormat(NULL, NULL, CFSTR("example.worker.%d"), (int)getpid());
    CFMessagePortContext context = {0, CFRunLoopGetMain(), NULL, NULL, NULL};
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, checkedIn, &context, NULL);
    CFRunLoopSourceRef arrivals = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    CFRunLoopAddSource(CFRunLoopGetMain(), arrivals, kCFRunLoopDefaultMode);
    pthread_t thread;
    pthread_create(&thread, NULL, work, (void *)name);
    CFRunLoopRunInMode(kCFRunLoopDefaultMode, 30, false);
    give(CFSTR("count"));
    give(CFSTR("quit"));
    pthread_join(thread, NULL);
    CFMessagePortInvalidate(port);
    CFRelease(arrivals), CFRelease(port), CFRelease(name), CFRelease(source), CFRelease(commands);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * What listings 3-17 to 3-19 of Apple's Threading Programming Guide leave to their reader, and the Mac's tasks, which are threads here.
 * LISTINGS is a file with the three as they stand. The main thread spawns the worker, hears of its port, asks it a question and has the
 * answer (S-CF-20, S-CF-24).
 */
#include <CoreFoundation/CoreFoundation.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define nil NULL
typedef int MPTaskID;

enum { question = 1, end = 2 };
static CFMessagePortRef worker; /* main thread's */
static pthread_t thread;        /* main thread's */

static MPTaskID MPCurrentTaskID(void) { return 1; }
static void MPExit(OSStatus status) { pthread_exit((void *)(long)status); }

typedef struct {
    OSStatus (*entry)(void *);
    void *parameter;
} Task;

static void *run(void *task) {
    Task own = *(Task *)task;
    free(task);
    own.entry(own.parameter); /* it has no value: the listing's function ends without a return */
    return NULL;
}

static OSStatus MPCreateTask(OSStatus (*entry)(void *), void *parameter, unsigned long stack, void *queue, void *first, void *second,
                             UInt32 options, MPTaskID *identifier) {
    (void)queue, (void)first, (void)second, (void)options;
    Task *task = malloc(sizeof *task);
    *task = (Task){entry, parameter};
    *identifier = 1;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    return pthread_create(&thread, &attributes, run, task);
}

static void AddPortToListOfActiveThreads(CFMessagePortRef port) { worker = (CFMessagePortRef)CFRetain(port); }

static CFDataRef ProcessClientRequest(CFMessagePortRef local, SInt32 msgid, CFDataRef data, void *info) {
    (void)info;
    if (msgid == question) return CFDataCreateCopy(NULL, data);
    CFMessagePortInvalidate(local);
    return NULL;
}

CFDataRef MainThreadResponseHandler(CFMessagePortRef local, SInt32 msgid, CFDataRef data, void *info);
OSStatus ServerThreadEntryPoint(void *parameter);

#include LISTINGS

static void require(Boolean condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

int main(void) {
    require(MySpawnThread() == 0, "the thread is spawned");
    CFAbsoluteTime limit = CFAbsoluteTimeGetCurrent() + 30;
    while (!worker && CFAbsoluteTimeGetCurrent() < limit) CFRunLoopRunInMode(kCFRunLoopDefaultMode, 1, TRUE);
    require(worker != NULL, "the worker checks in");

    CFDataRef text = CFDataCreate(NULL, (const UInt8 *)"six times seven", 15), reply = NULL;
    SInt32 status = CFMessagePortSendRequest(worker, question, text, 10, 30, kCFRunLoopDefaultMode, &reply);
    require(status == kCFMessagePortSuccess && reply && CFEqual(text, reply), "the worker answers");
    require(CFMessagePortSendRequest(worker, end, NULL, 10, 0, NULL, NULL) == kCFMessagePortSuccess, "the worker gets its last message");
    pthread_join(thread, NULL); /* its loop has no port any more */
    CFRelease(text), CFRelease(reply), CFRelease(worker);
    puts("checked in, answered, ended");
    return 0;
}

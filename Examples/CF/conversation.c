/* SPDX-License-Identifier: MIT */
/*
 * A program for the Mac, unchanged: the main thread and a worker thread talk by message ports. The worker gets the name of the main
 * thread's port, makes a port of its own and checks in with that port's name; from then on the main thread gives it work. Both release
 * a port as soon as its source is in their loop, which keeps it.
 */
#include <CoreFoundation/CoreFoundation.h>
#include <pthread.h>
#include <unistd.h>

enum { checkIn = 100, work = 101, result = 102, end = 103 };
static CFMessagePortRef worker; /* main thread's */
static CFIndex results;         /* main thread's */

/* A port with that name, served by the calling thread's loop. */
static Boolean serve(CFStringRef name, CFMessagePortCallBack callBack, void *info) {
    CFMessagePortContext context = {0, info, NULL, NULL, NULL};
    Boolean shouldFreeInfo;
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, callBack, &context, &shouldFreeInfo);
    if (!port || shouldFreeInfo) return FALSE;
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    if (!source) return FALSE;
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(port), CFRelease(source);
    return TRUE;
}

/* Sends a text and waits for no answer. */
static void tell(CFMessagePortRef port, SInt32 message, CFStringRef text) {
    CFIndex length = CFStringGetLength(text);
    UInt8 *bytes = CFAllocatorAllocate(NULL, length, 0);
    CFStringGetBytes(text, CFRangeMake(0, length), kCFStringEncodingASCII, 0, FALSE, bytes, length, NULL);
    CFDataRef data = CFDataCreate(NULL, bytes, length);
    SInt32 status = CFMessagePortSendRequest(port, message, data, 5, 0, NULL, NULL);
    if (status != kCFMessagePortSuccess) printf("a message was not sent: %d\n", (int)status);
    CFRelease(data);
    CFAllocatorDeallocate(NULL, bytes);
}

static CFStringRef textOf(CFDataRef data) {
    CFIndex length = CFDataGetLength(data);
    UInt8 *bytes = CFAllocatorAllocate(NULL, length, 0);
    CFDataGetBytes(data, CFRangeMake(0, length), bytes);
    CFStringRef text = CFStringCreateWithBytes(NULL, bytes, length, kCFStringEncodingASCII, FALSE);
    CFAllocatorDeallocate(NULL, bytes);
    return text;
}

static CFDataRef workerReceives(CFMessagePortRef port, SInt32 message, CFDataRef data, void *mainPort) {
    if (message == end) {
        CFMessagePortInvalidate(port);
        CFRunLoopStop(CFRunLoopGetCurrent());
        return NULL;
    }
    CFStringRef text = textOf(data);
    CFStringRef answer = CFStringCreateWithFormat(NULL, NULL, CFSTR("%@ has %d letters"), text, (int)CFStringGetLength(text));
    tell(mainPort, result, answer);
    CFRelease(answer), CFRelease(text);
    return NULL;
}

static void *workerMain(void *mainName) {
    CFMessagePortRef mainPort = CFMessagePortCreateRemote(NULL, mainName);
    CFRelease(mainName);
    CFStringRef name = CFStringCreateWithFormat(NULL, NULL, CFSTR("example.conversation.worker.%d"), (int)getpid());
    if (mainPort && serve(name, workerReceives, mainPort)) {
        tell(mainPort, checkIn, name);
        CFRunLoopRun();
    }
    CFRelease(name), CFRelease(mainPort);
    return NULL;
}

static CFDataRef mainReceives(CFMessagePortRef port, SInt32 message, CFDataRef data, void *info) {
    (void)info;
    CFStringRef text = textOf(data);
    if (message == checkIn) {
        worker = CFMessagePortCreateRemote(NULL, text);
        tell(worker, work, CFSTR("timer"));
        tell(worker, work, CFSTR("observer"));
    } else if (message == result) {
        CFShow(text);
        if (++results == 2) {
            tell(worker, end, CFSTR(""));
            CFMessagePortInvalidate(port);
        }
    }
    CFRelease(text);
    return NULL;
}

int main(void) {
    CFStringRef name = CFStringCreateWithFormat(NULL, NULL, CFSTR("example.conversation.%d"), (int)getpid());
    if (!serve(name, mainReceives, NULL)) return 1;
    pthread_t thread;
    pthread_create(&thread, NULL, workerMain, (void *)name);
    /* Until the port is invalid, and with it the last source of the mode. */
    while (CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, TRUE) == kCFRunLoopRunHandledSource) {}
    pthread_join(thread, NULL);
    CFRelease(worker);
    return results == 2 ? 0 : 1;
}

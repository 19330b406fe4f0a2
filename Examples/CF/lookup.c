/* SPDX-License-Identifier: MIT */
/*
 * A program for the Mac, unchanged: a server and a client in two processes talk by a message port. The server keeps words in a dictionary;
 * the client stores two, asks for them, and tells the server to end.
 */
#include <CoreFoundation/CoreFoundation.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kStore = 1, kLookUp = 2, kQuit = 3 };

static CFStringRef textOf(CFDataRef data) { return CFStringCreateFromExternalRepresentation(NULL, data, kCFStringEncodingUTF8); }
static CFDataRef dataOf(CFStringRef text) { return CFStringCreateExternalRepresentation(NULL, text, kCFStringEncodingUTF8, 0); }

static CFDataRef serve(CFMessagePortRef port, SInt32 request, CFDataRef data, void *info) {
    CFMutableDictionaryRef words = info;
    if (request == kQuit) {
        CFMessagePortInvalidate(port);
        CFRunLoopStop(CFRunLoopGetCurrent());
        return NULL;
    }
    CFStringRef text = textOf(data);
    CFDataRef reply = NULL;
    if (request == kStore) {
        CFArrayRef parts = CFStringCreateArrayBySeparatingStrings(NULL, text, CFSTR("="));
        if (CFArrayGetCount(parts) == 2) CFDictionarySetValue(words, CFArrayGetValueAtIndex(parts, 0), CFArrayGetValueAtIndex(parts, 1));
        CFRelease(parts);
    } else {
        CFStringRef found = CFDictionaryGetValue(words, text);
        reply = dataOf(found ? found : CFSTR("(nothing)"));
    }
    CFRelease(text);
    return reply;
}

static int server(CFStringRef name, int ready) {
    CFMutableDictionaryRef words = CFDictionaryCreateMutable(NULL, 0, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
    CFMessagePortContext context = {0, words, CFRetain, CFRelease, NULL};
    CFMessagePortRef port = CFMessagePortCreateLocal(NULL, name, serve, &context, NULL);
    CFRunLoopSourceRef source = CFMessagePortCreateRunLoopSource(NULL, port, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(source), CFRelease(words);
    if (write(ready, "r", 1) != 1) return 1;
    CFRunLoopRun(); /* until it is stopped: where the main dispatch queue is served, the main loop always has something to wait for */
    puts("server: ends");
    CFRelease(port);
    return 0;
}

static void ask(CFMessagePortRef port, SInt32 request, CFStringRef text) {
    CFDataRef data = dataOf(text), reply = NULL;
    SInt32 error = CFMessagePortSendRequest(port, request, data, 5, 5, request == kLookUp ? kCFRunLoopDefaultMode : NULL, &reply);
    if (error) printf("client: error %d\n", (int)error);
    if (reply) {
        CFStringRef answer = textOf(reply), line = CFStringCreateWithFormat(NULL, NULL, CFSTR("client: %@ is %@"), text, answer);
        char bytes[128];
        if (CFStringGetCString(line, bytes, sizeof bytes, kCFStringEncodingUTF8)) puts(bytes);
        CFRelease(answer), CFRelease(line), CFRelease(reply);
    }
    CFRelease(data);
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    CFStringRef name = CFStringCreateWithFormat(NULL, NULL, CFSTR("example.lookup.%d"), (int)getpid());
    int ready[2];
    char byte;
    if (pipe(ready) < 0) return 1;
    pid_t child = fork();
    if (child == 0) return server(name, ready[1]);
    if (read(ready[0], &byte, 1) != 1) return 1;
    CFMessagePortRef port = CFMessagePortCreateRemote(NULL, name);
    ask(port, kStore, CFSTR("one=eins"));
    ask(port, kStore, CFSTR("green=gr\303\274n"));
    ask(port, kLookUp, CFSTR("one"));
    ask(port, kLookUp, CFSTR("green"));
    ask(port, kLookUp, CFSTR("three"));
    ask(port, kQuit, CFSTR(""));
    int status = 1;
    waitpid(child, &status, 0);
    CFRelease(port), CFRelease(name);
    return status;
}

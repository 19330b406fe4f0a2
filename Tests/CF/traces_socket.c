/* SPDX-License-Identifier: MIT */
/* Sockets: data, addresses and contexts in CoreFoundation's types. */
#include "traces.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static const void *sayRetain(const void *info) {
    say("retain:%s", (const char *)info);
    return info;
}
static void sayRelease(const void *info) { say("release:%s", (const char *)info); }
static CFStringRef describe(const void *info) { return CFStringCreateWithFormat(NULL, NULL, CFSTR("words of %s"), (const char *)info); }

static CFDataRef kept;

static void called(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address, const void *data, void *info) {
    yes("valid", CFSocketIsValid(socket));
    say("%s:%lu", (const char *)info, (unsigned long)type);
    if (type == kCFSocketDataCallBack) {
        CFDataRef bytes = (CFDataRef)data;
        say("[%.*s]", (int)CFDataGetLength(bytes), (const char *)CFDataGetBytePtr(bytes));
        yes("data", CFGetTypeID(bytes) == CFDataGetTypeID());
        if (CFDataGetLength(bytes) > 0 && !kept) kept = (CFDataRef)CFRetain(bytes);
        number("address", address ? CFDataGetLength(address) : -1);
    }
    if (type == kCFSocketAcceptCallBack) {
        number("peer", CFDataGetLength(address));
        close(*(const CFSocketNativeHandle *)data);
    }
    if (type == kCFSocketConnectCallBack) yes("connected", data == NULL);
}

static void add(CFSocketRef socket) {
    CFRunLoopSourceRef source = CFSocketCreateRunLoopSource(NULL, socket, 0);
    CFRunLoopAddSource(CFRunLoopGetCurrent(), source, kCFRunLoopDefaultMode);
    CFRelease(source);
}

SCENARIO(data_come_as_objects, "S-CF-14") {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return;
    CFSocketContext context = {0, (void *)"data", sayRetain, sayRelease, describe};
    CFSocketRef socket = CFSocketCreateWithNative(NULL, ends[0], kCFSocketDataCallBack, called, &context);
    yes("again", CFSocketCreateWithNative(NULL, ends[0], kCFSocketReadCallBack, NULL, NULL) == socket);
    CFRelease(socket);
    CFStringRef description = CFCopyDescription(socket);
    yes("described", CFStringFind(description, CFSTR("words of data"), 0).location != kCFNotFound);
    CFRelease(description);
    CFSocketContext back;
    memset(&back, 0, sizeof back);
    CFSocketGetContext(socket, &back);
    yes("context", back.info == context.info && back.retain == sayRetain && back.copyDescription == describe);
    number("native", CFSocketGetNative(socket) - ends[0]);
    say("%lx", CFSocketGetSocketFlags(socket));
    add(socket);
    if (write(ends[1], "hello", 5) != 5) return;
    number("result", CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true));
    say("kept [%.*s]", (int)CFDataGetLength(kept), (const char *)CFDataGetBytePtr(kept));
    CFRelease(kept);
    close(ends[1]);
    number("result", CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true));
    yes("valid", CFSocketIsValid(socket));
    CFRelease(socket);
}

static CFDataRef loopback(int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    return CFDataCreate(NULL, (const UInt8 *)&address, sizeof address);
}

SCENARIO(connections_are_made_and_taken, "S-CF-14") {
    CFDataRef any = loopback(0);
    CFSocketContext context = {0, (void *)"server", NULL, NULL, NULL};
    CFSocketSignature signature = {PF_INET, SOCK_STREAM, IPPROTO_TCP, any};
    CFSocketRef server = CFSocketCreateWithSocketSignature(NULL, &signature, kCFSocketAcceptCallBack, called, &context);
    CFDataRef address = CFSocketCopyAddress(server);
    number("address", CFDataGetLength(address));
    yes("no peer", CFSocketCopyPeerAddress(server) == NULL);
    add(server);
    context.info = (void *)"client";
    CFSocketRef client = CFSocketCreate(NULL, PF_INET, SOCK_STREAM, IPPROTO_TCP, kCFSocketConnectCallBack, called, &context);
    add(client);
    /* Mutable data are addresses as well. */
    CFMutableDataRef copy = CFDataCreateMutableCopy(NULL, 0, address);
    number("connect", CFSocketConnectToAddress(client, copy, -1));
    for (int passes = 0; passes < 2; passes++) number("result", CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true));
    CFDataRef peer = CFSocketCopyPeerAddress(client);
    yes("peer", CFEqual(peer, address));
    CFSocketInvalidate(client), CFSocketInvalidate(server);
    number("send", CFSocketSendData(client, NULL, address, 1));
    CFRelease(peer), CFRelease(copy), CFRelease(client), CFRelease(server), CFRelease(address), CFRelease(any);
}

SCENARIO(datagrams_are_sent, "S-CF-14") {
    CFDataRef any = loopback(0);
    CFSocketContext context = {0, (void *)"udp", NULL, NULL, NULL};
    CFSocketRef receiver = CFSocketCreate(NULL, PF_INET, SOCK_DGRAM, IPPROTO_UDP, kCFSocketDataCallBack, called, &context);
    number("set", CFSocketSetAddress(receiver, any));
    CFDataRef address = CFSocketCopyAddress(receiver);
    add(receiver);
    CFSocketRef sender = CFSocketCreate(NULL, PF_INET, SOCK_DGRAM, IPPROTO_UDP, kCFSocketNoCallBack, NULL, NULL);
    CFDataRef hello = CFDataCreate(NULL, (const UInt8 *)"datagram", 8);
    number("send", CFSocketSendData(sender, address, hello, 1));
    number("result", CFRunLoopRunInMode(kCFRunLoopDefaultMode, 10, true));
    CFSocketInvalidate(sender), CFSocketInvalidate(receiver);
    CFRelease(hello), CFRelease(address), CFRelease(any), CFRelease(sender), CFRelease(receiver);
}

SCENARIO(the_name_registry_has_no_server, "S-SOCK-49") {
    number("port", CFSocketGetDefaultNameRegistryPortNumber());
    CFSocketSetDefaultNameRegistryPortNumber(1234);
    number("port", CFSocketGetDefaultNameRegistryPortNumber());
    sayString("key", kCFSocketCommandKey);
    sayString("name", kCFSocketNameKey);
    sayString("value", kCFSocketValueKey);
    sayString("result", kCFSocketResultKey);
    sayString("error", kCFSocketErrorKey);
    sayString("register", kCFSocketRegisterCommand);
    sayString("retrieve", kCFSocketRetrieveCommand);
}

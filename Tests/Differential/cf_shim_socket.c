/* SPDX-License-Identifier: MIT */
/* See cf_shim.h: socket.h over CFSocket. */
#include "cf_shim.h"

static CFSocketRef cfSocket(RLSocketRef s) { return (CFSocketRef)s; }

static const CFSocketContext *cfContext(const RLSocketContext *context, CFSocketContext *cf) {
    if (!context) return NULL;
    *cf = (CFSocketContext){0, context->info, context->retain, context->release, NULL};
    return cf;
}

static CFDataRef data(const void *bytes, size_t length) {
    return bytes ? CFDataCreate(kCFAllocatorDefault, bytes, (CFIndex)length) : NULL;
}

RLTypeID RLSocketGetTypeID(void) { return CFSocketGetTypeID(); }

RLSocketRef RLSocketCreate(int32_t family, int32_t type, int32_t protocol, RLOptionFlags types,
                           RLSocketCallBack callout, const RLSocketContext *context) {
    CFSocketContext cf;
    return (RLSocketRef)CFSocketCreate(kCFAllocatorDefault, family, type, protocol, types,
                                       (CFSocketCallBack)(void *)callout, cfContext(context, &cf));
}

RLSocketRef RLSocketCreateWithNative(RLSocketNativeHandle sock, RLOptionFlags types, RLSocketCallBack callout,
                                     const RLSocketContext *context) {
    CFSocketContext cf;
    return (RLSocketRef)CFSocketCreateWithNative(kCFAllocatorDefault, sock, types,
                                                 (CFSocketCallBack)(void *)callout, cfContext(context, &cf));
}

RLSocketError RLSocketSetAddress(RLSocketRef s, const void *address, size_t length) {
    CFDataRef bytes = data(address, length);
    RLSocketError result = s ? (RLSocketError)CFSocketSetAddress(cfSocket(s), bytes) : kRLSocketError;
    if (bytes) CFRelease(bytes);
    return result;
}

RLSocketError RLSocketConnectToAddress(RLSocketRef s, const void *address, size_t length, RLTimeInterval timeout) {
    CFDataRef bytes = data(address, length);
    RLSocketError result = s ? (RLSocketError)CFSocketConnectToAddress(cfSocket(s), bytes, timeout) : kRLSocketError;
    if (bytes) CFRelease(bytes);
    return result;
}

void RLSocketInvalidate(RLSocketRef s) {
    if (s) CFSocketInvalidate(cfSocket(s));
}
bool RLSocketIsValid(RLSocketRef s) { return s && CFSocketIsValid(cfSocket(s)); }
RLDataRef RLSocketCopyAddress(RLSocketRef s) { return s ? (RLDataRef)CFSocketCopyAddress(cfSocket(s)) : NULL; }
RLDataRef RLSocketCopyPeerAddress(RLSocketRef s) {
    return s ? (RLDataRef)CFSocketCopyPeerAddress(cfSocket(s)) : NULL;
}
RLSocketNativeHandle RLSocketGetNative(RLSocketRef s) { return s ? CFSocketGetNative(cfSocket(s)) : -1; }
RLSourceRef RLSocketCreateRunLoopSource(RLSocketRef s, RLIndex order) {
    return s ? (RLSourceRef)CFSocketCreateRunLoopSource(kCFAllocatorDefault, cfSocket(s), order) : NULL;
}
RLOptionFlags RLSocketGetSocketFlags(RLSocketRef s) { return s ? CFSocketGetSocketFlags(cfSocket(s)) : 0; }
void RLSocketSetSocketFlags(RLSocketRef s, RLOptionFlags flags) {
    if (s) CFSocketSetSocketFlags(cfSocket(s), flags);
}
void RLSocketDisableCallBacks(RLSocketRef s, RLOptionFlags types) {
    if (s) CFSocketDisableCallBacks(cfSocket(s), types);
}
void RLSocketEnableCallBacks(RLSocketRef s, RLOptionFlags types) {
    if (s) CFSocketEnableCallBacks(cfSocket(s), types);
}

RLSocketError RLSocketSendData(RLSocketRef s, const void *address, size_t addressLength, const void *bytes,
                               size_t length, RLTimeInterval timeout) {
    CFDataRef to = data(address, addressLength), what = data(bytes, length);
    RLSocketError result = s && what ? (RLSocketError)CFSocketSendData(cfSocket(s), to, what, timeout) : kRLSocketError;
    if (to) CFRelease(to);
    if (what) CFRelease(what);
    return result;
}

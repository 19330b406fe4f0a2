/* SPDX-License-Identifier: MIT */
/* Over RLSocket: the loop accepts, reads and queues. */
#include "server.h"

#include <runloop/runloop.h>

static void echo(RLSocketRef socket, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)peer, (void)info;
    if (type == kRLSocketWriteCallBack) RLSocketEnableCallBacks(socket, kRLSocketDataCallBack);
    else if (RLSocketWrite(socket, RLDataGetBytePtr(data), RLDataGetLength(data), 65536) > 0)
        RLSocketDisableCallBacks(socket, kRLSocketDataCallBack);
}

static void take(RLSocketRef listener, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)listener, (void)type, (void)peer, (void)info;
    RLSocketRef socket = RLSocketCreateWithNative(*(const int *)data, kRLSocketDataCallBack | kRLSocketWriteCallBack, echo, NULL);
    RLSourceRef source = RLSocketCreateRunLoopSource(socket, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRelease(socket);
}

int main(int count, char **arguments) {
    struct sockaddr_in address = server_address(count, arguments);
    RLSocketRef listener = RLSocketCreate(PF_INET, SOCK_STREAM, 0, kRLSocketAcceptCallBack, take, NULL);
    if (RLSocketListen(listener, &address, sizeof address, kRLSocketReuseAddress | kRLSocketNoDelay, SERVER_BACKLOG) != 0) return 1;
    RLAddSource(RLGetCurrent(), RLSocketCreateRunLoopSource(listener, 0), kRLDefaultMode);
    RLRun();
    return 0;
}

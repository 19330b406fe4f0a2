/*
 * An echo server: a listening socket whose Accept callback makes a socket of each connection, and Data
 * callbacks that send back what came. All of it is one thread in one run loop. The first argument is the
 * number of connections to serve before it ends, the second the port (0: any, which it prints).
 */
#include <runloop/runloop.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

static int connections_left;

static void echo(RLSocketRef connection, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)type;
    (void)peer;
    (void)info;
    RLDataRef chunk = data;
    if (RLDataGetLength(chunk) > 0) {
        /* A peer that does not read for ten seconds is given up. */
        if (RLSocketSendData(connection, NULL, 0, RLDataGetBytePtr(chunk), RLDataGetLength(chunk), 10) ==
            kRLSocketSuccess)
            return;
        RLSocketInvalidate(connection);
    }
    /* The end of the stream: after this call the socket closes itself. */
    printf("closed\n");
    if (--connections_left == 0) RLStop(RLGetCurrent());
}

static void greet(RLSocketRef listener, RLSocketCallBackType type, RLDataRef peer, const void *data, void *info) {
    (void)listener;
    (void)type;
    (void)info;
    char host[INET_ADDRSTRLEN];
    const struct sockaddr_in *address = RLDataGetBytePtr(peer);
    printf("connection from %s\n", inet_ntop(AF_INET, &address->sin_addr, host, sizeof host));
    RLSocketRef connection = RLSocketCreateWithNative(*(const int *)data, kRLSocketDataCallBack, echo, NULL);
    RLSourceRef source = RLSocketCreateRunLoopSource(connection, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRelease(connection); /* it lives until it is invalidated */
}

int main(int count, char **arguments) {
    connections_left = count > 1 ? atoi(arguments[1]) : 1;
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_port = htons((uint16_t)(count > 2 ? atoi(arguments[2]) : 0));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    RLDataRef bytes = RLDataCreate(&address, sizeof address);
    RLSocketSignature signature = {PF_INET, SOCK_STREAM, IPPROTO_TCP, bytes};
    RLSocketRef listener = RLSocketCreateWithSocketSignature(&signature, kRLSocketAcceptCallBack, greet, NULL);
    RLRelease(bytes);
    if (listener == NULL) {
        perror("echo_server");
        return 1;
    }
    RLDataRef own = RLSocketCopyAddress(listener);
    printf("listening on %d\n", ntohs(((const struct sockaddr_in *)RLDataGetBytePtr(own))->sin_port));
    fflush(stdout);
    RLRelease(own);

    RLSourceRef source = RLSocketCreateRunLoopSource(listener, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRun();

    RLSocketInvalidate(listener);
    RLRelease(listener);
    printf("done\n");
    return 0;
}

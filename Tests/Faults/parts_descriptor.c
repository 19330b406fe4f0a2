/* SPDX-License-Identifier: MIT */
/* Version 1 sources, descriptor objects, sockets and foreign runs. */
#define _GNU_SOURCE
#include "parts.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct port {
    int descriptor, calls;
    bool is_pipe;
} ports[3];

static RLPort get_port(void *info) { return ((struct port *)info)->descriptor; }

static void serve_port(void *info) {
    struct port *port = info;
    char byte;
    if (port->is_pipe) (void)!read(port->descriptor, &byte, 1);
    add_one(&port->calls);
}

static RLSourceRef add_port(struct port *port) {
    RLSourceContext1 context = {.version = 1, .info = port, .getPort = get_port, .perform = serve_port};
    RLSourceRef source = RLSourceCreate(0, (RLSourceContext *)&context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}

static void end_source(RLSourceRef source) {
    RLSourceInvalidate(source);
    RLRelease(source);
}

static void *write_later(void *descriptor) {
    sleep_briefly();
    (void)!write(*(int *)descriptor, "x", 1);
    return NULL;
}

/* A pipe that another thread writes, an eventfd and a timerfd; with another thread that wakes and stops the sleep in epoll. */
static void sources_of_ports(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    memset(ports, 0, sizeof ports);
    ports[0] = (struct port){.descriptor = ends[0], .is_pipe = true};
    ports[1].descriptor = eventfd(0, EFD_CLOEXEC);
    ports[2].descriptor = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    RLSourceRef sources[3];
    for (int i = 0; i < 3; i++) sources[i] = add_port(&ports[i]);
    pthread_t thread = start_thread(write_later, &ends[1]);
    run_until(&ports[0].calls, 1, "a pipe");
    join_thread(thread);
    eventfd_write(ports[1].descriptor, 1);
    run_until(&ports[1].calls, 1, "an eventfd");
    struct itimerspec setting = {{0, 0}, {0, 100000}};
    timerfd_settime(ports[2].descriptor, 0, &setting, NULL);
    run_until(&ports[2].calls, 1, "a timerfd");
    if (RLRunInMode(kRLDefaultMode, 0.001, false) != kRLRunTimedOut) lost("the end of a run");
    for (int i = 0; i < 3; i++) end_source(sources[i]);
    for (int i = 0; i < 3; i++) close(ports[i].descriptor);
    close(ends[1]);
}

static void *stop_later(void *loop) {
    Patience patience = patience_begin();
    while (!RLIsWaiting(loop) && !patience_ended(patience)) sleep_briefly();
    RLStop(loop);
    return NULL;
}

static void sleeps_in_epoll(void) {
    memset(ports, 0, sizeof ports);
    ports[0].descriptor = eventfd(0, EFD_CLOEXEC);
    RLSourceRef source = add_port(&ports[0]);
    for (int i = 0; i < 5; i++) {
        pthread_t thread = start_thread(stop_later, RLGetCurrent());
        if (RLRunInMode(kRLDefaultMode, i % 2 ? 1e9 : PATIENCE * 2, false) != kRLRunStopped) lost("a stop");
        join_thread(thread);
    }
    end_source(source);
    close(ports[0].descriptor);
}

/* Each report is one byte read, or written. */
static struct report {
    int reads, writes;
} report;

static void descriptor_is_ready(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    char byte;
    (void)info;
    if (types & kRLFileDescriptorReadCallBack) {
        (void)!read(RLFileDescriptorGetNativeDescriptor(file), &byte, 1);
        add_one(&report.reads);
        if (report.reads < 3) RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    }
    if (types & kRLFileDescriptorWriteCallBack) add_one(&report.writes);
}

static void descriptors(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    memset(&report, 0, sizeof report);
    RLFileDescriptorRef file = RLFileDescriptorCreate(ends[0], true, descriptor_is_ready, NULL);
    RLSourceRef source = file ? RLFileDescriptorCreateRunLoopSource(file, 0) : NULL;
    if (!source) {
        refused("a descriptor object");
        if (!file) close(ends[0]);
    } else {
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
        RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack | kRLFileDescriptorWriteCallBack);
        (void)!write(ends[1], "abc", 3);
        run_until(&report.writes, 1, "room for a write");
        run_until(&report.reads, 3, "bytes of a descriptor object");
        RLRelease(source);
    }
    if (file) {
        RLFileDescriptorInvalidate(file);
        RLRelease(file);
    }
    close(ends[1]);
}

static struct connection {
    int accepted, connected, failed, received, ended, writable, descriptor;
} server, client;

static void connection_reports(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    struct connection *connection = info;
    (void)socket, (void)address;
    if (type == kRLSocketAcceptCallBack) {
        connection->descriptor = *(const int *)data;
        add_one(&connection->accepted);
    } else if (type == kRLSocketConnectCallBack) {
        if (data) add_one(&connection->failed);
        add_one(&connection->connected);
    } else if (type == kRLSocketDataCallBack) {
        size_t length = RLDataGetLength((RLDataRef)data);
        if (length == 0) add_one(&connection->ended);
        __atomic_add_fetch(&connection->received, (int)length, __ATOMIC_SEQ_CST);
    } else if (type == kRLSocketWriteCallBack) {
        add_one(&connection->writable);
    }
}

static RLSocketRef add_socket(RLSocketRef socket) {
    RLSourceRef source = socket ? RLSocketCreateRunLoopSource(socket, 0) : NULL;
    if (!source) {
        refused("a socket");
        if (socket) {
            RLSocketInvalidate(socket);
            RLRelease(socket);
        }
        return NULL;
    }
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return socket;
}

static void end_socket(RLSocketRef socket) {
    if (!socket) return;
    RLSocketInvalidate(socket);
    RLRelease(socket);
}

/* S-SOCK-26: an error of a read ends a stream, and its socket. */
static void expect_bytes(struct connection *connection, RLSocketRef socket, int count, const char *what) {
    Patience patience = patience_begin();
    while (count_of(&connection->received) < count && !patience_ended(patience)) {
        if (!RLSocketIsValid(socket)) return refused(what);
        RLRunInMode(kRLDefaultMode, 0.1, true);
    }
    if (count_of(&connection->received) < count) lost(what);
}

/* A listener, a connect in the background, bytes both ways, the end of the stream. */
static void sockets(void) {
    memset(&server, 0, sizeof server);
    memset(&client, 0, sizeof client);
    server.descriptor = -1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    RLSocketContext at_server = {.info = &server}, at_client = {.info = &client};
    RLSocketRef listener = add_socket(RLSocketCreate(PF_INET, SOCK_STREAM, 0, kRLSocketAcceptCallBack, connection_reports, &at_server));
    RLSocketRef connection = NULL, accepted = NULL;
    RLDataRef own = NULL;
    if (!listener) return;
    if (RLSocketSetAddress(listener, &address, sizeof address) != kRLSocketSuccess || !(own = RLSocketCopyAddress(listener))) {
        refused("an address");
        return end_socket(listener);
    }
    memcpy(&address, RLDataGetBytePtr(own), sizeof address);
    RLRelease(own);
    connection = add_socket(RLSocketCreate(PF_INET, SOCK_STREAM, 0, kRLSocketDataCallBack | kRLSocketConnectCallBack | kRLSocketWriteCallBack,
                                           connection_reports, &at_client));
    if (!connection) return end_socket(listener);
    if (RLSocketConnectToAddress(connection, &address, sizeof address, -1) != kRLSocketSuccess) {
        refused("a connect");
    } else if (run_until(&client.connected, 1, "the end of a connect")) {
        if (client.failed) {
            refused("a connect in the background");
        } else if (run_until(&server.accepted, 1, "a connection")) {
            accepted = add_socket(RLSocketCreateWithNative(server.descriptor, kRLSocketDataCallBack, connection_reports, &at_server));
            if (!accepted) {
                close(server.descriptor);
            } else {
                RLDataRef peer = RLSocketCopyPeerAddress(accepted);
                if (!peer) refused("a peer's address");
                RLRelease(peer);
                run_until(&client.writable, 1, "room for a write");
                if (RLSocketSendData(connection, NULL, 0, "hello", 5, 1) != kRLSocketSuccess)
                    refused("a send");
                else
                    expect_bytes(&server, accepted, 5, "bytes for the server");
                if (RLSocketSendData(accepted, NULL, 0, "hello!", 6, -1) != kRLSocketSuccess)
                    refused("a send");
                else
                    expect_bytes(&client, connection, 6, "bytes for the client");
                end_socket(connection);
                connection = NULL;
                if (RLSocketIsValid(accepted) || !outcome.is_refused) run_until(&server.ended, 1, "the end of a stream");
            }
        }
    }
    end_socket(accepted);
    end_socket(connection);
    end_socket(listener);
}

/* A connect that waits, and a datagram with its sender's address. */
static void socket_signatures(void) {
    memset(&server, 0, sizeof server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer = -1;
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0) abort();
    getsockname(listener, (struct sockaddr *)&address, &size);
    RLSocketSignature signature = {PF_INET, SOCK_STREAM, IPPROTO_TCP, RLDataCreate(&address, sizeof address)};
    RLSocketContext context = {.info = &server};
    RLSocketRef stream = RLSocketCreateConnectedToSocketSignature(&signature, kRLSocketNoCallBack, connection_reports, &context, 1);
    if (!stream)
        refused("a connected socket");
    else if (poll(&(struct pollfd){listener, POLLIN, 0}, 1, (int)(PATIENCE * 1000)) != 1)
        lost("a connection that was waited for");
    else
        peer = accept(listener, NULL, NULL);
    end_socket(stream);
    RLRelease(signature.address);
    if (peer >= 0) close(peer);
    close(listener);

    address.sin_port = 0;
    signature = (RLSocketSignature){PF_INET, SOCK_DGRAM, IPPROTO_UDP, RLDataCreate(&address, sizeof address)};
    RLSocketRef receiver = add_socket(RLSocketCreateWithSocketSignature(&signature, kRLSocketDataCallBack, connection_reports, &context));
    RLRelease(signature.address);
    RLDataRef own = receiver ? RLSocketCopyAddress(receiver) : NULL;
    RLSocketRef sender = own ? RLSocketCreate(PF_INET, SOCK_DGRAM, 0, kRLSocketNoCallBack, connection_reports, &context) : NULL;
    if (!sender)
        refused("a datagram socket");
    else if (RLSocketSendData(sender, RLDataGetBytePtr(own), RLDataGetLength(own), "datagram", 8, 1) != kRLSocketSuccess)
        refused("a datagram");
    else
        run_until(&server.received, 8, "a datagram");
    RLRelease(own);
    end_socket(sender);
    end_socket(receiver);
}

static void count(void *counter) { add_one(counter); }

static void foreign_runs(void) {
    int performed = 0;
    memset(ports, 0, sizeof ports);
    ports[0].descriptor = eventfd(0, EFD_CLOEXEC);
    RLSourceRef port = add_port(&ports[0]);
    RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
    if (!run) {
        refused("a foreign run");
    } else {
        eventfd_write(ports[0].descriptor, 1);
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, count, &performed, NULL);
        Patience patience = patience_begin();
        while ((ports[0].calls < 1 || performed < 1) && !patience_ended(patience)) {
            RLTimeInterval time = RLForeignRunPrepare(run);
            struct pollfd entry = {RLForeignRunGetDescriptor(run), POLLIN, 0};
            int limit = (int)(PATIENCE * 1000 / 2);
            poll(&entry, 1, time < limit / 1000.0 ? (int)(time * 1000) + 1 : limit);
            if (RLForeignRunDispatch(run) != kRLRunGoesOn) break;
        }
        if (ports[0].calls < 1) lost("a port in a foreign run");
        if (performed < 1) lost("a function in a foreign run");
        RLForeignRunInvalidate(run);
        RLRelease(run);
    }
    end_source(port);
    close(ports[0].descriptor);
}

const Part descriptor_parts[] = {
    {"ports", sources_of_ports}, {"epoll-sleeps", sleeps_in_epoll}, {"descriptors", descriptors},
    {"sockets", sockets},        {"socket-signatures", socket_signatures}, {"foreign-runs", foreign_runs}, {0},
};

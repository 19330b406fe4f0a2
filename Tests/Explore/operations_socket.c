/* SPDX-License-Identifier: MIT */
/* Calls of sockets that do not go through the loop, and two kinds of items: `listener`, a socket that accepts connections, and
 * `dialer`, one that is not connected yet. */
#define _GNU_SOURCE
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- items */

/* A name that is no file, so that nothing of it is left. */
static socklen_t address_of(struct item *item, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "explore.%d.%s", (int)getpid(), item->name);
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)length;
}

static void accept_connection(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket;
    (void)address;
    check_alive(info);
    if (type != kRLSocketAcceptCallBack) fail("a listener is told %d", (int)type);
    close(*(const RLSocketNativeHandle *)data);
    call_back(info);
}

static void be_connected(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket;
    (void)address;
    (void)data;
    check_alive(info);
    if (type != kRLSocketConnectCallBack) fail("a connecting socket is told %d", (int)type);
    call_back(info);
}

static void make_unconnected(struct item *item, RLOptionFlags types, RLSocketCallBack function) {
    RLSocketContext context = {0, item, retain_info, release_info, item->has_description ? describe_info : NULL};
    RLSocketRef socket = RLSocketCreate(AF_UNIX, SOCK_STREAM, 0, types, function, &context);
    item->object = socket;
    item->source = RLSocketCreateRunLoopSource(socket, 0);
}

/* With a number it does not listen yet. */
void make_listener(struct item *item) {
    make_unconnected(item, kRLSocketAcceptCallBack, accept_connection);
    struct sockaddr_un address;
    socklen_t length = address_of(item, &address);
    if (item->number == 0 && RLSocketListen((RLSocketRef)item->object, &address, length, 0, 0) != kRLSocketSuccess)
        fail("%s does not listen", item->name);
}

void make_dialer(struct item *item) { make_unconnected(item, kRLSocketConnectCallBack, be_connected); }

/* ---- operations */

static RLSocketRef socket_of(struct call *call) { return (RLSocketRef)object_of(call); }

static void do_listen(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(call->item[0], &address);
    (void)RLSocketListen(socket_of(call), &address, length, kRLSocketReuseAddress, 1);
}

static void do_set_address(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(call->item[0], &address);
    (void)RLSocketSetAddress(socket_of(call), &address, length);
}

/* connect DIALER LISTENER, in the background or, with a number, for so many seconds. */
static void do_connect(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(call->item[1], &address);
    (void)RLSocketConnectToAddress(socket_of(call), &address, length, call->has_number ? call->number : -1);
}

/* A socket of its own that connects to the listener, and ends. */
static void do_visit(struct call *call) {
    struct sockaddr_un address;
    socklen_t length = address_of(call->item[0], &address);
    RLDataRef data = RLDataCreate(&address, length);
    RLSocketSignature signature = {AF_UNIX, SOCK_STREAM, 0, data};
    RLSocketRef socket = RLSocketCreateConnectedToSocketSignature(&signature, kRLSocketNoCallBack, NULL, NULL, 1);
    if (socket) RLSocketInvalidate(socket);
    RLRelease(socket);
    RLRelease(data);
}

/* One byte past the loop, that the kernel takes now or never. */
static void do_send_now(struct call *call) {
    if (RLSocketSend(socket_of(call), NULL, 0, "x", 1) > 0) call->item[0]->written++;
}

/* One byte, waited for so many seconds. */
static void do_send_data(struct call *call) {
    if (RLSocketSendData(socket_of(call), NULL, 0, "x", 1, call->number) == kRLSocketSuccess) call->item[0]->written++;
}

static void do_send_descriptors(struct call *call) {
    const int descriptor = STDERR_FILENO;
    if (RLSocketSendDescriptors(socket_of(call), "x", 1, &descriptor, 1) > 0) call->item[0]->written++;
}

/* The peer sends a descriptor. */
static void do_give(struct call *call) {
    char byte = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    int descriptor = STDERR_FILENO;
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    (void)sendmsg(call->item[0]->descriptors[1], &message, MSG_NOSIGNAL);
}

/* What the callback would have read may be gone then. */
static void do_receive(struct call *call) {
    int found[4];
    char bytes[16];
    RLSocketAncillary ancillary = {.descriptors = found, .room = 4};
    call->item[0]->forgiven = true;
    if (RLSocketReceive(socket_of(call), bytes, sizeof bytes, &ancillary) < 0 && ancillary.count != 0)
        fail("descriptors without bytes");
    for (size_t i = 0; i < ancillary.count; i++)
        if (close(found[i]) != 0) fail("%s gives a descriptor that is not open", call->item[0]->name);
}

/* Without a number callbacks of Read come once. */
static void do_flags(struct call *call) {
    if (!call->has_number) call->item[0]->forgiven = true;
    RLOptionFlags flags = RLSocketGetSocketFlags(socket_of(call));
    RLOptionFlags again = kRLSocketAutomaticallyReenableReadCallBack;
    RLSocketSetSocketFlags(socket_of(call), call->has_number ? flags | again : flags & ~again);
}

static void do_options(struct call *call) { (void)RLSocketSetOptions(socket_of(call), kRLSocketPassCredentials, call->has_number); }

static void do_addresses(struct call *call) {
    RLSocketRef socket = socket_of(call);
    RLRelease(RLSocketCopyAddress(socket));
    RLRelease(RLSocketCopyPeerAddress(socket));
    RLSocketContext context = {0};
    RLSocketGetContext(socket, &context);
    (void)RLSocketGetNative(socket);
}

/* Another object for the same file: it is the same one while that is valid. */
static void do_same_file(struct call *call) {
    RLSocketRef socket = RLSocketCreateWithNative(call->item[0]->descriptors[0], kRLSocketReadCallBack, NULL, NULL);
    if (socket && socket != object_of(call)) {
        RLSocketSetSocketFlags(socket, 0);
        RLSocketInvalidate(socket);
    }
    RLRelease(socket);
}

const struct operation socket_operations[] = {
    {"listen", "RLSocketListen", do_listen, false},
    {"setaddress", "RLSocketSetAddress", do_set_address, false},
    {"connect", "RLSocketConnectToAddress", do_connect, false},
    {"visit", "RLSocketCreateConnectedToSocketSignature RLSocketInvalidate RLDataCreate", do_visit, false},
    {"sendnow", "RLSocketSend", do_send_now, false},
    {"senddata", "RLSocketSendData", do_send_data, false},
    {"senddescriptors", "RLSocketSendDescriptors", do_send_descriptors, false},
    {"give", "", do_give, false},
    {"receive", "RLSocketReceive", do_receive, false},
    {"flags", "RLSocketGetSocketFlags RLSocketSetSocketFlags", do_flags, false},
    {"options", "RLSocketSetOptions", do_options, false},
    {"addresses", "RLSocketCopyAddress RLSocketCopyPeerAddress RLSocketGetContext RLSocketGetNative", do_addresses, false},
    {"samefile", "RLSocketCreateWithNative RLSocketInvalidate", do_same_file, false},
    {NULL, NULL, NULL, false},
};

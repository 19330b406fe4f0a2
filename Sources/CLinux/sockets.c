/* SPDX-License-Identifier: MIT */
/* For sockets: what `Ports/Socket` asks of the kernel beyond the calls of CLinuxCalls.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "CLinuxCalls.h"
#include "CLinuxMessages.h"
#include "CLinuxSockets.h"

bool rl_is_for_now(ssize_t result) { return result == -EAGAIN || result == -ENOMEM || result == -ENOBUFS; }

ssize_t rl_send_now(int descriptor, const void *bytes, size_t length, const void *address, size_t address_length) {
    ssize_t sent = rl_sys_sendto(descriptor, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL, address, (socklen_t)address_length);
    return sent < 0 ? -errno : sent;
}

int rl_poll_now(int descriptor, int events) {
    struct pollfd request = {descriptor, (short)events, 0};
    int count = rl_sys_poll(&request, 1, 0);
    return count > 0 ? request.revents : count;
}

int rl_poll_writable(int descriptor) {
    int events = rl_poll_now(descriptor, POLLOUT);
    return events < 0 ? POLLOUT : events;
}

bool rl_socket_is_unconnected(int descriptor, bool believed) {
    if (rl_socket_has_peer(descriptor)) return false;
    int events = rl_poll_now(descriptor, POLLOUT);
    return events < 0 ? believed : events == 0 || (events & (POLLHUP | POLLERR)) == POLLHUP;
}

int rl_set_socket_options(int descriptor, unsigned long options, bool on) {
    /* By the bits of `RLSocketOption`. */
    static const unsigned char known[][2] = {
        {SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT},  {IPPROTO_TCP, TCP_NODELAY},
        {SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_IPV6, IPV6_V6ONLY}, {SOL_SOCKET, SO_PASSCRED},
    };
    int value = on, error = 0;
    for (size_t bit = 0; bit < sizeof known / sizeof known[0]; bit++)
        if (options >> bit & 1 && setsockopt(descriptor, known[bit][0], known[bit][1], &value, sizeof value) != 0 && error == 0)
            error = errno;
    return error;
}

ssize_t rl_receive(int descriptor, bool is_local, void *bytes, size_t size, struct sockaddr_storage *address, socklen_t *length) {
    if (!is_local) return rl_sys_recvfrom(descriptor, bytes, size, MSG_DONTWAIT, (struct sockaddr *)address, length);
    int unwanted[RL_MAX_DESCRIPTORS];
    rl_datagram taken;
    int tries = 2;
    /* Of records the kernel reports the reset before what the peer sent until then. */
    do {
        taken = rl_message_receive_from(descriptor, bytes, size, unwanted, address, length);
    } while (taken.length < 0 && errno == ECONNRESET && --tries > 0);
    int error = errno;
    rl_drop_all(unwanted, taken.descriptors);
    errno = error;
    return taken.length;
}

bool rl_is_at_end(int descriptor) {
    if (rl_socket_type(descriptor) == SOCK_STREAM) return true;
    int events = rl_poll_now(descriptor, POLLRDHUP), left = 0;
    if (events == 0 || (events < 0 && !rl_is_readable(descriptor))) return false;
    /* Asked in this order: all that the peer has sent it sent before its end. */
    return ioctl(descriptor, FIONREAD, &left) != 0 || left == 0;
}

ssize_t rl_discard_input(int descriptor, bool is_local) {
    /* A thread may have a stack of 16 KiB. */
    char bytes[4096];
    ssize_t count = rl_receive(descriptor, is_local, bytes, sizeof bytes, NULL, NULL);
    if (count > 0) return count;
    if (count == 0) return rl_is_at_end(descriptor) ? 0 : -EAGAIN;
    return rl_is_for_now(-errno) ? -errno : 0;
}

void rl_reset_at_close(int descriptor, bool on) {
    struct linger linger = {on, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

ssize_t rl_receive_with_descriptors(int descriptor, bool is_local, void *bytes, size_t capacity, int *descriptors,
                                    size_t room, rl_received *received) {
    if (!received) {
        ssize_t count = rl_receive(descriptor, is_local, bytes, capacity, NULL, NULL);
        return count < 0 ? -errno : count;
    }
    int all[RL_MAX_DESCRIPTORS];
    rl_datagram taken = is_local ? rl_message_take_here(descriptor, bytes, capacity, all) : rl_message_receive(descriptor, bytes, capacity, all);
    int error = errno;
    memset(received, 0, sizeof *received);
    if (taken.length < 0) return -error;
    size_t count = (size_t)taken.descriptors;
    received->lost_descriptors = taken.lost_descriptors || count > room;
    if (received->lost_descriptors) {
        rl_drop_all(all, taken.descriptors);
    } else {
        received->count = count;
        if (count > 0) memcpy(descriptors, all, count * sizeof *all);
    }
    received->has_credentials = taken.has_credentials;
    received->process = taken.process;
    received->user = taken.user;
    received->group = taken.group;
    return taken.length;
}

int rl_accept(int descriptor, struct sockaddr_storage *address, socklen_t *length) {
    rl_set_nonblocking(descriptor);
    return rl_sys_accept4(descriptor, (struct sockaddr *)address, length, SOCK_CLOEXEC);
}

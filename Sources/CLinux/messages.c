/* SPDX-License-Identifier: MIT */
/* The datagrams of message ports: bytes with descriptors and the sender's credentials. Interrupted calls are repeated here, in the files
 * beside this one or in CLinuxCalls.h, so no other file of message ports handles EINTR. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* Room for the descriptors of one datagram and the credentials of its sender, aligned as the kernel requires; and for what only the client
 * itself can ask for, a pidfd and a label (SO_PASSSEC), which would otherwise take the room of descriptors. */
enum { LABEL_ROOM = 512 };
typedef union ancillary {
    char bytes[CMSG_SPACE(RL_MAX_DESCRIPTORS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int)) + CMSG_SPACE(LABEL_ROOM)];
    struct cmsghdr alignment;
} ancillary;

int rl_message_socket(void) {
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int rl_message_send(int socket, const void *head, size_t head_length, const void *body,
                    size_t body_length, const int *descriptors, int count) {
    ssize_t sent = rl_send_with_descriptors(socket, head, head_length, body, body_length, descriptors, count);
    return sent < 0 ? (int)-sent : 0;
}

ssize_t rl_send_with_descriptors(int socket, const void *head, size_t head_length, const void *body,
                                 size_t body_length, const int *descriptors, int count) {
    struct iovec parts[2] = {{(void *)head, head_length}, {(void *)body, body_length}};
    struct msghdr message = {0};
    ancillary control;
    message.msg_iov = parts;
    message.msg_iovlen = body_length > 0 ? 2 : 1;
    if (count > RL_MAX_DESCRIPTORS) return -EINVAL;
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        memset(control.bytes, 0, message.msg_controllen);
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(part), descriptors, (size_t)count * sizeof(int));
    }
    ssize_t sent = rl_sys_sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

/* SCM_PIDFD, which older headers lack. */
enum { RL_SCM_PIDFD = 4 };

static rl_datagram receive(int socket, void *bytes, size_t capacity, int *descriptors, struct sockaddr_storage *address, socklen_t *address_length,
                           int flags) {
    rl_datagram result = {0};
    struct iovec part = {bytes, capacity};
    struct msghdr message = {0};
    ancillary control;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    message.msg_name = address;
    message.msg_namelen = address ? *address_length : 0;
    result.length = rl_sys_recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
    if (result.length < 0) return result;
    if (address) *address_length = message.msg_namelen;
    result.is_cut = (message.msg_flags & MSG_TRUNC) != 0;
    result.lost_descriptors = (message.msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
        if (item->cmsg_level != SOL_SOCKET) continue;
        if (item->cmsg_type == SCM_CREDENTIALS && item->cmsg_len == CMSG_LEN(sizeof(struct ucred))) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(item), sizeof sender);
            result.has_credentials = true;
            result.process = sender.pid;
            result.user = sender.uid;
            result.group = sender.gid;
        }
        /* Of a client that asked for it (SO_PASSPIDFD); like the other descriptors it is there already. */
        if (item->cmsg_type == RL_SCM_PIDFD && item->cmsg_len == CMSG_LEN(sizeof(int))) {
            int unwanted;
            memcpy(&unwanted, CMSG_DATA(item), sizeof unwanted);
            if (unwanted >= 0) rl_sys_close(unwanted);
        }
        if (item->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count; index++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(item) + index * sizeof(int), sizeof descriptor);
            if (result.descriptors < RL_MAX_DESCRIPTORS)
                descriptors[result.descriptors++] = descriptor;
            else
                rl_drop(descriptor);
        }
    }
    return result;
}

rl_datagram rl_message_receive(int socket, void *bytes, size_t capacity, int *descriptors) {
    return receive(socket, bytes, capacity, descriptors, NULL, NULL, 0);
}

rl_datagram rl_message_receive_from(int socket, void *bytes, size_t capacity, int *descriptors, struct sockaddr_storage *address,
                                    socklen_t *address_length) {
    return receive(socket, bytes, capacity, descriptors, address, address_length, 0);
}

/* A number for the present few milliseconds, and without a system call where the processor has a counter with a steady rate. */
static uint64_t tick_of_now(void) {
    static uint64_t counts;
    uint64_t tick = __atomic_load_n(&counts, __ATOMIC_RELAXED);
    if (tick == 0) __atomic_store_n(&counts, tick = 8 * rl_counts_of_moment(), __ATOMIC_RELAXED);
    if (tick > 8) return rl_order_of_time() / tick;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The tick in which there were numbers enough, and how often that was asked in vain. Relaxed: threads at most ask once more. */
static uint64_t roomy_tick;
static uint32_t asked;

static void take_numbers(void) { __atomic_store_n(&roomy_tick, 0, __ATOMIC_RELAXED); }

/* Whether the process may have the numbers of a datagram, and twice as many for what the program opens until the next tick, for which the
 * answer holds unless peers take numbers. It costs several looks at a datagram: where messages are rare none is made. Kernels before 6.2 do not
 * tell how many files are open. */
static bool has_numbers(void) {
    enum { LOOKS = 8 };
    struct stat folder;
    struct rlimit limit;
    const uint64_t tick = tick_of_now();
    if (__atomic_load_n(&roomy_tick, __ATOMIC_RELAXED) == tick) return true;
    static uint64_t last;
    if (__atomic_exchange_n(&last, tick, __ATOMIC_RELAXED) != tick) __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED) % LOOKS != 0) return false;
    if (stat("/proc/thread-self/fd", &folder) != 0 || folder.st_size == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        (rlim_t)folder.st_size + 3 * RL_MAX_DESCRIPTORS > limit.rlim_cur)
        return false;
    __atomic_store_n(&roomy_tick, tick, __ATOMIC_RELAXED);
    return true;
}

/* Of a peer that closed its end with something unread the kernel tells once, before what the peer had sent. */
static rl_datagram receive_past_reset(int socket, void *bytes, size_t capacity, int *descriptors, int flags) {
    rl_datagram result = receive(socket, bytes, capacity, descriptors, NULL, NULL, flags);
    if (result.length < 0 && errno == ECONNRESET) result = receive(socket, bytes, capacity, descriptors, NULL, NULL, flags);
    return result;
}

rl_datagram rl_message_take_here(int socket, void *bytes, size_t capacity, int *descriptors) {
    return receive_past_reset(socket, bytes, capacity, descriptors, 0);
}

/* What comes into the thread's own table is closed by its end. True if nothing could be taken. */
static bool take_away(int connection, int room) {
    int descriptors[RL_MAX_DESCRIPTORS];
    char byte;
    const rl_datagram taken = rl_message_take_here(connection, &byte, sizeof byte, descriptors);
    if (room == 0) rl_drop_all(descriptors, taken.descriptors);
    return taken.length < 0;
}

/* A look gives further references to the files, so that neither the end of those nor the taking of the datagram is the last close of any. What was
 * looked at and cannot be taken did not come: it may be there again. */
rl_datagram rl_message_take_whole(int socket, void *bytes, size_t capacity, int *descriptors) {
    rl_datagram next = receive_past_reset(socket, bytes, capacity, descriptors, MSG_PEEK);
    char byte;
    struct iovec place = {&byte, sizeof byte}; /* Without one qemu's user mode does not make the call. */
    struct msghdr nothing = {.msg_iov = &place, .msg_iovlen = 1};
    if (next.lost_descriptors) {
        while (next.descriptors > 0) rl_sys_close(descriptors[--next.descriptors]);
    } else if (next.length >= 0 && rl_sys_recvmsg(socket, &nothing, MSG_DONTWAIT) < 0 &&
               (errno != ECONNRESET || rl_sys_recvmsg(socket, &nothing, MSG_DONTWAIT) < 0)) {
        const int error = errno;
        rl_drop_all(descriptors, next.descriptors);
        next = (rl_datagram){.length = -1};
        errno = error;
    }
    return next;
}

rl_datagram rl_message_take(int socket, void *bytes, size_t capacity, int *descriptors) {
    const bool has_room = has_numbers();
    rl_datagram taken = has_room ? rl_message_take_here(socket, bytes, capacity, descriptors)
                                 : rl_message_take_whole(socket, bytes, capacity, descriptors);
    if (taken.descriptors > 0) take_numbers();
    if (taken.lost_descriptors && !has_room && rl_do_elsewhere(take_away, socket)) {
        taken = (rl_datagram){.length = -1};
        errno = ECONNABORTED;
    }
    return taken;
}

int rl_message_accept(int listener) {
    take_numbers();
    return rl_sys_accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* SPDX-License-Identifier: MIT */
/* The datagrams of message ports: bytes with descriptors and the sender's credentials. Interrupted calls are repeated here, in the files
 * beside this one or in CLinuxCalls.h, so no other file of message ports handles EINTR. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

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

rl_datagram rl_message_receive(int socket, void *bytes, size_t capacity, int *descriptors) {
    return rl_message_receive_from(socket, bytes, capacity, descriptors, NULL, NULL);
}

rl_datagram rl_message_receive_from(int socket, void *bytes, size_t capacity, int *descriptors, struct sockaddr_storage *address,
                                    socklen_t *address_length) {
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
    result.length = rl_sys_recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
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

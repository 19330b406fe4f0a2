/* SPDX-License-Identifier: MIT */
/* The connections of message ports: how they begin, what is known of the other end, and how they are closed with what is queued in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

typedef int address_call(int socket, const struct sockaddr *address, socklen_t size);

static int with_address(int socket, const char *path, address_call *call) {
    struct sockaddr_un address;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address.sun_path) return ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path));
    int result;
    do {
        result = call(socket, (const struct sockaddr *)&address, sizeof address);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int rl_unix_bind(int socket, const char *path) { return with_address(socket, path, bind); }
int rl_unix_connect(int socket, const char *path) { return with_address(socket, path, rl_sys_connect); }

bool rl_is_own_peer(int socket, uid_t *user, pid_t *process) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || size != sizeof peer) return false;
    *user = peer.uid;
    *process = peer.pid;
    return peer.uid == geteuid();
}

bool rl_has_ended(int socket) {
    struct pollfd entry = {socket, POLLRDHUP, 0};
    int count = rl_sys_poll(&entry, 1, 0);
    if (count >= 0) return count > 0;
    /* A send finds the end before it looks for its bytes. There are none at this address: nothing is ever sent. */
    return rl_sys_sendto(socket, NULL, 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) < 0 &&
           (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN);
}

bool rl_is_readable(int socket) {
    struct pollfd entry = {socket, POLLIN, 0};
    char byte;
    int count = rl_sys_poll(&entry, 1, 0);
    if (count >= 0) return count > 0;
    return rl_sys_recvfrom(socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT, NULL, NULL) >= 0 || errno != EAGAIN;
}

short rl_wait_ready(int socket, short events, int milliseconds) {
    struct pollfd entry = {socket, events, 0};
    int count = rl_sys_poll(&entry, 1, milliseconds);
    if (count >= 0 || errno == EINTR) return count > 0 ? entry.revents : 0;
    const struct timespec pause = {0, 1000000L * (milliseconds < 0 || milliseconds > 10 ? 10 : milliseconds)};
    rl_sys_nanosleep(&pause);
    return events;
}

int rl_queued_room(int socket) {
    uint32_t room[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof room;
    /* SIOCOUTQ tells it too, but filters refuse ioctl(2). */
    getsockopt(socket, SOL_SOCKET, SO_MEMINFO, room, &size);
    return (int)room[SK_MEMINFO_WMEM_ALLOC];
}

long rl_most_connections(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1 << 30) return 1 << 30;
    return limit.rlim_cur < 4 ? 2 : (long)limit.rlim_cur / 2;
}

/* How many descriptors the next datagram brought; -1 at the end of the queue. */
static int take_datagram(int connection, int *descriptors) {
    char byte;
    rl_datagram datagram = rl_message_take_here(connection, &byte, sizeof byte, descriptors);
    if (datagram.length < 0) return -1;
    if (datagram.has_credentials) return datagram.descriptors;
    rl_drop_all(descriptors, datagram.descriptors);
    return -1;
}

/* What is taken into the thread's own table is closed by its end, which waits for nothing. */
static bool empty_connection(int connection, int room) {
    int descriptors[RL_MAX_DESCRIPTORS], count, kept = 0;
    if (room == 0) {
        while ((count = take_datagram(connection, descriptors)) >= 0) rl_drop_all(descriptors, count);
        return false;
    }
    do {
        count = take_datagram(connection, descriptors);
        kept += count;
    } while (count >= 0 && kept + RL_MAX_DESCRIPTORS <= room);
    return count >= 0;
}

/* How many datagrams with descriptors cost less here than a thread. */
enum { FEW = 4 };

bool rl_close_connection(int connection) {
    /* Nothing more comes. Each datagram brings credentials then, so that an empty one is not taken for the end of the queue. */
    int yes = 1, descriptors[RL_MAX_DESCRIPTORS], dear = 0;
    char byte;
    setsockopt(connection, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    shutdown(connection, SHUT_RDWR);
    rl_datagram next = {0};
    do {
        next = rl_message_take_whole(connection, &byte, sizeof byte, descriptors);
        rl_drop_all(descriptors, next.descriptors);
        dear += next.descriptors > 0;
    } while (next.has_credentials && !next.lost_descriptors && dear < FEW);
    for (bool has_more = next.has_credentials; has_more; dear = FEW) has_more = rl_do_elsewhere(empty_connection, connection);
    rl_sys_close(connection);
    return dear > 0;
}

static bool empty_listener(int listener, int room) {
    (void)room;
    for (int connection; (connection = rl_message_accept(listener)) >= 0;) rl_close_connection(connection);
    return false;
}

void rl_close_listener(int listener) {
    /* No process can connect any more. */
    shutdown(listener, SHUT_RDWR);
    empty_listener(listener, 0);
    if (errno == EMFILE) rl_do_elsewhere(empty_listener, listener);
    rl_sys_close(listener);
}

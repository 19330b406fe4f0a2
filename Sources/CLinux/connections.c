/* SPDX-License-Identifier: MIT */
/* The connections of message ports: how they begin, what is known of the other end, and how they are closed with what is queued in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

int rl_message_accept(int listener) {
    return rl_sys_accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool rl_peer(int socket, uid_t *user, pid_t *process) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    if (size != sizeof peer) return false;
    *user = peer.uid;
    *process = peer.pid;
    return true;
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
    int bytes;
    return ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : INT_MAX;
}

long rl_most_connections(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1 << 30) return 1 << 30;
    return limit.rlim_cur < 4 ? 2 : (long)limit.rlim_cur / 2;
}

/* What is done with a descriptor where there are numbers for what comes through it: so many, or 0 where the table is the process's. It returns
 * whether more is to be done, with other numbers. */
typedef bool elsewhere_body(int descriptor, int room);
struct elsewhere {
    elsewhere_body *body;
    int descriptor;
    bool has_more;
};

/* How many numbers are free for it, if the process may have so many, and some for what is done with them. */
enum { ROOM = 4 * RL_MAX_DESCRIPTORS, MORE = 8 };

static void *with_own_numbers(void *argument) {
    struct elsewhere *work = argument;
    const bool is_own = syscall(SYS_unshare, CLONE_FILES) == 0;
    /* From here on the thread closes no number but its own. */
    for (int number = 0; is_own && number < ROOM + MORE; number++)
        if (number != work->descriptor) rl_sys_close(number);
    const long end = sysconf(_SC_OPEN_MAX);
    work->has_more = work->body(work->descriptor, is_own ? (int)(end < ROOM ? end : ROOM) : 0);
    return NULL;
}

/* If the process has no number left, the kernel closes what a datagram brings in the thread that takes it, which then waits as in close(2). A thread
 * with a descriptor table of its own has room. The other files of the table therefore stay open a moment longer. */
static bool do_elsewhere(elsewhere_body *body, int descriptor) {
    struct elsewhere work = {body, descriptor, false};
    pthread_t thread;
    if (!rl_begin_thread(&thread, NULL, with_own_numbers, &work)) return body(descriptor, 0);
    rl_join_thread(thread);
    return work.has_more;
}

/* Whether the next datagram brings descriptors. */
static bool brings_descriptors(int connection) {
    char byte;
    struct iovec part = {&byte, 1};
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr alignment;
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    return rl_sys_recvmsg(connection, &message, MSG_PEEK | MSG_DONTWAIT) >= 0 && message.msg_flags & MSG_CTRUNC;
}

/* Whether there are numbers for all that a datagram may bring. */
static bool has_room(int descriptor) {
    int made[RL_MAX_DESCRIPTORS], count = 0;
    while (count < RL_MAX_DESCRIPTORS && (made[count] = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) >= 0) count++;
    const bool is_enough = count == RL_MAX_DESCRIPTORS;
    while (count > 0) rl_sys_close(made[--count]);
    return is_enough;
}

/* How many descriptors the next datagram brought; -1 at the end of the queue. */
static int take_datagram(int connection, int *descriptors) {
    char byte;
    rl_datagram datagram = rl_message_receive(connection, &byte, sizeof byte, descriptors);
    if (datagram.length < 0) return -1;
    if (datagram.has_credentials) return datagram.descriptors;
    rl_drop_all(descriptors, datagram.descriptors);
    return -1;
}

/* False at the end of the queue. */
static bool drop_datagram(int connection) {
    int descriptors[RL_MAX_DESCRIPTORS], count = take_datagram(connection, descriptors);
    rl_drop_all(descriptors, count);
    return count >= 0;
}

/* What is taken into the thread's own table is closed by its end, which waits for nothing. */
static bool empty_connection(int connection, int room) {
    int descriptors[RL_MAX_DESCRIPTORS], count, kept = 0;
    if (room == 0) {
        while (drop_datagram(connection)) continue;
        return false;
    }
    do {
        count = take_datagram(connection, descriptors);
        kept += count;
    } while (count >= 0 && kept + RL_MAX_DESCRIPTORS <= room);
    return count >= 0;
}

/* How often a look for room is worth less than a thread. */
enum { LOOKS = 4 };

void rl_close_connection(int connection) {
    /* Nothing more comes. Each datagram brings credentials then, so that an empty one is not taken for the end of the queue. */
    int yes = 1;
    setsockopt(connection, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    shutdown(connection, SHUT_RDWR);
    bool has_more = true;
    int looks = 0;
    while (has_more && (!brings_descriptors(connection) || (looks++ < LOOKS && has_room(connection)))) has_more = drop_datagram(connection);
    while (has_more) has_more = do_elsewhere(empty_connection, connection);
    rl_sys_close(connection);
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
    if (errno == EMFILE) do_elsewhere(empty_listener, listener);
    rl_sys_close(listener);
}

/* SPDX-License-Identifier: MIT */
/* The connections of message ports: how they begin, what is known of the other end, and how they are closed with what is queued in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
    return rl_sys_poll(&entry, 1, 0) > 0;
}

bool rl_is_readable(int socket) {
    struct pollfd entry = {socket, POLLIN, 0};
    return rl_sys_poll(&entry, 1, 0) > 0;
}

short rl_wait_ready(int socket, short events, int milliseconds) {
    struct pollfd entry = {socket, events, 0};
    int count = rl_sys_poll(&entry, 1, milliseconds);
    if (count >= 0 || errno == EINTR) return count > 0 ? entry.revents : 0;
    const struct timespec pause = {0, 1000000L * (milliseconds < 0 || milliseconds > 10 ? 10 : milliseconds)};
    rl_sys_nanosleep(&pause);
    return events;
}

bool rl_is_all_taken(int socket) {
    int bytes;
    return ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

long rl_most_connections(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 1 << 30) return 1 << 30;
    return limit.rlim_cur < 4 ? 2 : (long)limit.rlim_cur / 2;
}

/* What is done with a descriptor where there is room for those that come through it. */
struct elsewhere {
    void (*body)(int descriptor);
    int descriptor;
};

/* The number of descriptors that are certainly free for a datagram: as many as it may bring, and some for what is done with them. */
enum { ROOM = RL_MAX_DESCRIPTORS + 8 };

static void *with_own_numbers(void *argument) {
    struct elsewhere *work = argument;
    const long end = sysconf(_SC_OPEN_MAX);
    /* From here on the thread closes no number but its own. */
    if (syscall(SYS_unshare, CLONE_FILES) == 0)
        for (int number = 0, freed = 0; freed < ROOM && number < end; number++)
            if (number != work->descriptor && rl_sys_close(number) == 0) freed++;
    work->body(work->descriptor);
    return NULL;
}

/* If the process has no number left, the kernel closes what a datagram brings in the thread that takes it, which then waits as in close(2). A thread
 * with a descriptor table of its own has room. The other files of the table therefore stay open a moment longer. */
static void do_elsewhere(void (*body)(int descriptor), int descriptor) {
    struct elsewhere work = {body, descriptor};
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&thread, NULL, with_own_numbers, &work);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return body(descriptor);
    int state = rl_disable_cancellation();
    pthread_join(thread, NULL);
    rl_restore_cancellation(state);
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

/* False at the end of the queue. */
static bool drop_datagram(int connection) {
    char byte;
    int descriptors[RL_MAX_DESCRIPTORS];
    rl_datagram datagram = rl_message_receive(connection, &byte, sizeof byte, descriptors);
    if (datagram.length < 0) return false;
    for (int index = 0; index < (int)datagram.descriptors; index++) rl_drop(descriptors[index]);
    return datagram.has_credentials;
}

static void empty_connection(int connection) {
    while (drop_datagram(connection)) continue;
}

void rl_close_connection(int connection) {
    /* Nothing more comes. Each datagram brings credentials then, so that an empty one is not taken for the end of the queue. */
    int yes = 1;
    setsockopt(connection, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    shutdown(connection, SHUT_RDWR);
    bool has_more = true;
    while (has_more && (!brings_descriptors(connection) || has_room(connection))) has_more = drop_datagram(connection);
    if (has_more) do_elsewhere(empty_connection, connection);
    rl_sys_close(connection);
}

static void empty_listener(int listener) {
    for (int connection; (connection = rl_message_accept(listener)) >= 0;) rl_close_connection(connection);
}

void rl_close_listener(int listener) {
    /* No process can connect any more. */
    shutdown(listener, SHUT_RDWR);
    empty_listener(listener);
    if (errno == EMFILE) do_elsewhere(empty_listener, listener);
    rl_sys_close(listener);
}

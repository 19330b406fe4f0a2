/* SPDX-License-Identifier: MIT */
/* For message ports: every system call that they make and that a signal or a limit can end. Interrupted calls are repeated here
 * or in CLinuxCalls.h, so no other file of theirs handles EINTR. */
#define _GNU_SOURCE
#include <bsd/libutil.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* Room for the descriptors of one datagram and the credentials of its sender, aligned as the kernel requires. */
typedef union ancillary {
    char bytes[CMSG_SPACE(RL_MAX_DESCRIPTORS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
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

rl_datagram rl_message_receive(int socket, void *bytes, size_t capacity, int *descriptors) {
    rl_datagram result = {0};
    struct iovec part = {bytes, capacity};
    struct msghdr message = {0};
    ancillary control;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    result.length = rl_sys_recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (result.length < 0) return result;
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

void rl_drop(int descriptor) {
    struct linger linger;
    socklen_t size = sizeof linger;
    if (getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && linger.l_onoff && linger.l_linger > 0) {
        linger.l_onoff = 0;
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    rl_sys_close(descriptor);
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

/* Files that grow, and lines for a standard error of any kind.
 *
 * A call that would make a file longer than RLIMIT_FSIZE allows raises SIGXFSZ in the calling thread, which ends a process without
 * a handler for it; a memory file counts as a file here. A write to a pipe without a reader raises SIGPIPE in the same way. The
 * limit may change at any time, so checking it before the call does not help. The signals are therefore blocked during the call
 * and one that the call raised is taken back: all that is left is EFBIG or EPIPE. */
typedef struct size_limit {
    sigset_t before, pending;
} size_limit;

__attribute__((noinline)) static void size_limit_begin(size_limit *limit) {
    sigset_t signals;
    sigemptyset(&signals);
    sigemptyset(&limit->pending);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, &limit->before);
    /* A signal that the program itself blocks and waits for is not taken from it. */
    if (sigismember(&limit->before, SIGXFSZ) || sigismember(&limit->before, SIGPIPE)) sigpending(&limit->pending);
}

__attribute__((noinline)) static void size_limit_end(size_limit *limit, bool failed) {
    int error = errno;
    int raised = error == EFBIG ? SIGXFSZ : SIGPIPE;
    if (failed && (error == EFBIG || error == EPIPE) && !sigismember(&limit->pending, raised)) {
        static const struct timespec no_time;
        const uint64_t signal = (uint64_t)1 << (raised - 1);
        syscall(SYS_rt_sigtimedwait, &signal, NULL, &no_time, sizeof signal);
    }
    pthread_sigmask(SIG_SETMASK, &limit->before, NULL);
    errno = error;
}

void rl_write_line(int file, const void *bytes, size_t length) {
    size_limit limit;
    size_limit_begin(&limit);
    size_limit_end(&limit, rl_sys_write(file, bytes, length) < 0);
}

/* For a second, whatever signals come meanwhile. */
static bool wait_for_room(int file) {
    struct pollfd room = {file, POLLOUT, 0};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1000;
    int result, left = 1000;
    while ((result = rl_sys_poll(&room, 1, left)) < 0 && errno == EINTR && left > 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = (int)(end - now.tv_sec * 1000 - now.tv_nsec / 1000000);
        if (left < 0) left = 0;
    }
    return result > 0;
}

bool rl_write_all(int file, const void *bytes, size_t length) {
    const char *rest = bytes;
    ssize_t count = 0;
    size_limit limit;
    size_limit_begin(&limit);
    while (length > 0) {
        count = rl_sys_write(file, rest, length);
        if (count < 0 && errno == EAGAIN && wait_for_room(file)) continue;
        if (count <= 0) break;
        rest += count;
        length -= (size_t)count;
    }
    size_limit_end(&limit, count < 0);
    return length == 0;
}

static bool set_length(int file, size_t length) {
    int result;
    size_limit limit;
    size_limit_begin(&limit);
    do {
        result = ftruncate(file, (off_t)length);
    } while (result != 0 && errno == EINTR);
    size_limit_end(&limit, result != 0);
    return result == 0;
}

static bool write_all(int file, const char *bytes, size_t length) {
    ssize_t count = 1;
    size_limit limit;
    size_limit_begin(&limit);
    for (size_t done = 0; done < length && count > 0; done += (size_t)count)
        count = rl_sys_pwrite(file, bytes + done, length - done, (off_t)done);
    size_limit_end(&limit, count < 0);
    return count > 0;
}

bool rl_write_file(int file, const char *bytes, size_t length) { return set_length(file, 0) && write_all(file, bytes, length); }

static int memory_file(void) { return memfd_create("RLMessagePort", MFD_CLOEXEC | MFD_ALLOW_SEALING); }

static const int all_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int rl_sealed_memory(const void *bytes, size_t length) {
    int file = memory_file();
    if (file < 0) return -1;
    if (write_all(file, bytes, length) && fcntl(file, F_ADD_SEALS, all_seals) == 0) return file;
    rl_sys_close(file);
    return -1;
}

int rl_kept_memory(size_t length) {
    int file = memory_file();
    if (file < 0) return -1;
    if (set_length(file, length) && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) return file;
    rl_sys_close(file);
    return -1;
}

/* The kernel gives up whenever a signal comes, and then begins anew; too many signals end the attempts. */
bool rl_take_room(int file, size_t offset, size_t length) {
    for (int attempt = 0; attempt < 100; attempt++) {
        if (syscall(SYS_fallocate, file, 0, (off_t)offset, (off_t)length) == 0) return true;
        if (errno != EINTR) return false;
    }
    return false;
}

bool rl_take_file_room(int file, size_t length) {
    size_limit limit;
    size_limit_begin(&limit);
    bool taken = rl_take_room(file, 0, length);
    size_limit_end(&limit, !taken);
    return taken;
}

ssize_t rl_write_at(int file, const void *bytes, size_t length, off_t offset) {
    size_limit limit;
    size_limit_begin(&limit);
    ssize_t count = rl_sys_pwrite(file, bytes, length, offset);
    size_limit_end(&limit, count < 0);
    return count;
}

void rl_write_word(int file, uint32_t word, size_t offset) { rl_write_at(file, &word, sizeof word, (off_t)offset); }

/* Reading a hole takes memory that its sender has not paid for; as much as a datagram may bring anyway is allowed. */
enum { FREE_HOLES = 32768 };

/* The seals are read first: only a memory file has some, and any other file may make the caller wait. */
bool rl_holds(int file, size_t length, bool is_sealed) {
    struct stat status;
    int seals = fcntl(file, F_GET_SEALS);
    if (seals < 0 || fstat(file, &status) != 0) return false;
    if (is_sealed && ((seals & F_SEAL_WRITE) == 0 || (seals & F_SEAL_SHRINK) == 0 || status.st_size != (off_t)length))
        return false;
    return status.st_size >= (off_t)length && (uint64_t)status.st_blocks * 512 + FREE_HOLES >= length;
}

bool rl_is_memory(int file) { return fcntl(file, F_GET_SEALS) >= 0; }

/* Longer data are mapped as they are read: the datagram that brings a gigabyte has 32 bytes and may come again and again. */
enum { POPULATED = 64 << 20 };

void *rl_map_file(int file, size_t length) {
    int populates = length <= POPULATED ? MAP_POPULATE : 0;
    void *pages = mmap(NULL, length, PROT_READ, MAP_PRIVATE | populates, file, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *rl_map_kept(int file, size_t length) {
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *rl_map_addresses(size_t length) {
    void *pages = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    madvise(pages, length, MADV_HUGEPAGE);
    return pages;
}

bool rl_open_addresses(void *pages, size_t length) { return mprotect(pages, length, PROT_READ | PROT_WRITE) == 0; }

int rl_lock_file(const char *path) {
    int state = rl_disable_cancellation(), file;
    do {
        file = flopen(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
    } while (file < 0 && errno == EINTR);
    rl_restore_cancellation(state);
    /* Others read the name in it, and a later owner opens it to write. */
    if (file >= 0) fchmod(file, 0600);
    return file;
}

bool rl_is_path_of(int file, const char *path) {
    struct stat own, named;
    return fstat(file, &own) == 0 && lstat(path, &named) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

int rl_open_read(const char *path) {
    return rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
}

const char *rl_environment(const char *name) { return secure_getenv(name); }

typedef struct thread_start {
    void (*body)(void *);
    void *argument;
} thread_start;

static void *thread_main(void *argument) {
    thread_start start = *(thread_start *)argument;
    free(argument);
    start.body(start.argument);
    return NULL;
}

bool rl_start_thread(void (*body)(void *), void *argument) {
    thread_start *start = malloc(sizeof *start);
    if (!start) return false;
    *start = (thread_start){body, argument};
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&thread, &attributes, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error) free(start);
    return error == 0;
}

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

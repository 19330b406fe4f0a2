/* For message ports: the macros of ancillary data, and calls that are declared with _GNU_SOURCE only. */
#define _GNU_SOURCE
#include <bsd/libutil.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "CLinuxMessages.h"

/* Room for the descriptors of one datagram, aligned as the kernel wants it. */
typedef union ancillary {
    char bytes[CMSG_SPACE(RL_MAX_DESCRIPTORS * sizeof(int))];
    struct cmsghdr alignment;
} ancillary;

int rl_message_socket(void) {
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int rl_message_send(int socket, const void *head, size_t head_length, const void *body,
                    size_t body_length, const int *descriptors, int count) {
    struct iovec parts[2] = {{(void *)head, head_length}, {(void *)body, body_length}};
    struct msghdr message = {0};
    ancillary control;
    message.msg_iov = parts;
    message.msg_iovlen = body_length > 0 ? 2 : 1;
    if (count > RL_MAX_DESCRIPTORS) return EINVAL;
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
    /* A signal can only interrupt a send that blocks. */
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ? 0 : errno;
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
    result.length = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (result.length < 0) return result;
    result.is_cut = (message.msg_flags & MSG_TRUNC) != 0;
    result.lost_descriptors = (message.msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
        if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count; index++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(item) + index * sizeof(int), sizeof descriptor);
            if (result.descriptors < RL_MAX_DESCRIPTORS)
                descriptors[result.descriptors++] = descriptor;
            else
                close(descriptor);
        }
    }
    return result;
}

int rl_message_accept(int listener) {
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
    return poll(&entry, 1, 0) > 0;
}

int rl_memory_file(void) { return memfd_create("RLMessagePort", MFD_CLOEXEC | MFD_ALLOW_SEALING); }

static const int all_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int rl_memory_seal(int file) { return fcntl(file, F_ADD_SEALS, all_seals); }

bool rl_memory_is_sealed(int file) {
    int seals = fcntl(file, F_GET_SEALS);
    return seals >= 0 && (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) == (F_SEAL_WRITE | F_SEAL_SHRINK);
}

void *rl_map_file(int file, size_t length) {
    void *pages = mmap(NULL, length, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *rl_map_kept(int file, size_t length) {
    if (ftruncate(file, (off_t)length) != 0) return NULL;
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return NULL;
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

bool rl_is_memory(int file) { return fcntl(file, F_GET_SEALS) >= 0; }

void *rl_map_room(size_t length) {
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    madvise(pages, length, MADV_HUGEPAGE);
    return pages;
}

int rl_lock_file(const char *path) {
    return flopen(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
}

int rl_open_read(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
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
    return call(socket, (const struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
}

int rl_unix_bind(int socket, const char *path) { return with_address(socket, path, bind); }
int rl_unix_connect(int socket, const char *path) { return with_address(socket, path, connect); }

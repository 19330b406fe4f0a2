/* SPDX-License-Identifier: MIT */
/* Peers that are not this library. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "support_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

char directory[64];
void use_own_directory(void) {
    snprintf(directory, sizeof directory, "/tmp/rlmp-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    setenv("XDG_RUNTIME_DIR", directory, 1);
}
void remove_own_directory(void) {
    char inner[96];
    snprintf(inner, sizeof inner, "%s/runloop", directory);
    ck_assert_int_eq(rmdir(inner), 0);
    ck_assert_int_eq(rmdir(directory), 0);
}

long own_memory(void) {
    char line[160];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) sscanf(line, "RssAnon: %ld", &kib);
    fclose(status);
    return kib / 1024;
}

/* The FNV-1a hash of 128 bits, as Docs/wire-format.md has it. */
void path_of(const char *name, const char *ending, char *path, size_t size) {
    unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 hash = ((unsigned __int128)0x6c62272e07bb0142 << 64) + 0x62b821756295c58d;
    for (const char *at = name; *at; at++) hash = (hash ^ (unsigned char)*at) * prime;
    snprintf(path, size, "%.40s/runloop/%016llx%016llx%.5s", directory,
             (unsigned long long)(hash >> 64),
             (unsigned long long)hash, ending);
}

int connect_raw(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    path_of(name, ".port", address.sun_path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

Header header_of(uint8_t kind, uint32_t id, uint64_t length) {
    Header header = {.magic = "RLMP", .version = 2, .kind = kind, .id = id, .length = length};
    if (kind == 2 && id) header.flags = 2;
    return header;
}

void send_raw(int fd, Header header, const char *payload) {
    char bytes[4096];
    memcpy(bytes, &header, sizeof header);
    strcpy(bytes + sizeof header, payload);
    ck_assert_int_gt(send(fd, bytes, sizeof header + strlen(payload), MSG_NOSIGNAL), 0);
}

int greet_raw(const char *name) {
    int fd = connect_raw(name);
    send_raw(fd, header_of(1, 0, strlen(name)), name);
    return fd;
}

/* Whether the other end closed the connection. */
bool is_closed(int fd) {
    char byte;
    ssize_t count = recv(fd, &byte, 1, MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno == ECONNRESET);
}

ssize_t send_descriptors(int fd, Header header, const int *descriptors, int count) {
    const size_t size = (size_t)count * sizeof(int);
    char control[CMSG_SPACE(128 * sizeof(int))] = {0};
    struct iovec part = {&header, sizeof header};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(item), descriptors, size);
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}
void send_memory(int fd, Header header, int memory) { ck_assert_int_gt(send_descriptors(fd, header, &memory, 1), 0); }

/* A memory file laid out as kept memory, with a text in a place. */
int kept_memory(off_t size, int place, const char *text) {
    uint32_t taken = 1;
    int memory = memfd_create("test", 0);
    ck_assert_int_eq(ftruncate(memory, size), 0);
    ck_assert_int_eq(pwrite(memory, &taken, sizeof taken, 64 * place), sizeof taken);
    off_t offset = 4096 + (off_t)place * (off_t)place_size;
    ck_assert_int_gt(pwrite(memory, text, strlen(text), offset), 0);
    ck_assert_int_eq(ftruncate(memory, size), 0);
    return memory;
}

Header part_of(uint8_t flags, int32_t place, uint64_t length) {
    Header header = header_of(4, 0, length);
    header.flags = flags;
    header.number = place;
    return header;
}

void begin_parts(int fd, uint64_t length) {
    Header header = header_of(2, 5, length);
    header.flags = 2 | 4;
    send_raw(fd, header, "");
}


int listen_raw(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[160];
    snprintf(path, sizeof path, "%s/runloop", directory);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    path_of(name, ".lock", path, sizeof path);
    int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(lock, name, strlen(name)), (ssize_t)strlen(name));
    close(lock);
    path_of(name, ".port", address.sun_path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

void unlisten_raw(int fd, const char *name) {
    char path[160];
    close(fd);
    path_of(name, ".lock", path, sizeof path);
    unlink(path);
    path_of(name, ".port", path, sizeof path);
    unlink(path);
}

ssize_t receive_raw(int fd, Header *header, int *descriptor) {
    char bytes[40000], control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    *descriptor = -1;
    if (count < (ssize_t)sizeof *header) return count;
    memcpy(header, bytes, sizeof *header);
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    if (item && item->cmsg_type == SCM_RIGHTS) memcpy(descriptor, CMSG_DATA(item), sizeof *descriptor);
    return count;
}

void give_back_raw(int memory, int32_t place) {
    uint32_t zero = 0;
    ck_assert_int_eq(pwrite(memory, &zero, sizeof zero, 64 * place), sizeof zero);
}

int lingering_socket(int seconds) {
    int listener = make_listener(), client = connect_to(port_of(listener));
    static char bytes[65536];
    struct linger linger = {1, seconds};
    ck_assert_int_ge(accept(listener, NULL, NULL), 0);
    close(listener);
    while (send(client, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    ck_assert_int_eq(setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    return client;
}

struct rlimit no_more_descriptors(void) {
    struct rlimit before, now;
    int next = dup(0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = (rlim_t)next;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
    ck_assert_int_eq(dup(0), -1);
    return before;
}

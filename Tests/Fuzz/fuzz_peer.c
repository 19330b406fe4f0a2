/* SPDX-License-Identifier: MIT */
/*
 * The fuzzer's entry: a whole hostile peer against live ports of the core, which is compiled with coverage.
 *
 * The input is a list of steps. Byte 0 says who the peer is: it connects to a local port that serves (0), or it is what a remote
 * port is connected to (1). The same ports go through all inputs, so that what one leaves behind is met by the next. After each
 * the peer's connections are closed, and then a peer that behaves has to be served and no descriptor may be left.
 */
#define _GNU_SOURCE
#include <runloop/runloop.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                      \
        }                                                                 \
    } while (0)

enum { CONNECTIONS = 4, FILES = 8, KEPT = 3, PLACE = 512 << 10 };
static char folder[40];
static int files[FILES], listener;
static RLMessagePortRef port, honest;

/* The input, read from the front; 0 after its end. */
typedef struct Input {
    const uint8_t *bytes;
    size_t left;
} Input;
static uint8_t next_byte(Input *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->bytes++;
}

static void path_of(const char *name, const char *ending, char *path, size_t size) {
    unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 hash = ((unsigned __int128)0x6c62272e07bb0142 << 64) + 0x62b821756295c58d;
    for (const char *at = name; *at; at++) hash = (hash ^ (unsigned char)*at) * prime;
    snprintf(path, size, "%s/runloop/%016llx%016llx%s", folder, (unsigned long long)(hash >> 64), (unsigned long long)hash, ending);
}

static void remove_folder(void) {
    char path[120];
    RLRelease(honest);
    RLRelease(port);
    path_of("server", ".lock", path, sizeof path), unlink(path);
    path_of("server", ".port", path, sizeof path), unlink(path);
    snprintf(path, sizeof path, "%s/runloop", folder);
    rmdir(path);
    rmdir(folder);
}

static void drop_line(const char *line, void *info) { (void)line, (void)info; }

/* Replies with the message's data, and takes some of its descriptors. */
static RLDataRef echo(RLMessagePortRef local, int32_t msgid, RLDataRef data, void *info) {
    (void)info;
    int taken[4];
    RLIndex count = RLMessagePortTakeDescriptors(local, taken, msgid & 3);
    for (RLIndex i = 0; i < count; i++) close(taken[i]);
    unsigned char sum = 0;
    for (size_t at = 0; at < RLDataGetLength(data); at += 4096) sum ^= ((const unsigned char *)RLDataGetBytePtr(data))[at];
    if (msgid == 77) return NULL;
    (void)sum;
    return RLRetain(data);
}

static int make_file(size_t length, size_t filled, int seals) {
    int file = memfd_create("fuzz", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    char bytes[4096];
    memset(bytes, 'x', sizeof bytes);
    CHECK(ftruncate(file, (off_t)length) == 0);
    for (size_t done = 0; done < filled; done += sizeof bytes) {
        size_t count = filled - done < sizeof bytes ? filled - done : sizeof bytes;
        CHECK(pwrite(file, bytes, count, (off_t)done) == (ssize_t)count);
    }
    CHECK(fcntl(file, F_ADD_SEALS, seals) == 0);
    return file;
}

static int listen_as_server(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[120];
    path_of("server", ".lock", path, sizeof path);
    int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(write(lock, "server", 6) == 6);
    close(lock);
    path_of("server", ".port", path, sizeof path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 16) == 0);
    return fd;
}

__attribute__((constructor)) static void prepare(void) {
    snprintf(folder, sizeof folder, "/tmp/rlfuzz-%d", (int)getpid());
    CHECK(mkdir(folder, 0700) == 0);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    signal(SIGPIPE, SIG_IGN);
}

static void set_up(void) {
    static const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    int ends[2];
    RLSetLogHandler(drop_line, NULL);
    port = RLMessagePortCreateLocal("port", echo, NULL, NULL);
    CHECK(port);
    atexit(remove_folder);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLRelease(source);
    honest = RLMessagePortCreateRemote("port");
    CHECK(honest && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    files[0] = ends[0];
    files[1] = make_file(40000, 40000, sealed);
    files[2] = make_file(64 << 20, 0, sealed);
    files[KEPT] = make_file(4096 + 8 * PLACE, 4096 + 2 * PLACE, F_SEAL_SHRINK | F_SEAL_GROW);
    files[4] = make_file(100, 100, 0);
    files[5] = open("/dev/null", O_RDWR | O_CLOEXEC);
    files[6] = make_file(PLACE, PLACE, sealed);
    listener = listen_as_server();
    files[7] = listener;
}

/* How many descriptors are open. Pipes other than the one that the peer sends are the fuzzer's: it asks a symbolizer for names. */
static int count_descriptors(bool prints) {
    char path[300], target[200], own[200];
    int count = 0;
    DIR *open_now = opendir("/proc/self/fd");
    snprintf(path, sizeof path, "/proc/self/fd/%d", files[0]);
    own[readlink(path, own, sizeof own - 1)] = 0;
    for (struct dirent *entry; (entry = readdir(open_now));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        if (strncmp(target, "pipe:", 5) == 0 && strcmp(target, own) != 0) continue;
        if (prints) fprintf(stderr, "%s -> %s\n", entry->d_name, target);
        count++;
    }
    closedir(open_now);
    return count;
}

static int connect_to_port(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[120];
    path_of("port", ".port", path, sizeof path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void send_bytes(int fd, const uint8_t *bytes, size_t length, const int *descriptors, size_t count) {
    char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec part = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *item = CMSG_FIRSTHDR(&message);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(item), descriptors, count * sizeof(int));
    }
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static size_t take_descriptors(Input *input, int descriptors[8]) {
    uint8_t word = next_byte(input);
    size_t count = word & 7;
    for (size_t i = 0; i < count; i++) descriptors[i] = files[(i == 0 ? word >> 3 : next_byte(input)) % FILES];
    return count;
}

/* Bytes as they stand in the input. */
static void send_raw(Input *input, int fd) {
    int descriptors[8];
    size_t count = take_descriptors(input, descriptors), length = next_byte(input);
    if (length > input->left) length = input->left;
    send_bytes(fd, input->bytes, length, descriptors, count);
    input->bytes += length;
    input->left -= length;
}

/* A header that is nearly right, so that more of the inputs get past the decoder. */
static void send_header(Input *input, int fd, bool from_server) {
    static const uint64_t lengths[] = {0, 1, 3, 100, 32768, 32769, 40000, PLACE, PLACE + 1, 1 << 20, 3 << 20, 64 << 20,
                                       0x60000000, 0x60000001, UINT64_MAX, 5};
    static uint8_t bytes[32 + 40000];
    int descriptors[8];
    uint8_t kind = next_byte(input), flags = next_byte(input), id = next_byte(input), number = next_byte(input);
    uint64_t length = lengths[next_byte(input) & 15];
    size_t count = take_descriptors(input, descriptors);
    bool is_elsewhere = flags & (1 | 4 | 8);
    memcpy(bytes, "RLMP\2", 6);
    bytes[6] = kind & 0x80 ? kind : (kind & 1 ? 4 : from_server ? 3 : 2);
    bytes[7] = flags & 15;
    bytes[8] = id;
    bytes[12] = number;
    memcpy(bytes + 16, &length, 8);
    /* Most often as many as come. */
    bytes[24] = kind & 0x40 ? number : (uint8_t)(count - (count > 0 && (flags & (1 | 8))));
    size_t payload = is_elsewhere || length > 32768 ? (kind & 0x20) : (size_t)length;
    memset(bytes + 32, 'p', payload);
    send_bytes(fd, bytes, 32 + payload, descriptors, count);
}

static void say_hello(int fd, const char *name) {
    uint8_t bytes[64] = "RLMP\2";
    bytes[6] = 1;
    bytes[16] = (uint8_t)strlen(name);
    memcpy(bytes + 32, name, strlen(name));
    send_bytes(fd, bytes, 32 + strlen(name), NULL, 0);
}

/* Takes what there is, and closes what comes with it. */
static void take_all(int fd) {
    char bytes[40000], control[CMSG_SPACE(253 * sizeof(int))];
    for (;;) {
        struct iovec part = {bytes, sizeof bytes};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return;
        for (struct cmsghdr *item = CMSG_FIRSTHDR(&message); item; item = CMSG_NXTHDR(&message, item)) {
            size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < count; i++) {
                int descriptor;
                memcpy(&descriptor, CMSG_DATA(item) + i * sizeof(int), sizeof descriptor);
                close(descriptor);
            }
        }
    }
}

static void run_passes(int count) {
    while (count-- > 0) RLRunInMode("m", 0, true);
}

static void write_kept(Input *input) {
    uint8_t word[4] = {next_byte(input), 0, 0, 0};
    (void)!pwrite(files[KEPT], word, sizeof word, 64 * (next_byte(input) & 7));
}

static void play_clients(Input *input) {
    int fds[CONNECTIONS] = {-1, -1, -1, -1};
    while (input->left > 0) {
        uint8_t step = next_byte(input);
        int *fd = &fds[step >> 6];
        if (*fd < 0) {
            *fd = connect_to_port();
            if (step & 32) say_hello(*fd, "port");
        }
        switch (step & 7) {
        case 0: say_hello(*fd, step & 8 ? "porT" : "port"); break;
        case 1: send_raw(input, *fd); break;
        case 2: case 3: case 4: send_header(input, *fd, false); break;
        case 5: run_passes(1 + (step >> 3 & 3)); break;
        case 6: step & 8 ? write_kept(input) : take_all(*fd); break;
        case 7: close(*fd), *fd = -1; break;
        }
    }
    run_passes(4);
    for (int i = 0; i < CONNECTIONS; i++) {
        if (fds[i] >= 0) close(fds[i]);
    }
}

static void play_server(Input *input) {
    static char bytes[100000];
    static const size_t lengths[] = {0, 5, 32768, 100000};
    RLMessagePortRef remote = RLMessagePortCreateRemote("server");
    CHECK(remote);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    CHECK(fd >= 0);
    while (input->left > 0) {
        uint8_t step = next_byte(input);
        RLDataRef data = NULL;
        switch (step & 7) {
        case 0: case 1:
            RLMessagePortSendRequest(remote, step, bytes, lengths[step >> 6], 0, 0, step & 8 ? NULL : "r", &data);
            RLRelease(data);
            break;
        case 2: case 3: case 4: send_header(input, fd, true); break;
        case 5: send_raw(input, fd); break;
        case 6: step & 8 ? write_kept(input) : take_all(fd); break;
        case 7: if (step & 8) RLMessagePortIsValid(remote); break;
        }
    }
    close(fd);
    RLMessagePortIsValid(remote);
    RLRelease(remote);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    /* The fewest that there were: the thread that reads late replies has a set of its own, for as long as there is a port that waits for one. */
    static int before;
    int now;
    Input input = {bytes, size};
    if (!port) {
        /* With one request in each mode the loop has all the descriptors that it will keep. */
        static const uint8_t request = 0;
        set_up();
        play_server(&(Input){&request, 1});
    }
    if (next_byte(&input) & 1) play_server(&input); else play_clients(&input);
    /* What is there of the peer goes within some passes. */
    int left = 1000;
    do {
        RLDataRef data = NULL;
        CHECK(RLMessagePortSendRequest(honest, 1, "honest", 6, 10, 10, "m", &data) == kRLMessagePortSuccess);
        CHECK(RLDataGetLength(data) == 6 && memcmp(RLDataGetBytePtr(data), "honest", 6) == 0);
        RLRelease(data);
        now = count_descriptors(false);
        if (before == 0 || now < before) before = now;
    } while (now != before && --left > 0);
    if (left == 0) count_descriptors(true);
    CHECK(left > 0);
    return 0;
}

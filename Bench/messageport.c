/*
 * Round trips between two processes, in microseconds: a request and its echo by message ports, by a
 * raw Unix stream socket with blocking calls, and by libuv pipes. Three sizes; the best of five
 * runs of each is printed, and all of it comes from one run of this program.
 */
#define _GNU_SOURCE
#include <runloop/runloop.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_LIBUV
#include <uv.h>
#endif

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static char *bytes, *echoed;
static const size_t sizes[] = {0, 4096, 16 << 20};
static const int counts[] = {4000, 4000, 15};

/* Message ports */

static RLDataRef echo(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)info;
    return RLRetain(data);
}

static pid_t port_server(const char *name) {
    int ready[2];
    char byte;
    if (pipe(ready) != 0) fail("pipe");
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        RLMessagePortRef port = RLMessagePortCreateLocal(name, echo, NULL, NULL);
        RLAddSource(RLGetCurrent(), RLMessagePortCreateRunLoopSource(port, 0), kRLDefaultMode);
        if (write(ready[1], "", 1) == 1) RLRun();
        _exit(1);
    }
    if (read(ready[0], &byte, 1) != 1) fail("server");
    return process;
}

static RLMessagePortRef remote;
static void port_trip(size_t size) {
    RLDataRef data = NULL;
    int32_t code = RLMessagePortSendRequest(remote, 1, bytes, size, 60, 60, "reply", &data);
    if (code != kRLMessagePortSuccess) fail("request");
    if (RLDataGetLength(data) != size) fail("echo");
    RLRelease(data);
}

/* A raw stream socket: a length, then the bytes. */

static int raw;
static void write_all(int fd, const char *from, size_t size) {
    while (size > 0) {
        ssize_t count = write(fd, from, size);
        if (count <= 0) fail("write");
        from += count, size -= (size_t)count;
    }
}
static void read_all(int fd, char *to, size_t size) {
    while (size > 0) {
        ssize_t count = read(fd, to, size);
        if (count <= 0) exit(0);
        to += count, size -= (size_t)count;
    }
}

static pid_t raw_server(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        for (size_t size;;) {
            read_all(ends[1], (char *)&size, sizeof size);
            read_all(ends[1], bytes, size);
            write_all(ends[1], (char *)&size, sizeof size);
            write_all(ends[1], bytes, size);
        }
    }
    close(ends[1]);
    raw = ends[0];
    return process;
}
static void raw_trip(size_t size) {
    size_t length;
    write_all(raw, (char *)&size, sizeof size);
    write_all(raw, bytes, size);
    read_all(raw, (char *)&length, sizeof length);
    read_all(raw, echoed, length);
}

#ifdef WITH_LIBUV
/* libuv pipes: the same bytes, received as they come and sent back once whole. */

typedef struct Half {
    uv_pipe_t pipe;
    size_t got, length;
    char *at;
    bool serves;
} Half;
static Half half;
static bool replied;

static void take_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    Half *self = (Half *)handle;
    (void)suggested;
    if (self->got < sizeof self->length)
        *buffer = uv_buf_init((char *)&self->length + self->got, sizeof self->length - self->got);
    else
        *buffer = uv_buf_init(self->at + self->got - sizeof self->length,
                              self->length + sizeof self->length - self->got);
}
static void written(uv_write_t *request, int status) {
    if (status != 0) fail("uv_write");
    free(request);
}
static void send_half(Half *self, const char *from) {
    uv_buf_t parts[] = {uv_buf_init((char *)&self->length, sizeof self->length),
                        uv_buf_init((char *)from, self->length)};
    uv_write_t *request = malloc(sizeof *request);
    self->got = 0;
    uv_write(request, (uv_stream_t *)&self->pipe, parts, self->length > 0 ? 2 : 1, written);
}
static void received(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    Half *self = (Half *)stream;
    (void)buffer;
    if (count < 0) exit(0);
    self->got += (size_t)count;
    if (self->got < sizeof self->length || self->got < sizeof self->length + self->length) return;
    if (self->serves) {
        send_half(self, self->at);
    } else {
        self->got = 0;
        replied = true;
        uv_stop(stream->loop);
    }
}
static pid_t uv_server(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
    pid_t process = fork();
    half.serves = process == 0;
    half.at = half.serves ? bytes : echoed;
    close(ends[half.serves ? 0 : 1]);
    uv_loop_t *loop = malloc(sizeof *loop);
    uv_loop_init(loop);
    uv_pipe_init(loop, &half.pipe, 0);
    uv_pipe_open(&half.pipe, ends[half.serves ? 1 : 0]);
    uv_read_start((uv_stream_t *)&half.pipe, take_buffer, received);
    if (half.serves) {
        uv_run(loop, UV_RUN_DEFAULT);
        _exit(0);
    }
    return process;
}
static void uv_trip(size_t size) {
    half.length = size;
    replied = false;
    send_half(&half, bytes);
    while (!replied) uv_run(half.pipe.loop, UV_RUN_DEFAULT);
}
#endif

static void measure(const char *what, void (*trip)(size_t size)) {
    printf("%-14s", what);
    for (int i = 0; i < 3; i++) {
        double best = 0;
        trip(sizes[i]);
        for (int run = 0; run < 5; run++) {
            double start = now();
            for (int n = 0; n < counts[i]; n++) trip(sizes[i]);
            double each = (now() - start) / counts[i];
            if (run == 0 || each < best) best = each;
        }
        printf("%12.1f", best);
    }
    printf("\n");
    fflush(stdout);
}

int main(void) {
    char name[64];
    snprintf(name, sizeof name, "bench.%d", (int)getpid());
    bytes = malloc(sizes[2]), echoed = malloc(sizes[2]);
    memset(bytes, 1, sizes[2]), memset(echoed, 2, sizes[2]);
    pid_t servers[3] = {port_server(name), raw_server(), 0};
#ifdef WITH_LIBUV
    servers[2] = uv_server();
#endif
    remote = RLMessagePortCreateRemote(name);
    printf("us a round trip between processes\n%-14s%12s%12s%12s\n", "", "0 B", "4 KiB", "16 MiB");
    measure("message port", port_trip);
    measure("raw socket", raw_trip);
#ifdef WITH_LIBUV
    measure("libuv pipe", uv_trip);
#endif
    for (int i = 0; i < 3; i++) {
        if (servers[i] > 0) kill(servers[i], SIGKILL), waitpid(servers[i], NULL, 0);
    }
    return 0;
}

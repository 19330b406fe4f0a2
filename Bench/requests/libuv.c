/* SPDX-License-Identifier: MIT */
/* libuv's pipes: a length, then the bytes, into memory that is used again. */
#include "requests.h"

#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

static uv_loop_t loop;
static uv_pipe_t peer;
static size_t length, got, room;
static char *memory;
static bool serves, is_over;

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    (void)handle, (void)suggested;
    if (got < sizeof length)
        *buffer = uv_buf_init((char *)&length + got, sizeof length - got);
    else
        *buffer = uv_buf_init(memory + got - sizeof length, length + sizeof length - got);
}

static void after_write(uv_write_t *request, int status) {
    bench_require(status == 0, "no write");
    free(request);
}

static void send_message(const char *bytes) {
    uv_buf_t parts[] = {uv_buf_init((char *)&length, sizeof length),
                        uv_buf_init((char *)bytes, length)};
    got = 0;
    /* A reply may come before libuv says that the request was written. */
    uv_write(bench_allocate(sizeof(uv_write_t)), (uv_stream_t *)&peer, parts, length > 0 ? 2 : 1,
             after_write);
}

static void receive(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    (void)stream, (void)buffer;
    if (count < 0 && serves) _exit(0);
    bench_require(count >= 0, "the server ended");
    got += (size_t)count;
    if (got == sizeof length && length > room) {
        free(memory);
        memory = bench_allocate(room = length);
    }
    if (got < sizeof length || got < sizeof length + length) return;
    if (serves) {
        send_message(memory);
    } else {
        got = 0;
        is_over = true;
        uv_stop(&loop);
    }
}

static void begin(int socket) {
    bench_require(uv_loop_init(&loop) == 0 && uv_pipe_init(&loop, &peer, 0) == 0 &&
                      uv_pipe_open(&peer, socket) == 0,
                  "no pipe");
    uv_read_start((uv_stream_t *)&peer, give_buffer, receive);
}

void serve_requests(int socket, int ready, const char *name) {
    (void)name;
    serves = true;
    begin(socket);
    if (write(ready, "", 1) == 1) uv_run(&loop, UV_RUN_DEFAULT);
}

void open_requests(int socket, const char *name) {
    (void)name;
    begin(socket);
}

bool make_request(const char *bytes, size_t asked) {
    length = asked;
    is_over = false;
    send_message(bytes);
    while (!is_over) uv_run(&loop, UV_RUN_DEFAULT);
    return length == asked &&
           (length == 0 || (memory[0] == bytes[0] && memory[length - 1] == bytes[length - 1]));
}

/* SPDX-License-Identifier: MIT */
/* Over libuv's streams: the loop accepts and reads; uv_try_write, with uv_write for what is left. */
#include "server.h"

#include <string.h>
#include <uv.h>

static char portion[SERVER_PORTION];

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
    (void)handle, (void)suggested;
    *room = uv_buf_init(portion, sizeof portion);
}

static void written(uv_write_t *request, int status) {
    (void)status;
    free(request);
}

static void echo(uv_stream_t *stream, ssize_t length, const uv_buf_t *bytes) {
    if (length < 0) return uv_close((uv_handle_t *)stream, (uv_close_cb)(void (*)(void))free);
    uv_buf_t rest = uv_buf_init(bytes->base, (unsigned)length);
    int sent = uv_try_write(stream, &rest, 1);
    if (sent == (int)length) return;
    if (sent < 0) sent = 0;
    uv_write_t *request = malloc(sizeof *request + (size_t)length - (size_t)sent);
    rest = uv_buf_init((char *)(request + 1), (unsigned)(length - sent));
    memcpy(rest.base, bytes->base + sent, rest.len);
    uv_write(request, stream, &rest, 1, written);
}

static void take(uv_stream_t *listener, int status) {
    (void)status;
    uv_tcp_t *stream = malloc(sizeof *stream);
    uv_tcp_init(listener->loop, stream);
    if (uv_accept(listener, (uv_stream_t *)stream) == 0) uv_read_start((uv_stream_t *)stream, give_room, echo);
}

int main(int count, char **arguments) {
    uv_tcp_t listener;
    uv_tcp_init(uv_default_loop(), &listener);
    uv_tcp_open(&listener, server_listen(count, arguments));
    uv_listen((uv_stream_t *)&listener, SERVER_BACKLOG, take);
    return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

/* SPDX-License-Identifier: MIT */
/* Over libev. */
#include "server.h"

#include <ev.h>

static void echo(struct ev_loop *loop, ev_io *watcher, int events) {
    (void)events;
    if (server_echo(watcher->fd)) return;
    ev_io_stop(loop, watcher);
    close(watcher->fd);
    free(watcher);
}

static void take(struct ev_loop *loop, ev_io *watcher, int events) {
    (void)events;
    int connection = server_accept(watcher->fd);
    if (connection < 0) return;
    ev_io *fresh = malloc(sizeof *fresh);
    ev_io_init(fresh, echo, connection, EV_READ);
    ev_io_start(loop, fresh);
}

int main(int count, char **arguments) {
    static ev_io listener;
    ev_io_init(&listener, take, server_listen(count, arguments), EV_READ);
    ev_io_start(EV_DEFAULT, &listener);
    ev_run(EV_DEFAULT, 0);
    return 0;
}

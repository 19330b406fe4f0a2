/* SPDX-License-Identifier: MIT */
/* Over GLib's main loop. */
#include "server.h"

#include <glib-unix.h>

static gboolean echo(gint connection, GIOCondition condition, gpointer info) {
    (void)condition, (void)info;
    if (server_echo(connection)) return G_SOURCE_CONTINUE;
    close(connection);
    return G_SOURCE_REMOVE;
}

static gboolean take(gint listener, GIOCondition condition, gpointer info) {
    (void)condition, (void)info;
    int connection = server_accept(listener);
    if (connection >= 0) g_unix_fd_add(connection, G_IO_IN, echo, NULL);
    return G_SOURCE_CONTINUE;
}

int main(int count, char **arguments) {
    g_unix_fd_add(server_listen(count, arguments), G_IO_IN, take, NULL);
    g_main_loop_run(g_main_loop_new(NULL, FALSE));
    return 0;
}

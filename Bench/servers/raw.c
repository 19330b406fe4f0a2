/* SPDX-License-Identifier: MIT */
/* By hand: one epoll set. */
#include "server.h"

#include <sys/epoll.h>

static void watch(int epoll, int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

int main(int count, char **arguments) {
    int listener = server_listen(count, arguments), epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, listener);
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener) {
                int connection = server_accept(listener);
                if (connection >= 0) watch(epoll, connection);
            } else if (!server_echo(events[i].data.fd)) {
                close(events[i].data.fd);
            }
        }
    }
}

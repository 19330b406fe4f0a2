/* SPDX-License-Identifier: MIT */
/* Notifying a service manager: datagrams to the socket that NOTIFY_SOCKET names, sd_notify(3) without its library. */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "CLinux.h"
#include "CLinuxInsight.h"

bool rl_service_notify(const char *text, bool waits) {
    const char *name = rl_environment("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = name ? strlen(name) : 0, text_length = strlen(text);
    if (text_length == 0 || (length > 0 && name[0] != '/' && name[0] != '@')) return false;
    /* A path without a NUL after it may fill the whole field. */
    if (length < 2 || length > sizeof address.sun_path) return false;
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') address.sun_path[0] = '\0';
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return false;
    struct timespec begin, now;
    struct timeval limit = {1, 0};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ssize_t sent;
    while (true) {
        /* Without a limit it does not wait. */
        if (setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) waits = false;
        sent = syscall(SYS_sendto, descriptor, text, text_length, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT), (struct sockaddr *)&address,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
        if (sent >= 0 || errno != EINTR) break;
        /* A signal ended the wait; rl_sys_sendto would begin another of a second. */
        clock_gettime(CLOCK_MONOTONIC, &now);
        long rest = 1000000 - (now.tv_sec - begin.tv_sec) * 1000000 - (now.tv_nsec - begin.tv_nsec) / 1000;
        if (rest <= 0) break;
        limit = (struct timeval){rest / 1000000, rest % 1000000};
    }
    rl_sys_close(descriptor);
    return sent == (ssize_t)text_length;
}

uint64_t rl_service_watchdog(void) {
    const char *time = rl_environment("WATCHDOG_USEC"), *process = rl_environment("WATCHDOG_PID");
    char *end;
    if (!time || *time < '0' || *time > '9') return 0;
    if (process) {
        unsigned long number = strtoull(process, &end, 10);
        if (*process < '0' || *process > '9' || *end != '\0' || number != (unsigned long)getpid()) return 0;
    }
    errno = 0;
    unsigned long long microseconds = strtoull(time, &end, 10);
    return *end == '\0' && errno == 0 ? microseconds : 0;
}

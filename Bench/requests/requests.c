/* SPDX-License-Identifier: MIT */
/*
 * Round trips between two processes: nanoseconds for a request with some bytes and its echo.
 *     arguments: requests; bytes; processors
 */
#define _GNU_SOURCE
#include "requests.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void request(void) {
    char name[64], byte;
    int ends[2], ready[2];
    long count = bench_argument(0, 100);
    size_t length = (size_t)bench_argument(1, 0);
    char *bytes = bench_allocate(length + 1);
    memset(bytes, 1, length);
    snprintf(name, sizeof name, "bench.%d", (int)getpid());
    bench_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 && pipe(ready) == 0,
                  "no descriptors");
    pid_t server = fork();
    bench_require(server >= 0, "no process");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bench_pin(bench_argument(2, 1) > 1);
        close(ends[0]);
        serve_requests(ends[1], ready[1], name);
        _exit(1);
    }
    bench_pin(0);
    close(ends[1]);
    bench_require(read(ready[0], &byte, 1) == 1, "the server did not start");
    open_requests(ends[0], name);
    for (int phase = 0; phase < 2; phase++) {
        long phase_count = phase ? count : count / 10 + 1;
        bench_begin();
        for (long i = 0; i < phase_count; i++) {
            if (length > 0) bytes[0] = bytes[length - 1] = (char)(i + 1);
            bench_require(make_request(bytes, length), "an echo is wrong");
        }
        if (phase) bench_end((double)phase_count);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

const struct workload bench_workloads[] = {{"request", request}, {NULL, NULL}};

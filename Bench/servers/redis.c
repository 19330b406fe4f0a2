/* SPDX-License-Identifier: MIT */
/*
 * Clients of Redis by hiredis over one event loop (OVER_RUNLOOP, OVER_LIBUV or OVER_LIBEV): connections that each keep so many
 * commands on their way. Prints the requests, the seconds, and the seconds of processor time of this process.
 * usage: redis SOCKET CONNECTIONS DEPTH SECONDS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(OVER_RUNLOOP)
#include <runloop/adapters/hiredis.h>
#define ATTACH(context) RLHiredisAttach(context, RLGetCurrent(), kRLDefaultMode)
#define RUN() RLRun()
#define STOP() RLStop(RLGetCurrent())
#elif defined(OVER_LIBUV)
#include <hiredis/adapters/libuv.h>
#define ATTACH(context) redisLibuvAttach(context, uv_default_loop())
#define RUN() uv_run(uv_default_loop(), UV_RUN_DEFAULT)
#define STOP() uv_stop(uv_default_loop())
#else
#include <hiredis/adapters/libev.h>
#define ATTACH(context) redisLibevAttach(EV_DEFAULT_ context)
#define RUN() ev_run(EV_DEFAULT_ 0)
#define STOP() ev_break(EV_DEFAULT_ EVBREAK_ALL)
#endif

static long answers;
static double end, processor, start;

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void answered(redisAsyncContext *context, void *reply, void *info) {
    if (!reply) exit(1);
    /* The clock is read now and then, over each loop as often. */
    if ((++answers & 255) == 0) {
        double now = read_clock(CLOCK_MONOTONIC);
        if (start == 0 && now > end) {
            /* It is warm: the measurement begins. */
            processor = read_clock(CLOCK_PROCESS_CPUTIME_ID);
            start = now, end = now + *(double *)info;
            answers = 0;
        } else if (now > end) {
            printf("%ld %.6f %.6f\n", answers, now - start, read_clock(CLOCK_PROCESS_CPUTIME_ID) - processor);
            end = 1e18;
            STOP();
        }
    }
    redisAsyncCommand(context, answered, info, "GET key");
}

int main(int count, char **arguments) {
    if (count < 5) return 2;
    int connections = atoi(arguments[2]), depth = atoi(arguments[3]);
    double seconds = atof(arguments[4]);
    end = read_clock(CLOCK_MONOTONIC) + seconds / 4;
    for (int i = 0; i < connections; i++) {
        redisAsyncContext *context = redisAsyncConnectUnix(arguments[1]);
        if (!context || context->err || ATTACH(context) != REDIS_OK) return 1;
        for (int j = 0; j < depth; j++) redisAsyncCommand(context, answered, &seconds, "GET key");
    }
    RUN();
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Takes hiredis's example, which has its port written in it, to the port of the test's server (linked with --wrap). */
#include <hiredis/async.h>
#include <stdlib.h>

redisAsyncContext *__real_redisAsyncConnect(const char *address, int port);
redisAsyncContext *__wrap_redisAsyncConnect(const char *address, int port) {
    (void)port;
    return __real_redisAsyncConnect(address, atoi(getenv("REDIS_PORT")));
}

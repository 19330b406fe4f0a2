/* SPDX-License-Identifier: MIT */
/* A process that has no memory for what arrives: it stays queued, and is looked at again ten times a second. */
#define _GNU_SOURCE
#include "support_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);

/* From this size on memory is refused; 0: none is. */
static size_t refused_size;
static int refusals;

void *malloc(size_t size) {
    const size_t refused = __atomic_load_n(&refused_size, __ATOMIC_SEQ_CST);
    if (refused == 0 || size < refused) return __libc_malloc(size);
    __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return NULL;
}

static void expect_data_to_wait_for_memory(int type) {
    static Socket s;
    s = (Socket){.name = "s"};
    int ends[2];
    make_sockets(type, ends);
    socket_make(&s, ends[0], kRLSocketDataCallBack);
    socket_add(&s);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    refusals = 0;
    __atomic_store_n(&refused_size, 16384, __ATOMIC_SEQ_CST);
    ck_assert_int_eq(send(ends[1], "hello", 5, 0), 5);
    const double begin = monotonic_now();
    while (monotonic_now() - begin < 0.3) RLRunInMode(kRLDefaultMode, 0.1, true);
    ck_assert_int_gt(count_of(&refusals), 0);
    ck_assert_double_le(count_of(&refusals), 10 * (monotonic_now() - begin) + 3);
    expect_trace("");
    ck_assert(RLSocketIsValid(s.socket));
    __atomic_store_n(&refused_size, 0, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 1000 && s.calls == 0; i++) RLRunInMode(kRLDefaultMode, 0.01, true);
    expect_trace("s:data=5");
    RLSocketInvalidate(s.socket);
    RLRelease(s.socket);
    close(ends[1]);
}

RL_TEST(bytes_wait_for_memory, "S-ARG-13 S-SOCK-25", "Bytes of a stream for which malloc has no memory are reported once it has; until then there is no spin") {
    expect_data_to_wait_for_memory(SOCK_STREAM);
}

RL_TEST(a_datagram_waits_for_memory, "S-ARG-13 S-SOCK-27", "A datagram for which malloc has no memory is reported once it has; until then there is no spin") {
    expect_data_to_wait_for_memory(SOCK_DGRAM);
}

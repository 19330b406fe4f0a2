/* SPDX-License-Identifier: MIT */
/* Section 15.5: sockets whose connection is gone without a sign of how it ended. */
#include "support_socket.h"

#include <sys/socket.h>
#include <unistd.h>

static Socket s = {.name = "s"};

/* An address at which nobody listens; the descriptor keeps it. */
static struct sockaddr_in nobody(int *fd) {
    struct sockaddr_in address = loopback(0);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(*fd, (struct sockaddr *)&address, sizeof address), 0);
    return loopback(port_of(*fd));
}

RL_TEST(orderly_after_the_program_took_the_error, "S-SOCK-63",
        "A socket that is closed with bytes for a connect ends when the connect has failed, though the program has read the error itself") {
    int keeper, error = 0;
    socklen_t length = sizeof error;
    struct sockaddr_in address = nobody(&keeper);
    socket_create(&s, PF_INET, SOCK_STREAM, kRLSocketConnectCallBack);
    socket_add(&s);
    ck_assert_int_eq(RLSocketWrite(s.socket, "x", 1, 1), 1);
    ck_assert_int_eq(RLSocketConnectToAddress(s.socket, &address, sizeof address, -1), kRLSocketSuccess);
    ck_assert_int_eq(RLSocketClose(s.socket, kRLSocketCloseOrderly), kRLSocketSuccess);
    ck_assert(RLSocketIsValid(s.socket));
    ck_assert_int_eq(getsockopt(RLSocketGetNative(s.socket), SOL_SOCKET, SO_ERROR, &error, &length), 0);
    ck_assert_int_ne(error, 0);
    for (int i = 0; i < 8; i++) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert(!RLSocketIsValid(s.socket));
    ck_assert_int_eq(s.releases, s.retains);
    expect_trace("");
    close(keeper);
}

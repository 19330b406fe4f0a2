/* SPDX-License-Identifier: MIT */
/* Section 15.5: sockets whose connection is gone without a sign of how it ended. */
#define _GNU_SOURCE
#include "support_socket.h"

#include <fcntl.h>
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

RL_TEST(the_number_of_another_file_stays_open, "S-SOCK-13 S-SOCK-10",
        "Invalidating a socket whose number was closed and used again closes nothing; the next call sees that the socket is invalid") {
    for (int looks = 0; looks < 2; looks++) {
        int ends[2], others[2];
        make_sockets(SOCK_STREAM, ends);
        make_pipe(others);
        RLSocketRef socket = socket_make(&s, ends[0], kRLSocketReadCallBack);
        ck_assert_int_eq(dup3(others[0], ends[0], O_CLOEXEC), ends[0]);
        if (looks) ck_assert_int_eq(RLSocketGetNative(socket), -1);
        RLSocketInvalidate(socket);
        ck_assert_int_ge(fcntl(ends[0], F_GETFD), 0);
        ck_assert(!RLSocketIsValid(socket));
        RLRelease(socket);
        close(ends[0]);
        close(ends[1]);
        close(others[0]);
        close(others[1]);
    }
}

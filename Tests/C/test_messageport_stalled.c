/* SPDX-License-Identifier: MIT */
/* Peers of message ports that stop: what a port keeps for them, and what it costs to find them. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Until the port has taken all that was sent to it. */
static void serve_all(void) {
    for (int idle = 0; idle < 32;) idle = RLRunInMode("m", 0, true) == kRLRunHandledSource ? 0 : idle + 1;
}

static void send_descriptors(int fd, Header header, int descriptor, int count) {
    int all[128];
    char control[CMSG_SPACE(sizeof all)] = {0};
    struct iovec part = {&header, sizeof header};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) all[i] = descriptor;
    memcpy(CMSG_DATA(item), all, (size_t)count * sizeof(int));
    ck_assert_int_gt(sendmsg(fd, &message, MSG_NOSIGNAL), 0);
}

static int looks;
static bool count_looks(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    if (number == SYS_ppoll) looks++;
    return false;
}

RL_TEST(a_datagram_costs_the_same_however_many_are_begun, "S-MSG-42",
        "While begun messages hold much, connections whose datagrams wait are looked at once, and not once for each datagram of the others") {
    enum { PEERS = 150, HOLDERS = 2 };
    static Service service = {.reply = "yes"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "begun", "m");
    int fds[PEERS], holders[HOLDERS];
    Header begun = header_of(2, 0, 40000);
    begun.flags = 4;
    for (int i = 0; i < PEERS; i++) {
        fds[i] = greet_raw("begun");
        send_raw(fds[i], begun, "");
        serve_all();
    }
    begun.descriptors = 100;
    for (int i = 0; i < HOLDERS; i++) {
        holders[i] = greet_raw("begun");
        send_descriptors(holders[i], begun, STDIN_FILENO, 100);
        serve_all();
    }
    /* Nothing is taken for longer than a sender may be still. */
    take_time(2.2);
    begun.descriptors = 0;
    for (int i = 0; i < PEERS; i++) send_raw(fds[i], begun, "");
    for (int i = 0; i < HOLDERS; i++) send_memory(holders[i], part_of(1, 0, 1), kept_memory(4096, 0, "x"));
    hook_system_calls(count_looks);
    serve_all();
    hook_system_calls(NULL);
    ck_assert_int_le(looks, 2 * (PEERS + HOLDERS) + 64);
    for (int i = 0; i < PEERS; i++) ck_assert(!is_closed(fds[i]));
    for (int i = 0; i < PEERS; i++) close(fds[i]);
    for (int i = 0; i < HOLDERS; i++) close(holders[i]);
    serve_all();
    RLRelease(port);
    remove_own_directory();
}

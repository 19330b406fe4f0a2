/* SPDX-License-Identifier: MIT */
/* Message ports of a program that closes numbers which are not its own. */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "system_calls.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG = 100000 };
static char long_bytes[LONG];

/* Closes all numbers that are new, or gives them to a file of the program's, which is always ready. */
static void lose_numbers(const DescriptorSet *before, bool replaces) {
    const DescriptorSet used = descriptors_now();
    const int file = replaces ? open("/dev/null", O_RDWR) : -1;
    for (int number = 3; number < 1024; number++) {
        if (!used.open[number] || before->open[number]) continue;
        if (replaces) dup2(file, number);
        else close(number);
    }
    /* What the library makes from now on gets numbers that it did not have. */
    for (int number = 64; replaces && number < 100; number++)
        if (fcntl(number, F_GETFD) < 0) dup2(file, number);
}

static int count_files_like(int number) {
    struct stat one, other;
    int count = 0;
    if (fstat(number, &one) != 0) return -1;
    for (int each = 3; each < 1024; each++) count += fstat(each, &other) == 0 && other.st_ino == one.st_ino;
    return count;
}

static int waits;
static bool count_waits(long number, const long argument[6], long *result) {
    (void)argument, (void)result;
    waits += number == SYS_epoll_pwait2 || number == SYS_epoll_pwait;
    return false;
}

static void lose_ports(void *replaces) {
    static Service service = {.reply = "answer"};
    static char name[160];
    strcpy(name, port_name("lost"));
    log_capture();
    const DescriptorSet before = descriptors_now();
    RLMessagePortRef port = add_service(&service, name, kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    /* A long one, with memory that is kept for the next. */
    if (RLMessagePortSendRequest(remote, 1, long_bytes, LONG, 60, 60, kRLDefaultMode, NULL) != kRLMessagePortSuccess) _exit(1);
    lose_numbers(&before, replaces != NULL);
    const int files = replaces ? count_files_like(70) : 0;
    hook_system_calls(count_waits);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    if (RLRunInMode(kRLDefaultMode, 0.2, false) != kRLRunTimedOut) _exit(2);
    if (waits > 100) _exit(3);
    /* A loop that sleeps is still told. */
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    if (RLRunInMode(kRLDefaultMode, 1e9, false) != kRLRunStopped) _exit(4);
    thread_join(thread);
    if (replaces && RLMessagePortIsValid(port)) _exit(5);
    if (replaces && !strstr(log_text(), "local port was closed or replaced")) _exit(6);
    RLMessagePortInvalidate(remote);
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    if (replaces && count_files_like(70) != files) _exit(7);
    _exit(0);
}

RL_TEST(the_files_of_the_program_stay, "S-MSG-52 S-FD-18",
        "A program that closes the descriptors of its ports and uses the numbers loses no file, and its loop does not spin") {
    ck_assert_int_eq(WEXITSTATUS(run_child(lose_ports, (void *)1).status), 0);
    ck_assert_int_eq(WEXITSTATUS(run_child(lose_ports, NULL).status), 0);
}

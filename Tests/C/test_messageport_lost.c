/* SPDX-License-Identifier: MIT */
/* Message ports of a program that closes numbers which are not its own. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
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

static int refused_accepts;
static bool refuse_accepts(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_accept4) return false;
    refused_accepts++;
    errno = EMFILE;
    *result = -1;
    return true;
}

static int number_of_set(const DescriptorSet *before) {
    for (int number = 64; number < 1024; number++) {
        char path[32], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0 || before->open[number]) continue;
        target[length] = 0;
        if (strstr(target, "eventpoll")) return number;
    }
    _exit(20);
}

/* How the program ends the port while the listener is paused: the set's number is a file's of its own by then, or still the set's. */
static void lose_set_in_a_pause(void *renames_and_keeps) {
    const long way = (long)renames_and_keeps;
    const bool renames = way & 1, keeps = way & 2;
    static Service service = {.reply = "answer"};
    static char name[160], other[160];
    strcpy(name, port_name("paused"));
    strcpy(other, port_name("paused otherwise"));
    log_capture();
    const int file = open("/dev/null", O_RDWR);
    const DescriptorSet before = descriptors_now();
    RLMessagePortRef port = service_port(&service, name);
    const int set = number_of_set(&before);
    RLAddSource(RLGetCurrent(), RLMessagePortCreateRunLoopSource(port, 0), kRLDefaultMode);
    hook_system_calls(refuse_accepts);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    while (refused_accepts == 0) RLRunInMode(kRLDefaultMode, 0.001, true);
    if (renames && !RLMessagePortSetName(port, other)) _exit(1);
    if (!keeps) dup2(file, set);
    const int files = count_files_like(file);
    RLMessagePortInvalidate(port);
    if (count_files_like(file) != files) _exit(2);
    char path[32], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", set);
    if (keeps && readlink(path, target, sizeof target) >= 0) _exit(3);
    RLRelease(remote);
    _exit(0);
}

RL_TEST(a_set_is_lost_while_the_listener_is_paused, "S-MSG-52 S-ARG-10",
        "While a port takes no connections, under its name or a new one, its set is recognised: the program's file that has the number stays open, and "
        "the set itself is closed") {
    for (long way = 0; way < 4; way++) ck_assert_int_eq(WEXITSTATUS(run_child(lose_set_in_a_pause, (void *)way).status), 0);
}

/* The numbers of a peer's memory files that are new, of this size; at most so many. */
static int find_memory(off_t size, int *numbers, int most) {
    int count = 0;
    for (int number = 3; number < 1024 && count < most; number++) {
        struct stat status;
        char path[32], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        if (strstr(target, "memfd:RLMessagePort") && fstat(number, &status) == 0 && status.st_size == size) numbers[count++] = number;
    }
    return count;
}

enum { MANY = 600 };
static char long_reply[LONG + 1];

static void serve_all(void) {
    for (int idle = 0; idle < 32;) idle = RLRunInMode("m", 0, true) == kRLRunHandledSource ? 0 : idle + 1;
}

/* How many files of the program's a peer gets that reads all. */
static int count_sent(int peer, int file) {
    struct stat own, other;
    int count = 0, number;
    Header header;
    fstat(file, &own);
    for (int idle = 0; idle < 3;) {
        struct pollfd entry = {.fd = peer, .events = POLLIN};
        serve_all();
        if (poll(&entry, 1, 10) == 0) {
            idle++;
            continue;
        }
        if (receive_raw(peer, &header, &number) <= 0) break;
        if (number < 0) continue;
        count += fstat(number, &other) == 0 && other.st_ino == own.st_ino;
        if (header.flags & 8) give_back_raw(number, header.number);
        close(number);
    }
    return count;
}

RL_TEST(the_memory_of_a_message_that_waits, "S-MSG-52 S-FD-18",
        "A long reply that waits for room keeps no number below 64; a file that the program puts in its place is neither sent nor closed") {
    for (int reads = 0; reads < 2; reads++) {
        static Service services[2];
        Service *service = &services[reads];
        use_own_directory();
        memset(long_reply, 'a', LONG);
        service->reply = long_reply;
        RLMessagePortRef port = add_service(service, "waits", "m");
        const int peer = greet_raw("waits");
        for (int i = 1; i <= MANY; i++) {
            struct pollfd entry = {.fd = peer, .events = POLLOUT};
            if (poll(&entry, 1, 0) == 0) serve_all();
            if (poll(&entry, 1, 0) == 0) break;
            Header header = header_of(2, (uint32_t)i, 0);
            header.flags = 2;
            send_raw(peer, header, "");
        }
        serve_all();
        int numbers[4];
        const int count = find_memory(LONG, numbers, 4);
        ck_assert_int_ge(count, 1);
        const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; i < count; i++) {
            ck_assert_int_ge(numbers[i], 64);
            ck_assert_int_eq(dup3(file, numbers[i], O_CLOEXEC), numbers[i]);
        }
        if (reads) ck_assert_int_eq(count_sent(peer, file), 0);
        RLMessagePortInvalidate(port);
        RLRelease(port);
        for (int i = 0; i < count; i++) {
            ck_assert_int_ge(fcntl(numbers[i], F_GETFD), 0);
            close(numbers[i]);
        }
        close(file);
        close(peer);
        remove_own_directory();
    }
}

RL_TEST(the_descriptors_of_a_message_in_parts, "S-MSG-52 S-FD-18", "What came with a message that is not complete has no number below 64") {
    static Service service = {.reply = "answer"};
    use_own_directory();
    RLMessagePortRef port = add_service(&service, "parts", "m");
    const int peer = greet_raw("parts"), file = open("/dev/null", O_RDWR | O_CLOEXEC);
    serve_all();
    const DescriptorSet before = descriptors_now();
    Header header = header_of(2, 5, 1000000);
    header.flags = 2 | 4;
    header.descriptors = 1;
    send_memory(peer, header, file);
    serve_all();
    const DescriptorSet after = descriptors_now();
    int count = 0;
    for (int number = 0; number < 1024; number++) {
        if (before.open[number] || !after.open[number]) continue;
        ck_assert_int_ge(number, 64);
        count++;
    }
    ck_assert_int_eq(count, 1);
    close(peer);
    serve_all();
    RLMessagePortInvalidate(port);
    RLRelease(port);
    close(file);
    remove_own_directory();
}

static int invalidations;
static void note_invalidation(RLMessagePortRef port, void *info) {
    (void)port, (void)info;
    invalidations++;
}

RL_TEST(a_remote_port_whose_connection_was_closed, "S-MSG-36 S-MSG-20 S-FD-18",
        "A remote port finds at a question for its validity, or where one is made for the name, that its connection's number was closed, also where a file of the program's has it") {
    for (int replaced = 0; replaced < 4; replaced++) {
        static Service service = {.reply = "answer"};
        invalidations = 0;
        const char *name = port_name("gone");
        RLMessagePortRef port = add_service(&service, name, kRLDefaultMode);
        const DescriptorSet before = descriptors_now();
        RLMessagePortRef remote = RLMessagePortCreateRemote(name), next;
        RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
        int number = -1;
        for (int each = 64; each < 1024; each++) {
            struct stat status;
            if (!before.open[each] && fstat(each, &status) == 0 && S_ISSOCK(status.st_mode)) number = each;
        }
        ck_assert_int_ge(number, 64);
        const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (replaced % 2) ck_assert_int_eq(dup3(file, number, O_CLOEXEC), number);
        else close(number);
        if (replaced < 2) ck_assert(!RLMessagePortIsValid(remote));
        next = RLMessagePortCreateRemote(name);
        ck_assert_ptr_nonnull(next);
        ck_assert_ptr_ne(next, remote);
        ck_assert(!RLMessagePortIsValid(remote));
        ck_assert(RLMessagePortIsValid(next));
        ck_assert_int_eq(invalidations, 1);
        if (replaced % 2) ck_assert_int_ne(fcntl(number, F_GETFD), -1);
        RLRelease(remote);
        RLMessagePortInvalidate(next);
        RLRelease(next);
        RLMessagePortInvalidate(port);
        RLRelease(port);
        if (replaced % 2) close(number);
        close(file);
    }
}

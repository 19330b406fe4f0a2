/* SPDX-License-Identifier: MIT */
/* The library's thread that watches for the end of peers, when there is no thread in the place of one that a client's function ended, and at a fork. */
#define _GNU_SOURCE
#include "messageport_raw.h"
#include "thread_starts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int invalidations;
static void note_invalidation(RLMessagePortRef port, void *info) {
    (void)info;
    ck_assert(!RLMessagePortIsValid(port));
    __atomic_add_fetch(&invalidations, 1, __ATOMIC_SEQ_CST);
}

static Server servers[4];
static RLMessagePortRef remotes[4];
static void start_servers(int count) {
    static const char *const words[] = {"first", "second", "third", "fourth"};
    for (int i = 0; i < count; i++) {
        servers[i] = server_start(port_name(words[i]), "x", NULL);
        remotes[i] = RLMessagePortCreateRemote(port_name(words[i]));
    }
}
static void kill_and_release(int from, int to) {
    for (int i = from; i < to; i++) server_kill(&servers[i]);
    wait_until_count(&invalidations, to);
    for (int i = 0; i < to; i++) {
        while (RLGetRetainCount(remotes[i]) > 1) take_time(0.001);
        RLRelease(remotes[i]);
    }
}

static void end_in_invalidation(RLMessagePortRef port, void *info) {
    note_invalidation(port, info);
    pthread_exit(NULL);
}

RL_TEST(no_thread_takes_the_place, "S-MSG-46 S-MSG-36 S-LOOP-19",
        "If an invalidation callback ends the watching thread while none can be made, that is logged, and the next port that is to be watched "
        "gets a thread, which watches all of them; so it is with the first port") {
    int before = count_descriptors();
    log_capture();
    start_servers(4);
    RLMessagePortSetInvalidationCallBack(remotes[0], end_in_invalidation);
    RLMessagePortSetInvalidationCallBack(remotes[1], note_invalidation);
    hook_thread_starts(refuse_thread);
    server_kill(&servers[0]);
    wait_until_count(&invalidations, 1);
    while (!strstr(log_text(), "no thread to watch for the end of peers")) take_time(0.001);
    RLMessagePortSetInvalidationCallBack(remotes[2], note_invalidation);
    hook_thread_starts(NULL);
    RLMessagePortSetInvalidationCallBack(remotes[3], note_invalidation);
    kill_and_release(1, 4);
    while (count_descriptors() > before) take_time(0.001);
}

static Gate is_called = GATE_INITIALIZER, may_return = GATE_INITIALIZER;
static int inside;
static void wait_in_invalidation(RLMessagePortRef port, void *info) {
    ck_assert_int_eq(__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST), 1);
    gate_open(&is_called);
    gate_wait(&may_return);
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    note_invalidation(port, info);
}
static void note_alone(RLMessagePortRef port, void *info) {
    ck_assert_int_eq(count_of(&inside), 0);
    note_invalidation(port, info);
}
RL_TEST(one_callback_at_a_time, "S-MSG-36",
        "Ports that end while the library's thread is in the invalidation callback of one wait for its return, and then all of them are told") {
    start_servers(4);
    RLMessagePortSetInvalidationCallBack(remotes[0], wait_in_invalidation);
    for (int i = 1; i < 4; i++) RLMessagePortSetInvalidationCallBack(remotes[i], note_alone);
    server_kill(&servers[0]);
    gate_wait(&is_called);
    for (int i = 1; i < 4; i++) server_kill(&servers[i]);
    take_time(0.01);
    ck_assert_int_eq(count_of(&invalidations), 0);
    gate_open(&may_return);
    kill_and_release(4, 4);
}

enum { MANY = 100 };
static RLMessagePortRef locals[MANY], many[MANY];
static void make_many(RLMessagePortInvalidationCallBack called) {
    for (int i = 0; i < MANY; i++) {
        char word[16];
        snprintf(word, sizeof word, "many%d", i);
        locals[i] = RLMessagePortCreateLocal(port_name(word), NULL, NULL, NULL);
        many[i] = RLMessagePortCreateRemote(port_name(word));
        ck_assert_ptr_nonnull(many[i]);
        RLMessagePortSetInvalidationCallBack(many[i], i == 0 ? wait_in_invalidation : called);
    }
}
/* Those after the first one end while its callback is under way. */
static void end_many(void) {
    RLMessagePortInvalidate(locals[0]);
    gate_wait(&is_called);
    for (int i = 1; i < MANY; i++) RLMessagePortInvalidate(locals[i]);
    gate_open(&may_return);
    wait_until_count(&invalidations, MANY);
    for (int i = 0; i < MANY; i++) {
        while (RLGetRetainCount(many[i]) > 1) take_time(0.001);
        RLRelease(many[i]);
        RLRelease(locals[i]);
    }
}
static int starts;
static bool count_start(void) {
    __atomic_add_fetch(&starts, 1, __ATOMIC_SEQ_CST);
    return false;
}
RL_TEST(few_threads_for_many_ends, "S-MSG-36 S-THR-9",
        "Ports that end while the library's thread is in an invalidation callback are all told, one at a time, without a new thread for each") {
    make_many(note_alone);
    hook_thread_starts(count_start);
    end_many();
    hook_thread_starts(NULL);
    ck_assert_int_lt(count_of(&starts), MANY / 4);
}
RL_TEST(threads_that_end_lose_no_port, "S-MSG-36 S-LOOP-19",
        "The same where each of the other callbacks ends its thread: all are told") {
    make_many(end_in_invalidation);
    end_many();
}

static int lines;
static void end_library_thread(const char *line, void *info) {
    (void)line;
    __atomic_add_fetch(&lines, 1, __ATOMIC_SEQ_CST);
    if (!pthread_equal(pthread_self(), *(pthread_t *)info)) pthread_exit(NULL);
}
RL_TEST(the_log_handler_ends_the_thread, "S-LOOP-19 S-MSG-36 S-MSG-28",
        "If the log handler ends the library's thread when that tells of a malformed reply, the port becomes invalid nevertheless") {
    use_own_directory();
    pthread_t own = pthread_self();
    int listener = listen_raw("garbage");
    RLMessagePortRef remote = RLMessagePortCreateRemote("garbage");
    int connection = accept(listener, NULL, NULL);
    RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 1, NULL, 0, 60, 0, "m", NULL), kRLMessagePortReceiveTimeout);
    RLSetLogHandler(end_library_thread, &own);
    ck_assert_int_eq(send(connection, "garbage", 7, MSG_NOSIGNAL), 7);
    wait_until_count(&invalidations, 1);
    RLSetLogHandler(NULL, NULL);
    ck_assert_int_eq(count_of(&lines), 1);
    close(connection);
    RLRelease(remote);
    unlisten_raw(listener, "garbage");
    remove_own_directory();
}

#ifndef WITH_THREAD_SANITIZER /* It has a thread that sleeps all the time. */
/* Waits for the thread that watches, and tells how often others than this thread have gone to sleep so far. */
static long count_sleeps(void) {
    long sleeps = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[200];
        long count;
        if (task->d_name[0] == '.' || atoi(task->d_name) == (int)gettid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) sleeps += count;
        if (file) fclose(file);
    }
    closedir(tasks);
    return sleeps;
}

RL_TEST(the_thread_waits_once_it_can, "S-MSG-46",
        "The thread that checked ports for lack of a descriptor waits for them once there is one, those that it checked and those that come") {
    start_servers(2);
    struct rlimit old, none;
    getrlimit(RLIMIT_NOFILE, &old);
    none = old;
    none.rlim_cur = 0;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    RLMessagePortSetInvalidationCallBack(remotes[0], note_invalidation);
    setrlimit(RLIMIT_NOFILE, &old);
    RLMessagePortSetInvalidationCallBack(remotes[1], note_invalidation);
    /* One that checks sleeps ten times a second. */
    long before, after = count_sleeps();
    const double end = monotonic_now() + 60;
    do {
        before = after;
        take_time(1);
        after = count_sleeps();
    } while (after != before && monotonic_now() < end);
    ck_assert_int_eq(after, before);
    kill_and_release(0, 2);
}
#endif

static int count_sets(void) {
    int count = 0;
    for (int number = 3; number < 256; number++) {
        char path[32], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        count += strstr(target, "eventpoll") != NULL;
    }
    return count;
}

RL_TEST(a_thread_that_is_about_to_end_at_a_fork, "S-FORK-1 S-MSG-36",
        "A child of fork has no set of the watching thread, even if that had nothing to watch any more and was about to end") {
    Server server = server_start(port_name("set"), "x", NULL);
    int left = 0;
    for (int i = 0; i < 100; i++) {
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("set"));
        RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
        RLRelease(remote);
        pid_t child = fork();
        if (child == 0) _exit(count_sets());
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        left += WEXITSTATUS(status);
    }
    ck_assert_int_eq(left, 0);
    server_kill(&server);
}

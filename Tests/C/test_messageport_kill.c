/* SPDX-License-Identifier: MIT */
/*
 * SIGKILL for either side of a stream of requests, at moments that nobody chose. RL_KILLS in the
 * environment is how often each case kills (40 without it).
 */
#define _GNU_SOURCE
#include "messageport_raw.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int kills(void) {
    const char *text = getenv("RL_KILLS");
    return text ? atoi(text) : 40;
}

/* Numbers that differ from run to run; a failure prints the seed. */
static unsigned seed;
static unsigned next_random(void) { return (unsigned)rand_r(&seed); }

/* Requests of all ways: in a datagram, in parts, in memory of their own, with descriptors. */
static int32_t send_some(RLMessagePortRef remote, RLMode mode) {
    static char bytes[3 << 20];
    static const size_t lengths[] = {1, 30000, 100000, 1 << 20, sizeof bytes};
    int descriptors[2] = {0, 1};
    RLDataRef data = NULL;
    int32_t code = RLMessagePortSendRequestWithDescriptors(remote, 1, bytes, lengths[next_random() % 5], descriptors,
                                                           next_random() % 3, 10, 10, mode, mode ? &data : NULL);
    RLRelease(data);
    return code;
}

static void kill_after(pid_t process, unsigned microseconds) {
    struct timespec time = {0, (long)microseconds * 1000};
    nanosleep(&time, NULL);
    kill(process, SIGKILL);
}
static void *kill_later(void *process) {
    kill_after(*(pid_t *)process, next_random() % 8000);
    return NULL;
}

/* MiB that the memory may grow by; the address sanitizer keeps 256 MiB of what was freed. */
#ifdef WITH_ADDRESS_SANITIZER
enum { growth = 32 + 256 };
#else
enum { growth = 32 };
#endif

static int count_files(void) {
    char path[96];
    snprintf(path, sizeof path, "%s/runloop", directory);
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

RL_TEST(a_server_is_killed_at_any_moment, "S-MSG-36 S-MSG-39 S-MSG-29",
        "A server that is killed during a stream of requests ends the request that waits, leaves its name free and nothing "
        "open here") {
    use_own_directory();
    seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    fprintf(stderr, "seed %u\n", seed);
    int before = 0, count = kills();
    long memory = 0;
    for (int i = 0; i < count; i++) {
        Server server = server_start("killed", NULL, NULL);
        RLMessagePortRef remote = RLMessagePortCreateRemote("killed");
        ck_assert_ptr_nonnull(remote);
        pthread_t killer;
        pthread_create(&killer, NULL, kill_later, &server.process);
        int32_t code;
        do {
            code = send_some(remote, "m");
        } while (code == kRLMessagePortSuccess);
        ck_assert_msg(code == kRLMessagePortBecameInvalidError || code == kRLMessagePortIsInvalid ||
                          code == kRLMessagePortTransportError,
                      "kill %d: %d", i, code);
        pthread_join(killer, NULL);
        ck_assert_int_eq(waitpid(server.process, NULL, 0), server.process);
        ck_assert(!RLMessagePortIsValid(remote));
        RLRelease(remote);
        RLMessagePortRef port = RLMessagePortCreateLocal("killed", NULL, NULL, NULL);
        ck_assert_ptr_nonnull(port);
        RLRelease(port);
        ck_assert_int_eq(count_files(), 0);
        if (i == 4) before = count_descriptors(), memory = own_memory();
    }
    if (count > 5) {
        ck_assert_int_eq(count_descriptors(), before);
        ck_assert_int_le(own_memory(), memory + growth);
    }
    remove_own_directory();
}

static void send_until_killed(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    RLMessagePortRef remote = RLMessagePortCreateRemote("stream");
    if (!remote) _exit(1);
    RLMode mode = next_random() % 2 ? "m" : NULL;
    while (send_some(remote, mode) == kRLMessagePortSuccess) continue;
    _exit(2);
}

RL_TEST(a_client_is_killed_at_any_moment, "S-MSG-18 S-MSG-13 S-MSG-39",
        "Clients that are killed during their streams leave a server that serves on and has nothing of them") {
    static Service service = {.echoes = true};
    use_own_directory();
    seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    fprintf(stderr, "seed %u\n", seed);
    RLMessagePortRef port = add_service(&service, "stream", "s");
    int before = 0, count = kills();
    long memory = 0;
    for (int i = 0; i < count; i++) {
        pid_t client = fork();
        if (client == 0) {
            /* The parent's port is not the child's; it makes a remote one. */
            seed = (unsigned)getpid();
            send_until_killed();
        }
        double end = monotonic_now() + (next_random() % 10000) / 1e6;
        while (monotonic_now() < end) RLRunInMode("s", 0.0005, true);
        kill(client, SIGKILL);
        int status;
        ck_assert_int_eq(waitpid(client, &status, 0), client);
        ck_assert(WIFSIGNALED(status));
        /* What it had sent is served. */
        while (RLRunInMode("s", 0, true) == kRLRunHandledSource) continue;
        for (int more = 0; more < 8; more++) RLRunInMode("s", 0, true);
        if (i == 4) before = count_descriptors(), memory = own_memory();
        if (i > 4) ck_assert_int_eq(count_descriptors(), before);
    }
    if (count > 5) ck_assert_int_le(own_memory(), memory + growth);
    RLMessagePortRef remote = RLMessagePortCreateRemote("stream");
    ck_assert_str_eq(ask_text(remote, 1, "and on", "s"), "and on");
    RLRelease(remote);
    RLRelease(port);
    remove_own_directory();
}

/* SPDX-License-Identifier: MIT */
/*
 * Requests between processes while either side is killed at any moment: the other gets the
 * documented error and goes on, nothing hangs, and no descriptor is left. The parent asks a server
 * that it makes anew after each kill; then it serves clients that are killed. Rules S-MSG-29,
 * S-MSG-36 and S-MSG-39.
 */
#define _GNU_SOURCE
#include "stress.h"

#include <runloop/runloop.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char name[64];
static int served;

static RLDataRef echo(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)info;
    served++;
    return RLDataCreate(RLDataGetBytePtr(data), RLDataGetLength(data));
}

static void serve(int ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    RLMessagePortRef port = RLMessagePortCreateLocal(name, echo, NULL, NULL);
    if (!port) _exit(3);
    RLAddSource(RLGetCurrent(), RLMessagePortCreateRunLoopSource(port, 0), kRLDefaultMode);
    if (write(ready, "", 1) != 1) _exit(4);
    for (;;) RLRunInMode(kRLDefaultMode, 1000, false);
}

static pid_t start_server(void) {
    int ready[2];
    char byte;
    MUST(pipe(ready) == 0);
    pid_t process = fork();
    if (process == 0) serve(ready[1]);
    close(ready[1]);
    MUST(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return process;
}

/* Kills the process after some microseconds, from a thread, so that it may hit any moment of a
 * request. */
typedef struct Killing {
    pid_t process;
    unsigned microseconds;
} Killing;
static void *kill_later(void *argument) {
    Killing *killing = argument;
    usleep(killing->microseconds);
    kill(killing->process, SIGKILL);
    return NULL;
}

static int count_descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static size_t size_of(int i) {
    static const size_t sizes[] = {0, 1, 100, 4096, 32768, 32769, 200000};
    return sizes[i % 7];
}

/* One request; whether it succeeded. Any other end must be one that the death of the peer has. */
static bool ask(RLMessagePortRef remote, int i, const char *bytes) {
    RLDataRef data = NULL;
    size_t length = size_of(i);
    int32_t code = RLMessagePortSendRequest(remote, i, bytes, length, 60, 60, "ask", &data);
    if (code == kRLMessagePortSuccess) {
        MUST(RLDataGetLength(data) == length && memcmp(RLDataGetBytePtr(data), bytes, length) == 0);
        RLRelease(data);
        return true;
    }
    MUST(code == kRLMessagePortBecameInvalidError || code == kRLMessagePortIsInvalid
         || code == kRLMessagePortTransportError);
    MUST(data == NULL);
    MUST(!RLMessagePortIsValid(remote));
    return false;
}

int main(void) {
    int requests = (int)stress_count(10000), kills = (int)stress_count_at_least(100, 10);
    char *bytes = malloc(200000);
    for (int i = 0; i < 200000; i++) bytes[i] = (char)(i * 13);
    snprintf(name, sizeof name, "stress.%d", (int)getpid());
    RLGetCurrent();

    /* Servers that are killed. */
    int answered = 0, deaths = 0, before = 0;
    while (answered < requests || deaths < kills) {
        pid_t server = start_server();
        RLMessagePortRef remote = RLMessagePortCreateRemote(name);
        MUST(remote != NULL);
        Killing killing = {server, (unsigned)(rand() % 20000)};
        pthread_t killer;
        MUST(pthread_create(&killer, NULL, kill_later, &killing) == 0);
        for (int i = 0; ask(remote, i, bytes); i++) answered++;
        deaths++;
        pthread_join(killer, NULL);
        MUST(waitpid(server, NULL, 0) == server);
        MUST(RLMessagePortCreateRemote(name) == NULL);
        RLRelease(remote);
        if (deaths == 1) before = count_descriptors();
        MUST(count_descriptors() == before);
    }
    printf("%d requests answered by %d servers that were killed\n", answered, deaths);

    /* Clients that are killed. */
    RLMessagePortRef port = RLMessagePortCreateLocal(name, echo, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    before = count_descriptors();
    for (int killed = 0; killed < kills; killed++) {
        pid_t client = fork();
        if (client == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            RLMessagePortRef remote = RLMessagePortCreateRemote(name);
            for (int i = 0; remote; i++) {
                if (!ask(remote, i, bytes)) break;
            }
            _exit(1);
        }
        Killing killing = {client, (unsigned)(rand() % 20000)};
        pthread_t killer;
        MUST(pthread_create(&killer, NULL, kill_later, &killing) == 0);
        /* It stays a zombie until nobody kills that number any more. */
        siginfo_t ended = {0};
        while (waitid(P_PID, (id_t)client, &ended, WEXITED | WNOHANG | WNOWAIT) == 0
               && ended.si_pid == 0)
            RLRunInMode(kRLDefaultMode, 0.001, true);
        pthread_join(killer, NULL);
        MUST(waitpid(client, NULL, 0) == client);
        while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) continue;
        MUST(count_descriptors() == before);
        MUST(RLMessagePortIsValid(port));
    }
    printf("%d messages of %d clients that were killed\n", served, kills);
    RLRelease(source);
    RLRelease(port);
    free(bytes);
    return 0;
}

/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that outlives this one only to remove the folder: a pipe tells it that this one has ended. */
static void remove_at_the_end(const char *folder) {
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    if (fork() > 0) {
        close(ends[0]); /* the other end stays open until the process ends, and in no program that it starts */
        ck_assert_int_eq(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
        return;
    }
    setpgid(0, 0);
    for (int fd = 0; fd < 1024; fd++)
        if (fd != ends[0]) close(fd);
    char byte;
    while (read(ends[0], &byte, 1) < 0 && errno == EINTR);
    execlp("rm", "rm", "-rf", folder, (char *)NULL);
    _exit(1);
}

char *peer_path(const char *name) {
    static char folder[] = "/tmp/runloop-peer-XXXXXX";
    static bool is_made;
    if (!is_made) {
        ck_assert_ptr_nonnull(mkdtemp(folder));
        remove_at_the_end(folder);
        is_made = true;
    }
    /* All stay for the life of the process, and can be reached. */
    static struct Path {
        struct Path *next;
        char text[128];
    } *paths;
    struct Path *path = malloc(sizeof *path);
    ck_assert_int_lt(snprintf(path->text, sizeof path->text, "%s/%s", folder, name), (int)sizeof path->text);
    path->next = paths;
    paths = path;
    return path->text;
}

Peer peer_start(const char *text, const char *const arguments[]) {
    int ends[2];
    char *folder = peer_path("");
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    Peer peer = {.pid = fork(), .output = ends[0]};
    if (peer.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir(folder) != 0) _exit(1);
        dup2(ends[1], 1), dup2(ends[1], 2);
        execvp(arguments[0], (char *const *)arguments);
        perror(arguments[0]);
        _exit(127);
    }
    close(ends[1]);
    FILE *output = fdopen(dup(ends[0]), "r");
    size_t size = 0;
    while (getline(&peer.line, &size, output) > 0) {
        if (!strstr(peer.line, text)) continue;
        fclose(output);
        return peer;
    }
    ck_abort_msg("%s has ended before it said: %s; its last line: %s", arguments[0], text, peer.line ? peer.line : "none");
}

void peer_kill(Peer *peer) {
    kill(peer->pid, SIGKILL);
    ck_assert_int_eq(waitpid(peer->pid, NULL, 0), peer->pid);
    close(peer->output);
    free(peer->line);
    peer->line = NULL;
}

void peer_pause(const Peer *peer) {
    int status;
    kill(peer->pid, SIGSTOP);
    ck_assert_int_eq(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
}

void peer_continue(const Peer *peer) { kill(peer->pid, SIGCONT); }

static void count(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)activity;
    ++*(long *)info;
}

const long *count_passes(RLMode mode) {
    long *passes = calloc(1, sizeof *passes);
    RLObserverContext context = {.info = passes};
    RLObserverRef observer = RLObserverCreate(kRLBeforeTimers, true, 0, count, &context);
    RLAddObserver(RLGetCurrent(), observer, mode);
    RLRelease(observer);
    return passes;
}

struct Goal {
    const int *counter;
    int value;
};

/* That of the innermost run: the goal of an outer one must not stop it. */
static __thread const struct Goal *innermost;

static void stop_at_the_goal(RLObserverRef observer, RLActivity activity, void *info) {
    struct Goal *goal = info;
    (void)observer, (void)activity;
    if (goal == innermost && count_of(goal->counter) >= goal->value) RLStop(RLGetCurrent());
}

void run_until(const int *counter, int value) {
    struct Goal goal = {counter, value};
    const struct Goal *outer = innermost;
    innermost = &goal;
    RLObserverContext context = {.info = &goal};
    /* After the adapter's observers, which may dispatch the last event before the loop waits. */
    RLObserverRef observer = RLObserverCreate(kRLBeforeTimers | kRLBeforeWaiting, true, LONG_MAX, stop_at_the_goal, &context);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRunResult result = RLRunInMode(kRLDefaultMode, 30, false);
    innermost = outer;
    RLObserverInvalidate(observer);
    RLRelease(observer);
    if (count_of(counter) < value) ck_abort_msg("%d of %d, and the run %s", count_of(counter), value, result_name(result));
}

static RLForeignRunRef host;

void host_begin(void) {
    static const int none;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    host = RLForeignRunCreate(kRLDefaultMode);
    ck_assert_ptr_nonnull(host);
    host_until(&none, 0);
}

void host_until(const int *counter, int value) {
    while (true) {
        RLForeignRunPrepare(host);
        bool isReached = count_of(counter) >= value;
        struct pollfd wait = {RLForeignRunGetDescriptor(host), POLLIN, 0};
        if (poll(&wait, 1, isReached ? 0 : 30000) > 0) RLForeignRunDispatch(host);
        else if (isReached) return;
        else ck_abort_msg("%d of %d, and nothing comes", count_of(counter), value);
    }
}

void host_end(void) {
    RLForeignRunInvalidate(host);
    RLRelease(host);
}

void expect_idle(void) {
    const long *passes = count_passes(kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_int_lt(*passes, 10);
}

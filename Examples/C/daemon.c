/* SPDX-License-Identifier: MIT */
/*
 * The bones of a daemon on one loop, without a signal handler and without a thread: it reads its
 * configuration anew on SIGHUP and whenever the file is changed or replaced, starts workers, hears of
 * their ends, and ends orderly on SIGTERM. Run without arguments it does all this to itself, on a
 * file in /tmp; with the name of a file it is a daemon.
 */
#include <runloop/runloop.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *config;
static bool shows_itself;
static void go_on_showing(void);

static void load(const char *reason) {
    char text[64] = "";
    FILE *file = fopen(config, "r");
    if (file == NULL || fgets(text, sizeof text, file) == NULL) strcpy(text, "(nothing)");
    if (file) fclose(file);
    text[strcspn(text, "\n")] = '\0';
    printf("%s: the configuration is \"%s\"\n", reason, text);
    go_on_showing();
}

/* Adds a source for an event to the loop, which keeps it. */
static void on(RLKernelFilter filter, uintptr_t ident, uint32_t fflags, const char *path,
               RLKernelEventCallBack callback) {
    RLKernelEvent event = {.ident = ident, .filter = filter, .fflags = fflags, .path = path};
    RLSourceRef source = RLKernelEventSourceCreate(&event, callback, NULL);
    if (source == NULL) perror("daemon"), exit(1);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
}

static void hangup(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    load("SIGHUP");
}

static void terminated(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    RLStop(RLGetCurrent());
}

/* kRLNoteCloseWrite and not kRLNoteWrite: a file that is still being written is half a file. */
static void file_changed(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)info;
    load(event->fflags & kRLNoteReplace ? "replaced" : "written");
}

static void worker_ended(RLSourceRef source, const RLKernelEvent *event, void *info) {
    int status = (int)event->data;
    (void)source, (void)info;
    printf("worker: ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    go_on_showing();
}

static void start_worker(int answer) {
    fflush(stdout);
    pid_t worker = fork();
    if (worker == 0) _exit(answer);
    on(kRLKernelFilterProcess, (uintptr_t)worker, kRLNoteExit | kRLNoteReap, NULL, worker_ended);
}

/* One step after the other, each when the one before was noticed. */
static void go_on_showing(void) {
    static int step;
    if (!shows_itself) return;
    switch (step++) {
        case 0: kill(getpid(), SIGHUP); break;
        case 1: {
            FILE *file = fopen(config, "w");
            if (file) fputs("two\n", file), fclose(file);
            break;
        }
        case 2: {
            char fresh[64];
            snprintf(fresh, sizeof fresh, "%s.new", config);
            FILE *file = fopen(fresh, "w");
            if (file) fputs("three\n", file), fclose(file);
            rename(fresh, config);
            break;
        }
        case 3: start_worker(7); break;
        default: kill(getpid(), SIGTERM); break;
    }
}

int main(int count, char **arguments) {
    char name[] = "/tmp/runloop-daemon-XXXXXX";
    config = count > 1 ? arguments[1] : name;
    if (count == 1) {
        int file = mkstemp(name);
        shows_itself = file >= 0 && write(file, "one\n", 4) == 4 && close(file) == 0;
    }
    on(kRLKernelFilterSignal, SIGHUP, 0, NULL, hangup);
    on(kRLKernelFilterSignal, SIGTERM, 0, NULL, terminated);
    on(kRLKernelFilterVnode, 0, kRLNoteCloseWrite | kRLNoteReplace, config, file_changed);
    load("start");
    RLRunInMode(kRLDefaultMode, INFINITY, false);
    printf("SIGTERM: bye\n");
    if (shows_itself) unlink(name);
    return 0;
}

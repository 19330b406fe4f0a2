/* SPDX-License-Identifier: MIT */
/* What a child of fork makes anew, reports of slow callbacks, and what other processes are told. */
#define _GNU_SOURCE
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int reports;

static void report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    add_one(&reports);
}

/* In the child of fork a kernel event is made anew: its source reports there, or is invalid (S-KEV-11). */
static void report_in_child(RLKernelEvent event, void (*cause)(RLSourceRef source)) {
    reports = 0;
    RLSourceRef source = RLKernelEventSourceCreate(&event, report, NULL);
    if (!source) return refused("a source of a process that forks");
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, true);
    pid_t child = fork();
    if (child == 0) {
        reports = 0;
        RLRunInMode(kRLDefaultMode, 0, true);
        if (cause) cause(source);
        Patience patience = patience_begin();
        while (count_of(&reports) < 1 && RLSourceIsValid(source) && !patience_ended(patience)) RLRunInMode(kRLDefaultMode, 0.05, true);
        if (count_of(&reports) < 1) RLSourceIsValid(source) ? lost("a report in the child") : refused("a source in the child");
        _exit(outcome.is_lost ? 1 : outcome.is_refused ? 2 : 0);
    }
    int status = 1 << 8;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) lost("the child, by a signal");
    else if (WEXITSTATUS(status) == 2) refused("a source in the child");
    else if (status != 0) lost("a report in the child");
    RLSourceInvalidate(source);
    RLRelease(source);
}

static void timers_in_child(void) { report_in_child((RLKernelEvent){.filter = kRLKernelFilterTimer, .data = 1}, NULL); }

static void trigger(RLSourceRef source) { RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0); }
static void user_events_in_child(void) { report_in_child((RLKernelEvent){.filter = kRLKernelFilterUser}, trigger); }

static void raise_signal(RLSourceRef source) {
    (void)source;
    raise(SIGUSR1);
}
static void signals_in_child(void) { report_in_child((RLKernelEvent){.ident = SIGUSR1, .filter = kRLKernelFilterSignal}, raise_signal); }

static char watched_path[64];
static void write_file(RLSourceRef source) {
    (void)source;
    FILE *file = fopen(watched_path, "a");
    if (!file) return;
    fputs("x", file);
    fclose(file);
}

static void files_in_child(void) {
    snprintf(watched_path, sizeof watched_path, "/tmp/runloop-faults.%d", (int)getpid());
    write_file(NULL);
    report_in_child((RLKernelEvent){.filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite, .path = watched_path}, write_file);
    unlink(watched_path);
}

static RLDistributedLockRef held_lock;
static void unlock(RLSourceRef source) {
    (void)source;
    /* The child does not hold it; what it waits for is its own look. */
    (void)held_lock;
}

static void locks_in_child(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/runloop-faults.%d.lock", (int)getpid());
    held_lock = RLDistributedLockCreate(path);
    report_in_child((RLKernelEvent){.ident = (uintptr_t)held_lock, .filter = kRLKernelFilterDistributedLock, .data = 10}, unlock);
    RLRelease(held_lock);
}

static void take_message(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port, (void)message, (void)info;
    add_one(&reports);
}

/* One with a descriptor of its own. */
static void mach_ports_in_child(void) {
    reports = 0;
    RLMachPortRef port = RLMachPortCreate(take_message, NULL, NULL);
    if (RLMachPortGetPort(port) < 0) refused("a Mach-like port's descriptor");
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, true);
    pid_t child = fork();
    if (child == 0) {
        if (RLMachPortSend(port, 1, "x", 1, NULL, 0) != kRLMessagePortSuccess) lost("an empty port in the child");
        if (RLMachPortGetPort(port) < 0) refused("a Mach-like port's descriptor in the child");
        run_until(&reports, 1, "a message in the child");
        _exit(outcome.is_lost ? 1 : outcome.is_refused ? 2 : 0);
    }
    int status = 1 << 8;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) lost("the child, by a signal");
    else if (WEXITSTATUS(status) == 2) refused("a Mach-like port's descriptor in the child");
    else if (status != 0) lost("a message in the child");
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}

/* Slow callbacks */

static void tell(const RLSlowCallout *callout, void *info) {
    (void)callout, (void)info;
    add_one(&reports);
}

static void wait_for_report(void *counter) {
    Patience patience = patience_begin();
    while (count_of(&reports) < 1 && !patience_ended(patience)) sleep_briefly();
    add_one(counter);
}

static void slow_callbacks(void) {
    int performed = 0;
    reports = 0;
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.002, tell, NULL, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, wait_for_report, &performed, NULL);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, wait_for_report, &performed, NULL);
    RLSourceContext context = {.info = &performed, .perform = wait_for_report};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, true);
    if (performed < 2) lost("a function that is watched");
    if (count_of(&reports) < 1) refused("a report of a slow callback");
    RLSetSlowCalloutHandler(RLGetCurrent(), 0, NULL, NULL, NULL);
    RLSourceInvalidate(source);
    RLRelease(source);
}

/* What other processes are told */

static void service(void) {
    char name[64], text[32] = "";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(name, sizeof name, "/tmp/runloop-faults.%d.manager", (int)getpid());
    memcpy(address.sun_path, name, (size_t)length + 1);
    int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(manager, (struct sockaddr *)&address, sizeof address) != 0) abort();
    setenv("NOTIFY_SOCKET", name, 1);
    if (!RLServiceNotify("READY=1")) refused("a note to the service manager");
    else if (recv(manager, text, sizeof text, MSG_DONTWAIT) != 7) lost("a note to the service manager");
    unsetenv("NOTIFY_SOCKET");
    close(manager);
    unlink(name);
}

static void sharing(void) {
    if (!RLSetShared(true)) return refused("sharing");
    RLRunInMode(kRLDefaultMode, 0.001, true);
    if (!RLIsShared()) lost("sharing");
    RLSetShared(false);
    if (RLIsShared()) lost("the end of sharing");
}

const Part process_parts[] = {
    {"timers-in-child", timers_in_child},
    {"user-events-in-child", user_events_in_child},
    {"signals-in-child", signals_in_child},
    {"files-in-child", files_in_child},
    {"locks-in-child", locks_in_child},
    {"mach-ports-in-child", mach_ports_in_child},
    {"slow-callbacks", slow_callbacks},
    {"service", service},
    {"sharing", sharing},
    {0},
};

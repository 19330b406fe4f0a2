/* SPDX-License-Identifier: MIT */
/* Kernel events. */
#define _GNU_SOURCE
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int reports;
static uint32_t notes;

static void report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)info;
    notes |= event->fflags;
    add_one(&reports);
}

static RLSourceRef add_event(RLKernelEvent event) {
    reports = 0;
    notes = 0;
    RLSourceRef source = RLKernelEventSourceCreate(&event, report, NULL);
    if (!source)
        refused("a kernel event source");
    else
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}

/* S-KEV-11: a source that cannot go on is invalid, and says so. */
static void expect_report(RLSourceRef source, int count, const char *what) {
    Patience patience = patience_begin();
    while (count_of(&reports) < count && !patience_ended(patience)) {
        if (!RLSourceIsValid(source)) return refused(what);
        if (RLRunInMode(kRLDefaultMode, 0.1, true) == kRLRunFinished) sleep_briefly();
    }
    if (count_of(&reports) < count) lost(what);
}

static void end_event(RLSourceRef source) {
    RLSourceInvalidate(source);
    RLRelease(source);
}

static void signals(void) {
    RLSourceRef source = add_event((RLKernelEvent){.ident = SIGUSR1, .filter = kRLKernelFilterSignal});
    if (!source) return;
    raise(SIGUSR1);
    expect_report(source, 1, "a signal");
    end_event(source);
}

static void processes(void) {
    pid_t child = fork();
    if (child == 0) {
        usleep(1000);
        _exit(3);
    }
    RLSourceRef source = add_event((RLKernelEvent){.ident = (uintptr_t)child, .filter = kRLKernelFilterProcess,
                                                   .flags = kRLKernelEventOneShot, .fflags = kRLNoteExit | kRLNoteExitStatus | kRLNoteReap});
    if (source) {
        expect_report(source, 1, "the end of a process");
        end_event(source);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
}

static void timers(void) {
    RLSourceRef source = add_event((RLKernelEvent){.filter = kRLKernelFilterTimer, .data = 1});
    if (!source) return;
    expect_report(source, 2, "a kernel timer");
    RLKernelEventSourceSetEnabled(source, false);
    RLKernelEventSourceSetEnabled(source, true);
    reports = 0;
    expect_report(source, 1, "a kernel timer that was enabled again");
    end_event(source);
}

static void user_events(void) {
    RLSourceRef source = add_event((RLKernelEvent){.filter = kRLKernelFilterUser});
    if (!source) return;
    RLKernelEventSourceTrigger(source, kRLNoteTrigger, 0);
    expect_report(source, 1, "a trigger");
    end_event(source);
}

static void write_file(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)!write(file, "x", 1);
    close(file);
}

static void files_by_descriptor(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/runloop-faults.%d", (int)getpid());
    write_file(path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    RLSourceRef source = add_event((RLKernelEvent){.ident = (uintptr_t)file, .filter = kRLKernelFilterVnode,
                                                   .fflags = kRLNoteWrite | kRLNoteDelete});
    close(file);
    if (source) {
        write_file(path);
        expect_report(source, 1, "a write to a file");
        reports = 0;
        unlink(path);
        expect_report(source, 1, "the end of a file");
        end_event(source);
    }
    unlink(path);
}

static void files_by_path(void) {
    char path[64], other[64];
    snprintf(path, sizeof path, "/tmp/runloop-faults.%d", (int)getpid());
    snprintf(other, sizeof other, "/tmp/runloop-faults.%d.new", (int)getpid());
    write_file(path);
    RLSourceRef source = add_event((RLKernelEvent){.filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite | kRLNoteReplace, .path = path});
    if (source) {
        write_file(path);
        expect_report(source, 1, "a write to a path");
        reports = 0;
        notes = 0;
        write_file(other);
        rename(other, path);
        Patience patience = patience_begin();
        while (!(notes & (kRLNoteReplace | kRLNoteDelete | kRLNoteRename)) && RLSourceIsValid(source) && !patience_ended(patience))
            RLRunInMode(kRLDefaultMode, 0.1, true);
        if (!RLSourceIsValid(source))
            refused("another file in place of the first");
        else if (notes & (kRLNoteDelete | kRLNoteRename))
            /* What cannot be looked at is reported as gone. */
            refused("a look at another file");
        else if (!(notes & kRLNoteReplace))
            lost("another file in place of the first");
        reports = 0;
        write_file(path);
        if (!outcome.is_refused) expect_report(source, 1, "a write to the new file");
        end_event(source);
    }
    unlink(path);
    unlink(other);
}

const Part event_parts[] = {
    {"kernel-signals", signals},  {"kernel-processes", processes},         {"kernel-timers", timers},
    {"user-events", user_events}, {"files-by-descriptor", files_by_descriptor}, {"files-by-path", files_by_path}, {0},
};

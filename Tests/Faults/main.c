/* SPDX-License-Identifier: MIT */
/*
 * faults: each kernel call of the library fails once, at each place that makes it, with each error that its manual lists.
 *
 * A part of the library's work is done once to see which places it reaches. Then, for each place and error, a new process does
 * that part twice: in the first round the call fails, in the second none does. The process must neither end by a signal, hang, nor
 * spin. In the first round calls may be refused as their manual says, but nothing that was taken on may be lost, unless the error
 * says what is not so (EBADF: the number is somebody else's, so the library must not close it either); in the second round
 * everything comes. In the end no more descriptors are open than without a failure.
 *
 * faults [--quick] [--list] [--part NAME] [--call NAME] [--place HEX] [--error NAME]
 *     --quick      one error of each place, in the first part that reaches it
 *     --list       say what would be done
 */
#define _GNU_SOURCE
#include "calls.h"
#include "errors.h"
#include "parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Written by the process of one run, read after its end. */
struct run {
    Record record;
    Outcome first, second;
    int descriptors;
    bool has_failed, is_over;
};

/* A part takes hundredths of a second, and waits at most PATIENCE for each of a few things. */
enum { SECONDS_OF_A_RUN = 20, PROCESSOR_SECONDS = 1 };

static struct run *shared;
static const char *wanted_part, *wanted_call, *wanted_error, *wanted_place;
static bool is_quick, is_listing;
static int runs, failures, places;

/* Its messages are expected. */
static void no_log(const char *line, void *info) { (void)line, (void)info; }

static int count_descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

static void live(const Part *part, const Place *place, const Error *error, int descriptors) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The processor's time is what shows a spin. A signal ends the process then, which no part of it handles. */
    struct rlimit limit = {PROCESSOR_SECONDS * (getenv("RL_TEST_TIMEOUT") ? 20 : 1), RLIM_INFINITY};
    setrlimit(RLIMIT_CPU, &limit);
    limit = (struct rlimit){0, 0};
    setrlimit(RLIMIT_CORE, &limit);
    alarm(SECONDS_OF_A_RUN);
    RLSetLogHandler(no_log, NULL);
    if (place)
        calls_fail(place, error->number, error->is_made);
    else
        calls_record(&shared->record);
    part->work();
    shared->first = outcome;
    shared->has_failed = calls_have_failed();
    calls_pass();
    outcome_clear();
    part->work();
    shared->second = outcome;
    /* A thread of the library's may be about to close its own. */
    Patience patience = patience_begin();
    if (!place) usleep(50000);
    while ((shared->descriptors = count_descriptors()) > descriptors && place && !patience_ended(patience)) sleep_briefly();
    shared->is_over = true;
    _exit(0);
}

/* The status of the process that did it. */
static int run(const Part *part, const Place *place, const Error *error, int descriptors) {
    int status;
    Record *record = &shared->record;
    if (place)
        memset((char *)shared + sizeof *record, 0, sizeof *shared - sizeof *record);
    else
        memset(shared, 0, sizeof *shared);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) live(part, place, error, descriptors);
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    runs++;
    return status;
}

/* What was wrong, or NULL. */
static const char *fault_of(int status, int descriptors, bool is_false) {
    static char text[200];
    if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        if (signal == SIGXCPU) return "it spins";
        if (signal == SIGALRM) return "it hangs";
        snprintf(text, sizeof text, "it ends by signal %d", signal);
        return text;
    }
    if (!shared->is_over) return "it ends the process";
    if (shared->first.is_lost && !is_false)
        snprintf(text, sizeof text, "lost: %s", shared->first.what);
    else if (shared->second.is_lost || shared->second.is_refused)
        snprintf(text, sizeof text, "%s afterwards: %s", shared->second.is_lost ? "lost" : "refused", shared->second.what);
    else if (shared->descriptors > descriptors && !is_false)
        snprintf(text, sizeof text, "%d descriptors stay open", shared->descriptors - descriptors);
    else
        return NULL;
    return text;
}

static bool is_wanted(const char *wish, const char *name) { return !wish || strcmp(wish, name) == 0; }

static bool is_known(const Place *known, int count, const Place *place) {
    for (int i = 0; i < count; i++)
        if (known[i].offset == place->offset && known[i].caller == place->caller && strcmp(known[i].call, place->call) == 0) return true;
    return false;
}

/* A part that fails without a fault cannot tell anything. */
static bool learn(const Part *part, Place *list, int *count, int *descriptors) {
    int status = run(part, NULL, NULL, 0);
    const char *fault = fault_of(status, 1 << 20, false);
    if (!fault && shared->first.is_refused) fault = shared->first.what;
    if (fault || shared->record.is_full) {
        printf("%s, without a failing call: %s\n", part->name, fault ? fault : "too many places");
        failures++;
        return false;
    }
    *count = shared->record.place_count;
    *descriptors = shared->descriptors;
    memcpy(list, shared->record.places, (size_t)*count * sizeof *list);
    return true;
}

static void fail_at(const Part *part, const Place *place, const Error *error, int descriptors) {
    char where[64];
    int length = snprintf(where, sizeof where, "%s%llx", place->is_in_libbsd ? "libbsd+" : "", (unsigned long long)place->offset);
    if (place->caller) snprintf(where + length, sizeof where - (size_t)length, "<%llx", (unsigned long long)place->caller);
    if (!is_wanted(wanted_error, error->name) || !is_wanted(wanted_place, where)) return;
    if (is_listing) {
        printf("%s %s %s %s\n", part->name, place->call, where, error->name);
        return;
    }
    int status = run(part, place, error, descriptors);
    const char *fault = fault_of(status, descriptors, error->is_false);
    if (!fault) return;
    failures++;
    printf("%s: %s at %s fails with %s: %s\n", part->name, place->call, where, error->name, fault);
}

static void do_part(const Part *part) {
    static Place list[MAX_PLACES], known[MAX_PLACES];
    static int known_count;
    int count, descriptors;
    if (!is_wanted(wanted_part, part->name)) return;
    if (!learn(part, list, &count, &descriptors)) return;
    for (int i = 0; i < count; i++) {
        const Place *place = &list[i];
        if (!is_wanted(wanted_call, place->call)) continue;
        bool is_new = !is_known(known, known_count, place);
        if (is_new && known_count < MAX_PLACES) {
            known[known_count++] = *place;
            places++;
        }
        const Error *errors = errors_of(place->call);
        if (!errors->name) {
            printf("%s: no errors are known of %s\n", part->name, place->call);
            failures++;
        }
        if (!is_quick) {
            for (const Error *error = errors; error->name; error++) fail_at(part, place, error, descriptors);
        } else if (is_new) {
            int number = 0;
            while (errors[number].name) number++;
            /* Another one at each place, so that all come to be used. */
            if (number > 0) fail_at(part, place, &errors[known_count % number], descriptors);
        }
    }
}

static void read_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char **value = NULL;
        if (strcmp(argv[i], "--quick") == 0)
            is_quick = true;
        else if (strcmp(argv[i], "--list") == 0)
            is_listing = true;
        else if (strcmp(argv[i], "--part") == 0)
            value = &wanted_part;
        else if (strcmp(argv[i], "--call") == 0)
            value = &wanted_call;
        else if (strcmp(argv[i], "--place") == 0)
            value = &wanted_place;
        else if (strcmp(argv[i], "--error") == 0)
            value = &wanted_error;
        if (value && i + 1 < argc) *value = argv[++i];
    }
}

int main(int argc, char **argv) {
    static const Part *const groups[] = {loop_parts, descriptor_parts, port_parts, event_parts, server_parts, file_parts, process_parts};
    read_arguments(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    for (unsigned group = 0; group < sizeof groups / sizeof *groups; group++)
        for (const Part *part = groups[group]; part->name; part++) do_part(part);
    printf("%d places, %d runs, %d failed\n", places, runs, failures);
    return failures > 0;
}

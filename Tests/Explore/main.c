/* SPDX-License-Identifier: MIT */
/* explore [options] [name ...]: runs the scenarios whose names begin with one of those given, each in a process of its own;
 * @written names those that are written out, @pairs those that are made of every two calls.
 *
 *   --seconds N    processor time of each scenario (1)  --bound N     most preemptions tried (3)
 *   --seed N       where the random schedules begin     --no-random   the systematic part only
 *   --shard I/N    of the scenarios every N-th, from the I-th on; EXPLORE_SCALE in the environment multiplies the seconds
 *   --strong       loads see the newest value           --plant NAME  with a fault of plants/ (explore-planted)
 *   --schedule S   runs one schedule, as a failure prints it
 *   --whole        prints every step of a failure       --list        prints names, rules and texts
 *   --calls        prints the operations with the functions that they call
 *   --expect-failure   succeeds if a scenario fails */
#define _GNU_SOURCE
#include "program.h"
#include "report.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t __real_fork(void);

struct shared *shared;
static struct limits limits = {.seconds = 1, .bound = 3, .random = true, .seed = 1};
static struct schedule given;
static bool whole, expects_failure;
static const char *planted;
static uint64_t all_executions;

/* Leaks are counted by the scenarios; memory is not to come back within an execution. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0:detect_stack_use_after_return=0:quarantine_size_mb=8:exitcode=99:handle_abort=1:"
           "use_sigaltstack=0:allocator_release_to_os_interval_ms=-1:thread_local_quarantine_size_kb=64";
}

bool rlx_planted(const char *name) { return planted && strcmp(planted, name) == 0; }

static void work(const struct scenario *scenario) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    signal(SIGPIPE, SIG_IGN);
    search(scenario, &limits);
}

static void print_failure(const struct scenario *scenario, int status) {
    const char *names[MAX_THREADS] = {"main", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
    memset(&actors, 0, sizeof actors);
    parse(scenario);
    for (int i = 0; i < actor_count; i++) names[i + 1] = actors[i].name;
    printf("FAILED %s: ", scenario->name);
    if (shared->failed)
        printf("%s\n", shared->message);
    else if (WIFSIGNALED(status))
        printf("signal %d\n", WTERMSIG(status));
    else
        printf("exit %d\n", WEXITSTATUS(status));
    printf("    items: %s\n    threads: %s\n", scenario->items, scenario->threads);
    print_trace(names, whole, stdout);
    printf("    after %" PRIu64 " executions; again: explore --schedule ", shared->executions);
    print_schedule(&shared->schedule, stdout);
    printf(" %s\n", scenario->name);
}

/* The library numbers the forks that lie behind a process, which the handlers of pthread_atfork(3) tell it. For every other scenario that
 * number is 0, as in a program that has just begun: _Fork(3) calls no handlers, and nothing has used the library in this process. */
static pid_t make_worker(const struct scenario *scenario) {
    unsigned sum = 0;
    for (const char *c = scenario->name; *c; c++) sum += (unsigned char)*c;
    return sum % 2 == 1 ? _Fork() : __real_fork();
}

/* In the child of a fork the sanitizer reads all of a table that is mostly empty. Without a mapping each of its pages would be a fault in each
 * child. */
static void map_empty_memory(void) {
    extern char __bss_start[], _end[];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)__bss_start + page - 1) / page * page;
    madvise((void *)begin, (uintptr_t)_end - begin, MADV_POPULATE_READ);
}

/* Whether all went well. */
static bool explore(const struct scenario *scenario) {
    memset(shared, 0, offsetof(struct shared, trace));
    fflush(stdout);
    int64_t start = real_nanoseconds();
    pid_t worker = make_worker(scenario);
    if (worker < 0) abort();
    if (worker == 0) {
        work(scenario);
        _exit(0);
    }
    int status;
    if (waitpid(worker, &status, 0) != worker) abort();
    double seconds = (double)(real_nanoseconds() - start) / 1e9;
    all_executions += shared->executions;
    bool is_known = scenario->rules[0] == '!' && !planted && !replayed;
    if (status != 0 && is_known && !whole) {
        printf("known to fail: %s: %s\n", scenario->name, shared->failed ? shared->message : "crash");
        return true;
    }
    if (status != 0) {
        print_failure(scenario, status);
        return false;
    }
    if (is_known) printf("the mark of a known failure may go: ");
    printf("ok %s: %" PRIu64 " schedules, %.1f s, depth %d%s", scenario->name, shared->executions, seconds, shared->depth_reached,
           shared->exhausted ? ", all" : "");
    if (shared->divergences) printf(", %" PRIu64 " diverged", shared->divergences);
    if (shared->dropped) printf(", %" PRIu64 " dropped", shared->dropped);
    putchar('\n');
    if (replayed && whole) {
        const char *names[MAX_THREADS] = {"main", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};
        print_trace(names, true, stdout);
    }
    return true;
}

int main(int count, char **arguments) {
    /* Addresses are to be the same in each run: order and place of some things depend on them. */
    if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
        personality(ADDR_NO_RANDOMIZE);
        execv("/proc/self/exe", arguments);
    }
    bool lists = false, lists_calls = false;
    int shard = 0, shards = 1, number = 0;
    int first = count;
    for (int i = 1; i < count; i++) {
        const char *option = arguments[i], *value = i + 1 < count ? arguments[i + 1] : "";
        if (strncmp(option, "--", 2) != 0) {
            first = i;
            break;
        }
        if (strcmp(option, "--seconds") == 0) limits.seconds = atof(value), i++;
        else if (strcmp(option, "--bound") == 0) limits.bound = atoi(value), i++;
        else if (strcmp(option, "--seed") == 0) limits.seed = strtoull(value, NULL, 0), i++;
        else if (strcmp(option, "--shard") == 0) {
            if (sscanf(value, "%d/%d", &shard, &shards) != 2 || shards < 1) return fprintf(stderr, "not a shard: %s\n", value), 2;
            i++;
        }
        else if (strcmp(option, "--plant") == 0) planted = value, i++;
        else if (strcmp(option, "--no-random") == 0) limits.random = false;
        else if (strcmp(option, "--strong") == 0) weak_memory = false;
        else if (strcmp(option, "--whole") == 0) whole = true;
        else if (strcmp(option, "--list") == 0) lists = true;
        else if (strcmp(option, "--calls") == 0) lists_calls = true;
        else if (strcmp(option, "--expect-failure") == 0) expects_failure = true;
        else if (strcmp(option, "--schedule") == 0) {
            if (!read_schedule(value, &given)) return fprintf(stderr, "not a schedule: %s\n", value), 2;
            replayed = &given;
            i++;
        } else return fprintf(stderr, "unknown option %s\n", option), 2;
    }
    if (lists_calls) {
        for (int i = 0; operation_tables[i]; i++)
            for (const struct operation *operation = operation_tables[i]; operation->name; operation++)
                printf("%s\t%s\n", operation->name, operation->functions);
        return 0;
    }
    if (getenv("EXPLORE_SCALE")) limits.seconds *= atof(getenv("EXPLORE_SCALE"));
    map_empty_memory();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    /* Names of message ports are files there. In memory, if that is possible: ext4 takes no number that a file had within the last
     * five seconds, which takes longer the more files come and go, and most of the time of an execution in the end. */
    char folder[] = "/dev/shm/explore.XXXXXX";
    if (!mkdtemp(folder) && !mkdtemp(strcpy(folder, "/tmp/explore.XXXXXX"))) abort();
    setenv("XDG_RUNTIME_DIR", folder, 1);
    int passed = 0, failed = 0;
    int64_t start = real_nanoseconds();
    const struct scenario *group;
    for (int g = 0; (group = scenario_group(g)) != NULL; g++) {
        for (const struct scenario *scenario = group; scenario->name; scenario++) {
            bool wanted = first == count;
            for (int i = first; i < count; i++)
                if (strncmp(scenario->name, arguments[i], strlen(arguments[i])) == 0 ||
                    strcmp(arguments[i], scenario_group(g + 1) ? "@written" : "@pairs") == 0)
                    wanted = true;
            if (!wanted || number++ % shards != shard) continue;
            if (lists) {
                printf("%s\t%s\t%s\t%s\n", scenario->name, scenario->rules, scenario->items, scenario->threads);
                continue;
            }
            if (explore(scenario)) {
                passed++;
            } else {
                failed++;
                if (expects_failure) break;
            }
        }
        if (failed && expects_failure) break;
    }
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) fprintf(stderr, "%s is left\n", folder);
    if (lists) return 0;
    double seconds = (double)(real_nanoseconds() - start) / 1e9;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("%d scenarios passed, %d failed; %" PRIu64 " schedules in %.1f s, %.1f s of a processor\n", passed, failed, all_executions, seconds,
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    if (expects_failure) return failed == 0;
    return failed != 0 || passed == 0;
}

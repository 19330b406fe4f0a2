/* SPDX-License-Identifier: MIT */
/* model-test: random sequences of operations on the library, each checked against the model.
 *
 * It proves the rules on loops, modes, runs, passes, stop, wake-up, posted functions, sources, timers,
 * observers and nested runs that model*.c names, in combinations that nobody thought of. Every
 * sequence has a loop and a thread of its own; time is virtual, so no sequence ever sleeps.
 */
#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "executor.h"
#include "generator.h"
#include "report.h"

enum { MAX_FAILURES = 20, DEFAULT_REPORTS = 3, SECONDS_WITHOUT_PROGRESS = 60, SEEDS_BEFORE_COUNTING = 300 };
/* A library may keep some descriptors for later loops, but not more with every sequence. */
enum { MAX_KEPT_DESCRIPTORS = 16 };

static struct {
    uint64_t seed;
    uint64_t count;
    int reports;
    bool verbose;
    struct generator_options generator;
    struct executor_options executor;
} options = {.seed = 1,
             .count = 10000,
             .reports = DEFAULT_REPORTS,
             .generator = {.length = 20},
             .executor = {.planted = -1}};

/* Shared with the worker. */
struct progress {
    uint64_t current;
    uint64_t passed;
    uint64_t failed;
    uint64_t failing[MAX_FAILURES];
    bool finished;
    bool leaks;
    struct attempt attempt;
};

static struct progress *progress;

static void fail(uint64_t seed) {
    if (progress->failed < MAX_FAILURES) progress->failing[progress->failed] = seed;
    progress->failed++;
}

static int open_descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return 0;
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* Goes through the seeds until the end, or until there are enough failures. */
static void work(uint64_t first, uint64_t end) {
    static struct program program;
    struct attempt *attempt = &progress->attempt;
    int descriptors = 0;
    for (uint64_t seed = first; seed < end && progress->failed < MAX_FAILURES; seed++) {
        progress->current = seed;
        alarm(SECONDS_WITHOUT_PROGRESS);
        generate(&program, seed, &options.generator);
        executor_run(&program, &attempt->observed, &options.executor);
        attempt->difference = check_trace(&program, &attempt->observed, &attempt->expected);
        if (attempt->difference < 0)
            progress->passed++;
        else
            fail(seed);
        if (seed == first + SEEDS_BEFORE_COUNTING) descriptors = open_descriptors();
    }
    /* S-LOOP-16: loops that ended leave no descriptor open. */
    if (descriptors > 0 && open_descriptors() > descriptors + MAX_KEPT_DESCRIPTORS) progress->leaks = true;
    progress->finished = true;
}

/* A worker that dies in a sequence has failed it; another one goes on behind it. */
static bool run_workers(void) {
    uint64_t end = options.seed + options.count;
    uint64_t first = options.seed;
    bool clean = true;
    while (first < end && progress->failed < MAX_FAILURES) {
        int status;
        fflush(NULL);
        progress->finished = false;
        pid_t worker = fork();
        if (worker == 0) {
            work(first, end);
            exit(0);
        }
        if (worker < 0 || waitpid(worker, &status, 0) != worker) return false;
        if (progress->finished) {
            /* A sanitizer's report changes the status. */
            if (status != 0) {
                printf("the worker ended with status 0x%x\n", (unsigned)status);
                clean = false;
            }
            break;
        }
        fail(progress->current);
        first = progress->current + 1;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
            printf("seed %" PRIu64 " hangs; no further ones are tried\n", progress->current);
            break;
        }
    }
    return clean;
}

static void print_command(uint64_t seed) {
    printf("reproduce with: model-test --seed %" PRIu64 " --count 1 --length %d", seed, options.generator.length);
    if (options.generator.no_time) printf(" --no-time");
    if (options.generator.no_other_thread) printf(" --no-other-thread");
    if (options.generator.tame) printf(" --tame");
    if (options.generator.coarse) printf(" --coarse");
    if (options.executor.real_clock) printf(" --real-clock");
    if (options.executor.planted >= 0) printf(" --plant %d", options.executor.planted);
    printf("\n");
}

static void report(uint64_t seed) {
    static struct program program;
    generate(&program, seed, &options.generator);
    printf("\nseed %" PRIu64 " fails\n", seed);
    if (attempt_run(&progress->attempt, &program, &options.executor)) {
        printf("it passed when it was tried again alone\n");
    } else {
        int size = program_size(&program);
        attempt_shrink(&progress->attempt, &program, &options.executor);
        printf("%d operations are left of %d\n", program_size(&program), size);
    }
    attempt_print(&progress->attempt, &program, options.verbose);
    print_command(seed);
}

static void show(uint64_t seed) {
    static struct program program;
    generate(&program, seed, &options.generator);
    attempt_run(&progress->attempt, &program, &options.executor);
    printf("\nseed %" PRIu64 "\n", seed);
    attempt_print(&progress->attempt, &program, true);
}

static void usage(void) {
    puts("model-test [--seed N] [--count N] [--length N] [--reports N] [--plant N] [--verbose]\n"
         "           [--no-time] [--no-other-thread] [--tame] [--coarse] [--real-clock]\n"
         "  --seed N           the first seed (1)\n"
         "  --count N          how many sequences (10000)\n"
         "  --length N         operations in a sequence (20)\n"
         "  --reports N        how many failing seeds to print (3)\n"
         "  --plant N          do not note callback N of each sequence, to see that it is noticed\n"
         "  --verbose          print whole traces; with --count up to 10 also of what passes\n"
         "  --no-time          nothing waits or looks at the clock\n"
         "  --no-other-thread  one loop only\n"
         "  --tame             nothing that CoreFoundation is known to do otherwise\n"
         "  --coarse           past dates that the clock cannot tell apart, too\n"
         "  --real-clock       leave the library the real clock (with --no-time)");
}

static bool read_arguments(int argc, char **argv) {
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},    {"count", required_argument, NULL, 'c'},
        {"length", required_argument, NULL, 'l'},  {"reports", required_argument, NULL, 'r'},
        {"plant", required_argument, NULL, 'p'},   {"verbose", no_argument, NULL, 'v'},
        {"no-time", no_argument, NULL, 't'},       {"no-other-thread", no_argument, NULL, 'o'},
        {"tame", no_argument, NULL, 'm'},          {"real-clock", no_argument, NULL, 'k'},
        {"coarse", no_argument, NULL, 'a'},
        {NULL, 0, NULL, 0}};
    int name;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) switch (name) {
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            options.count = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            options.generator.length = atoi(optarg) > 0 ? atoi(optarg) : 1;
            break;
        case 'r':
            options.reports = atoi(optarg);
            break;
        case 'p':
            options.executor.planted = atoi(optarg);
            break;
        case 'v':
            options.verbose = true;
            break;
        case 't':
            options.generator.no_time = true;
            break;
        case 'o':
            options.generator.no_other_thread = true;
            break;
        case 'm':
            options.generator.tame = true;
            break;
        case 'a':
            options.generator.coarse = true;
            break;
        case 'k':
            options.executor.real_clock = true;
            break;
        default:
            usage();
            return false;
        }
    return optind == argc;
}

int main(int argc, char **argv) {
    if (!read_arguments(argc, argv)) return 2;
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    bool clean = run_workers();
    for (int i = 0; i < options.reports && i < MAX_FAILURES && (uint64_t)i < progress->failed; i++)
        report(progress->failing[i]);
    if (options.verbose && options.count <= 10 && progress->failed == 0)
        for (uint64_t i = 0; i < options.count; i++) show(options.seed + i);
    if (progress->leaks) printf("descriptors were left open (S-LOOP-16)\n");
    if (progress->failed > 0) {
        printf("failing seeds:");
        for (uint64_t i = 0; i < progress->failed && i < MAX_FAILURES; i++) printf(" %" PRIu64, progress->failing[i]);
        printf("%s\n", progress->failed >= MAX_FAILURES ? " and no further ones were tried" : "");
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", progress->passed, progress->failed);
    return progress->failed == 0 && clean && !progress->leaks ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/* descriptors-test: random programs about descriptors, ports and sockets, each checked against the model while it runs.
 *
 * Several objects on one number, in several modes of two loops; what they are ready for the kernel is asked with poll(2).
 */
#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executor.h"
#include "program.h"

enum { MAX_FAILURES = 10, SECONDS_WITHOUT_PROGRESS = 60, SECONDS_FOR_ONE = 20, PROGRAMS_BEFORE_COUNTING = 300 };
/* A library may keep some descriptors for later loops. One program that hangs makes each trial of a smaller one slow. */
enum { MAX_KEPT_DESCRIPTORS = 16, MAX_TRIALS = 3000, TRIALS_PER_SECOND = 60 };

static struct {
    uint64_t seed, count;
    int reports, planted;
    bool verbose;
    struct generator_options generator;
} options = {.seed = 1, .count = 10000, .reports = 3, .generator = {.length = 24}};

/* Shared with the workers. */
static struct progress {
    uint64_t current, passed, failed, failing[MAX_FAILURES];
    bool is_finished, leaks;
    char what[MAX_FAILURES][FAILURE_TEXT]; /* why it failed */
    struct outcome outcome;
} *progress;

static void fail(uint64_t seed, const char *why) {
    if (progress->failed < MAX_FAILURES) {
        progress->failing[progress->failed] = seed;
        snprintf(progress->what[progress->failed], FAILURE_TEXT, "%s", why);
    }
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

static void work(uint64_t first, uint64_t end) {
    static struct program program;
    int descriptors = 0;
    for (uint64_t seed = first; seed < end && progress->failed < MAX_FAILURES; seed++) {
        progress->current = seed;
        alarm(SECONDS_WITHOUT_PROGRESS);
        program_generate(&program, seed, &options.generator);
        execute(&program, &progress->outcome, options.planted);
        if (progress->outcome.has_failed) fail(seed, progress->outcome.failure);
        else progress->passed++;
        if (seed == first + PROGRAMS_BEFORE_COUNTING) descriptors = open_descriptors();
    }
    /* S-LOOP-16. */
    if (descriptors > 0 && open_descriptors() > descriptors + MAX_KEPT_DESCRIPTORS) progress->leaks = true;
    progress->is_finished = true;
}

/* A worker that dies in a program has failed it; another one goes on behind it. */
static bool run_workers(void) {
    uint64_t first = options.seed, end = options.seed + options.count;
    while (first < end && progress->failed < MAX_FAILURES) {
        int status;
        fflush(NULL);
        progress->is_finished = false;
        pid_t worker = fork();
        if (worker == 0) {
            work(first, end);
            exit(0);
        }
        if (worker < 0 || waitpid(worker, &status, 0) != worker) return false;
        if (progress->is_finished) {
            /* A sanitizer's report changes the status. */
            if (status != 0) printf("the worker ended with status 0x%x\n", (unsigned)status);
            return status == 0;
        }
        fail(progress->current, progress->outcome.has_failed ? progress->outcome.failure : "its process ended");
        first = progress->current + 1;
    }
    return true;
}

/* ---- one program in a process of its own */

static bool fails(const struct program *program) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_FOR_ONE);
        execute(program, &progress->outcome, options.planted);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    if (status != 0 && !progress->outcome.has_failed) {
        progress->outcome.has_failed = true;
        snprintf(progress->outcome.failure, FAILURE_TEXT, "the program ended with status 0x%x", (unsigned)status);
    }
    return progress->outcome.has_failed;
}

static bool still_fails(struct program *program, const struct program *smaller, int *trials) {
    time_t begin = time(NULL);
    bool fails_too = ++*trials <= MAX_TRIALS && fails(smaller);
    *trials += (int)(time(NULL) - begin) * TRIALS_PER_SECOND;
    if (!fails_too) return false;
    *program = *smaller;
    return true;
}

static bool shrink_once(struct program *program, int *trials) {
    static struct program smaller;
    bool changed = false;
    for (int size = program->count / 2; size >= 1; size /= 2)
        for (int first = program->count - size; first >= 0; first -= size) {
            if (first + size > program->count) continue;
            smaller = *program;
            memmove(&smaller.op[first], &smaller.op[first + size],
                    (size_t)(program->count - first - size) * sizeof smaller.op[0]);
            smaller.count -= size;
            changed |= still_fails(program, &smaller, trials);
        }
    for (int s = 0; s < SCRIPTS; s++)
        for (int i = program->script[s].count - 1; i >= 0; i--) {
            smaller = *program;
            struct script *script = &smaller.script[s];
            memmove(&script->op[i], &script->op[i + 1], (size_t)(script->count - i - 1) * sizeof script->op[0]);
            script->count--;
            changed |= still_fails(program, &smaller, trials);
        }
    smaller = *program;
    smaller.observer_script = -1;
    if (program->observer_script >= 0) changed |= still_fails(program, &smaller, trials);
    for (int i = 0; i < program->objects; i++) {
        smaller = *program;
        smaller.object[i].script = -1;
        if (program->object[i].script >= 0) changed |= still_fails(program, &smaller, trials);
    }
    return changed;
}

static void report(uint64_t seed, const char *why) {
    static struct program program;
    int trials = 0;
    program_generate(&program, seed, &options.generator);
    printf("\nseed %" PRIu64 " fails: %s\n", seed, why);
    int size = program_size(&program);
    if (fails(&program)) {
        while (shrink_once(&program, &trials) && trials < MAX_TRIALS) continue;
        fails(&program);
        printf("%d operations are left of %d\n", program_size(&program), size);
    } else {
        printf("it passed when it was tried again alone\n");
    }
    program_print(&program, stdout);
    printf("%s\n%s\nreproduce with: descriptors-test --seed %" PRIu64 " --count 1 --length %d%s%s\n", progress->outcome.history,
           progress->outcome.failure, seed, options.generator.length, options.generator.no_second_loop ? " --one-loop" : "",
           options.generator.no_reuse ? " --no-reuse" : "");
    if (options.planted) printf("and --plant %d\n", options.planted);
}

static void usage(void) {
    puts("descriptors-test [--seed N] [--count N] [--length N] [--reports N] [--plant N] [--verbose] [--one-loop] [--no-reuse]\n"
         "  --seed N     the first seed (1)\n"
         "  --count N    how many programs (10000)\n"
         "  --length N   operations in a program, besides those that make its objects (24)\n"
         "  --reports N  how many failing seeds to make smaller and print (3)\n"
         "  --plant N    do not tell the model of callback N of each program, to see that it is noticed\n"
         "  --verbose    print what happened in the last program\n"
         "  --one-loop   no second thread\n"
         "  --no-reuse   no number is closed by itself, and none names the file of another");
}

static bool read_arguments(int argc, char **argv) {
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'}, {"count", required_argument, NULL, 'c'}, {"length", required_argument, NULL, 'l'},
        {"reports", required_argument, NULL, 'r'}, {"plant", required_argument, NULL, 'p'}, {"verbose", no_argument, NULL, 'v'}, {"one-loop", no_argument, NULL, 'o'},
        {"no-reuse", no_argument, NULL, 'n'}, {NULL, 0, NULL, 0}};
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
            options.planted = atoi(optarg);
            break;
        case 'v':
            options.verbose = true;
            break;
        case 'o':
            options.generator.no_second_loop = true;
            break;
        case 'n':
            options.generator.no_reuse = true;
            break;
        default:
            usage();
            return false;
        }
    return optind == argc;
}

int main(int argc, char **argv) {
    if (!read_arguments(argc, argv)) return 2;
    signal(SIGPIPE, SIG_IGN);
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    bool clean = run_workers();
    struct outcome seen = progress->outcome;
    if (options.verbose) puts(progress->outcome.history);
    for (int i = 0; i < options.reports && i < MAX_FAILURES && (uint64_t)i < progress->failed; i++)
        report(progress->failing[i], progress->what[i]);
    if (progress->leaks) printf("descriptors were left open (S-LOOP-16)\n");
    if (progress->failed > 0) {
        printf("failing seeds:");
        for (uint64_t i = 0; i < progress->failed && i < MAX_FAILURES; i++)
            printf(" %" PRIu64, progress->failing[i]);
        printf("%s\n", progress->failed >= MAX_FAILURES ? " and no further ones were tried" : "");
    }
    printf("%lu runs, %lu of a loop that slept, %lu callbacks, %lu queues, %lu connections, %lu connects,\n%lu bytes of data, %lu ends\n",
           seen.runs, seen.sleeps, seen.calls, seen.queues, seen.connections, seen.connects, seen.data, seen.ends);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", progress->passed, progress->failed);
    return progress->failed == 0 && clean && !progress->leaks ? 0 : 1;
}

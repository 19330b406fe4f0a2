/* SPDX-License-Identifier: MIT */
/* Which schedules are run. A schedule is a short list of deviations from the default, in which a thread runs until it blocks and
 * loads see the newest value. Running one tells where it could deviate further; each deviation costs nothing (another thread goes
 * on where one blocked) or one (a preemption, an older value, a signal). The search runs the schedules up to a cost, those with fewer
 * deviations first; what time is left is spent on random schedules. */
#define _GNU_SOURCE
#include "explore.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LONGEST = 12, QUEUE = 1 << 20 };
/* So many random schedules that were run before, one after the other, end a search. */
enum { MOST_REPEATS = 60 };
/* An execution that takes so many seconds sleeps in the kernel after all, or is in a loop without an access in it. */
enum { LONGEST_EXECUTION = 120 };

struct short_schedule {
    uint32_t count, cost;
    struct deviation deviations[LONGEST];
};

static struct queue {
    struct short_schedule *list;
    uint32_t count;
} queues[LONGEST + 1];

static enum { REPLAY, DEPTH, RANDOM } mode;
static uint32_t next_deviation;
static bool collects, has_diverged;
static int cost_so_far, bound;
static uint64_t seed;
const struct schedule *replayed;

/* Random runs, after Burckhardt, Kothari, Musuvathi and Nagarakatte: threads have priorities, which change at a few places. */
static int priorities[MAX_THREADS];
static uint32_t changes[8];
static int change_count, lowest;
static uint32_t hot_decisions, expected_decisions = 100;
static bool wild;

static uint64_t random_number(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1du >> 16;
}

static void add_candidate(uint32_t decision, uint16_t check, const struct option *option) {
    int cost = cost_so_far + option->cost;
    if (cost > bound || shared->schedule.count >= LONGEST) return;
    struct queue *queue = &queues[shared->schedule.count + 1];
    if (queue->count == QUEUE) {
        shared->dropped++;
        return;
    }
    struct short_schedule *made = &queue->list[queue->count++];
    made->count = shared->schedule.count;
    memcpy(made->deviations, shared->schedule.deviations, made->count * sizeof *made->deviations);
    made->cost = (uint32_t)cost;
    made->deviations[made->count++] = (struct deviation){decision, option->choice, check};
}

static int decide_at_random(const struct option *options, int count) {
    if (options[0].choice < MAX_THREADS) {
        hot_decisions++;
        bool changed = false;
        for (int i = 0; i < change_count; i++)
            if (changes[i] == hot_decisions) changed = true;
        if (wild) changed = random_number() % 4 == 0;
        if (changed && options[0].cost == 0 && options[0].choice < MAX_THREADS) priorities[options[0].choice] = --lowest;
        for (int i = 1; i < count; i++)
            if (options[i].choice == CHOICE_HANDLER && random_number() % 8 == 0) return i;
        if (options[count - 1].choice == CHOICE_HURRY && random_number() % 4 == 0) return count - 1;
        int best = 0;
        for (int i = 1; i < count; i++)
            if (options[i].choice < MAX_THREADS && priorities[options[i].choice] > priorities[options[best].choice]) best = i;
        return best;
    }
    return random_number() % 4 == 0 ? (int)(random_number() % (unsigned)count) : 0;
}

int decide(uint16_t check, const struct option *options, int count) {
    uint32_t decision = run.decision++;
    shared->decisions++;
    struct schedule *schedule = &shared->schedule;
    if (mode == RANDOM) {
        if (count == 1) return options[0].choice;
        int index = decide_at_random(options, count);
        if (index > 0) {
            if (schedule->count < MAX_DEVIATIONS)
                schedule->deviations[schedule->count++] = (struct deviation){decision, options[index].choice, check};
            else
                index = 0;
        }
        return options[index].choice;
    }
    if (next_deviation < schedule->count) {
        const struct deviation *deviation = &schedule->deviations[next_deviation];
        if (deviation->decision > decision) return options[0].choice;
        next_deviation++;
        bool known = deviation->check == 0 || deviation->check == check;
        for (int i = 0; i < count && known; i++)
            if (options[i].choice == deviation->choice) return deviation->choice;
        /* The execution is not the one that the schedule was made from. */
        has_diverged = true;
        collects = false;
        return options[0].choice;
    }
    if (collects)
        for (int i = 1; i < count; i++) add_candidate(decision, check, &options[i]);
    return options[0].choice;
}

static void run_one(const struct scenario *scenario) {
    next_deviation = 0;
    shared->trace_count = 0;
    alarm(LONGEST_EXECUTION);
    execute(scenario);
    shared->executions++;
}

static void run_random(const struct scenario *scenario, uint64_t with) {
    mode = RANDOM;
    seed = with * 0x9e3779b97f4a7c15u + 1;
    shared->random_seed = with;
    shared->schedule.count = 0;
    random_number();
    wild = with % 3 == 0;
    lowest = 0;
    for (int i = 0; i < MAX_THREADS; i++) priorities[i] = 1 + (int)(random_number() % 1000);
    change_count = 1 + (int)(random_number() % 4);
    for (int i = 0; i < change_count; i++) changes[i] = 1 + (uint32_t)(random_number() % expected_decisions);
    hot_decisions = 0;
    run_one(scenario);
    expected_decisions = hot_decisions > 10 ? hot_decisions : 10;
}

/* Whether a random schedule is none of those before it; two that differ may rarely count as one. */
static bool is_new(const struct schedule *schedule) {
    static uint8_t seen[1 << 20];
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < schedule->count; i++)
        hash = (hash ^ ((uint64_t)schedule->deviations[i].decision << 16 | schedule->deviations[i].choice)) * 0x9e3779b97f4a7c15u;
    const uint64_t bit = (hash ^ hash >> 32) % (sizeof seen * 8);
    const bool was_seen = seen[bit / 8] >> bit % 8 & 1;
    seen[bit / 8] |= (uint8_t)(1 << bit % 8);
    return !was_seen;
}

static void make_queues(void) {
    for (int i = 0; i <= LONGEST; i++) {
        queues[i].list = mmap(NULL, QUEUE * sizeof(struct short_schedule), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (queues[i].list == MAP_FAILED) abort();
    }
}

/* What this process and its children have used of the processor: so a search comes as far beside other programs as alone. Where the
 * kernel waits, as it does to end an instance of inotify(7), the time that goes by counts a tenth. */
static int64_t used_nanoseconds(void) {
    static int64_t begun;
    int64_t sum = 0;
    if (begun == 0) begun = real_nanoseconds();
    for (int i = 0; i < 2; i++) {
        struct rusage usage;
        getrusage(i == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &usage);
        sum += (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
    }
    const int64_t waited = (real_nanoseconds() - begun) / 10;
    return waited > sum ? waited : sum;
}

void search(const struct scenario *scenario, const struct limits *limits) {
    int64_t start = used_nanoseconds(), end = start + (int64_t)(limits->seconds * 1e9);
    shared->depth_reached = -1;
    if (replayed) {
        mode = DEPTH;
        /* What is made once per process is made. */
        shared->schedule.count = 0;
        for (int i = 0; i < 3; i++) run_one(scenario);
        int tries = 0;
        do {
            has_diverged = false;
            shared->schedule = *replayed;
            run_one(scenario);
        } while (has_diverged && ++tries < 20);
        if (has_diverged) fail("this schedule cannot be followed any more");
        return;
    }
    if (limits->random && limits->bound < 0) {
        run_random(scenario, limits->seed);
    }
    make_queues();
    mode = DEPTH;
    uint64_t picks = 88172645463325252u;
    /* The first executions make what is made once per process and learn where the threads meet. */
    for (int i = 0; i < 3; i++) {
        shared->schedule.count = 0;
        collects = false;
        run_one(scenario);
    }
    for (uint64_t i = 1; i <= 20 && used_nanoseconds() < start + (int64_t)(limits->seconds * 0.2e9); i++) run_random(scenario, i);
    mode = DEPTH;
    bound = limits->bound;
    if (bound >= 0) queues[0].list[queues[0].count++].count = 0;
    /* Random schedules get a third of the time at the least. */
    int64_t search_end = limits->random ? end - (int64_t)(limits->seconds * 0.33e9) : end;
    bool in_time = true;
    for (int depth = 0; depth <= LONGEST && in_time; depth++) {
        struct queue *queue = &queues[depth];
        while (queue->count > 0) {
            if (used_nanoseconds() > search_end) {
                in_time = false;
                break;
            }
            picks = picks * 6364136223846793005u + 1442695040888963407u;
            uint32_t pick = (uint32_t)(picks >> 33) % queue->count;
            struct short_schedule chosen = queue->list[pick];
            queue->list[pick] = queue->list[--queue->count];
            shared->schedule.count = chosen.count;
            memcpy(shared->schedule.deviations, chosen.deviations, chosen.count * sizeof *chosen.deviations);
            cost_so_far = (int)chosen.cost;
            /* Where the library hashes addresses, which differ, an execution may be a step longer than it was: it is tried again. */
            int tries = 0;
            do {
                collects = true;
                has_diverged = false;
                run_one(scenario);
            } while (has_diverged && ++tries < 4);
            if (has_diverged) shared->divergences++;
        }
        if (in_time) shared->depth_reached = depth;
    }
    shared->exhausted = in_time && shared->dropped == 0;
    if (!limits->random) return;
    /* If all schedules up to the bound were run, random ones only look for what needs more preemptions. */
    const int64_t now = used_nanoseconds(), tenth = now + (int64_t)(limits->seconds * 0.1e9);
    if (shared->exhausted && tenth < end) end = tenth;
    int repeats = 0;
    for (uint64_t i = limits->seed + 21; used_nanoseconds() < end && repeats < MOST_REPEATS; i++) {
        run_random(scenario, i);
        repeats = is_new(&shared->schedule) ? 0 : repeats + 1;
    }
}

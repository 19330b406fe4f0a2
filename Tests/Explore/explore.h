/* SPDX-License-Identifier: MIT */
/* The explorer's inner interface: threads and choices (scheduler.c), memory and its orders (memory.c), calls of the kernel
 * (kernel.c), the search through schedules (search.c), scenarios (program.c), reports (report.c). See Docs/explorer.md. */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>

#include "explore_hooks.h"

enum { MAX_THREADS = 8, MAX_DEVIATIONS = 256, MAX_TRACE = 1 << 16, STEP_LIMIT = 40000, LONGEST_STREAK = 1000 };

/* Kinds of access, beside the operations on words. */
enum access {
    ACCESS_LOAD,
    ACCESS_STORE,
    ACCESS_MODIFY,
    ACCESS_COMPARE,
    ACCESS_PAUSE,
    ACCESS_FUTEX_WAIT,
    ACCESS_FUTEX_WAKE,
    ACCESS_BARRIER,
    ACCESS_KERNEL_READ,
    ACCESS_KERNEL_WRITE,
    ACCESS_JOIN,
    ACCESS_START,
    ACCESS_NOTE
};

/* What a decision chose. The default is never written down. */
enum {
    CHOICE_THREAD = 0,   /* + a thread: it goes next */
    CHOICE_STALE = 16,   /* + n: the load sees the n-th value before the newest */
    CHOICE_HANDLER = 64, /* the signal handler runs on this thread now */
    CHOICE_HURRY = 65    /* the thread's next pauses are short, so that it comes to the end of its spin */
};

/* A schedule is where it deviates from the default, which lets a thread run until it blocks. */
struct deviation {
    uint32_t decision;
    uint16_t choice;
    uint16_t check; /* of what was about to happen; 0 on a command line */
};

struct step {
    uint32_t decision;
    uint8_t thread, kind, order, stale;
    uint32_t line, place; /* place: a short number of the location */
    const char *file;
    uint64_t value, old;
};

struct schedule {
    uint32_t count;
    struct deviation deviations[MAX_DEVIATIONS];
};

/* What the worker leaves to its parent, however it ends. */
struct shared {
    struct schedule schedule; /* of the execution under way */
    bool failed;
    char message[1024];
    uint64_t executions, decisions, divergences, dropped;
    int depth_reached; /* all schedules with so many deviations were run; -1: not even the one without */
    bool exhausted;    /* and all up to the bound */
    uint64_t random_seed;
    uint32_t trace_count;
    struct step trace[MAX_TRACE];
};
extern struct shared *shared;

/* ---- scheduler.c */

enum thread_state { THREAD_NONE, THREAD_READY, THREAD_FUTEX, THREAD_EPOLL, THREAD_POLL, THREAD_JOIN, THREAD_PARKED, THREAD_DONE };

struct clocks {
    uint32_t of[MAX_THREADS];
};

struct thread {
    uint32_t baton; /* the first: it outlasts an execution */
    uint8_t number;
    enum thread_state state;
    const char *name;
    pthread_t handle;
    /* Of a sleeper: what it waits for, until when, and how it woke. */
    uintptr_t address;
    int descriptor;
    int set; /* the one it waited in last */
    int lost; /* the number that the file kept for its sleep had */
    struct pollfd *polled;
    unsigned long polled_count;
    struct thread *joined;
    int64_t deadline;
    uint32_t bits; /* of a futex: a wake-up with one of them is meant for it */
    bool timed_out, interrupted, roused;
    uint64_t order; /* of falling asleep */
    uint64_t turn;  /* when it got the baton last */
    int hurry;
    int streak; /* points since it got the baton */
    int rounds;
    bool in_handler, yielded;
    bool is_detached, is_over; /* made by the library, for as long as the process lives; and ended with the execution */
    struct clocks clocks;
    void (*body)(void *);
    void *(*start)(void *);
    void *argument, *result;
};
extern __thread struct thread *self;
extern struct thread threads[MAX_THREADS];

/* Of the execution under way. */
extern struct run {
    bool scheduled;  /* threads run one at a time */
    bool concurrent; /* and choices are made */
    bool child;      /* this process is the child of a fork in the scenario */
    uint32_t decision, steps;
    int64_t now, begun;
    int64_t wall;  /* what the wall clock was set forward */
    bool set_back; /* a program's clock was set back */
    uint32_t kernel_dirty;
    struct thread *handler_thread; /* it has the handler still to come, or NULL */
    void (*handler)(void *);
    void *handler_argument;
    int handlers_left;
} run;

void run_begin(void);
struct thread *thread_add(const char *name, void (*body)(void *), void *argument, bool stays);
/* The controller gives the baton to one thread and waits until that parks itself or ends; no choices are made. */
void run_alone(struct thread *thread);
/* The controller lets all parked threads run with choices, until each is parked again or has ended. */
void run_together(void);
/* Called by a thread: gives the baton back to the controller, to go on in the next phase. */
void park(void);
/* Called by controller: the OS threads are gone. */
void run_join_all(void);

void point(enum access kind, uintptr_t address, bool writes, const char *file, uint32_t line);
/* Puts the calling thread to sleep in the given state. */
void sleep_in(enum thread_state state, int64_t deadline);
int futex_wake(uintptr_t address, int count, uint32_t bits);
/* The clock goes on while the caller computes. */
void time_passes(int64_t nanoseconds);
void fence_clocks(void);
void note_step(enum access kind, int order, uintptr_t address, uint64_t old, uint64_t value, int stale, const char *file, uint32_t line);
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
const char *thread_states(char *text, size_t size);

/* ---- memory.c */

struct place; /* a location of this execution */
void memory_begin(void);
void memory_forget_history(void);
struct place *place_of(uintptr_t address, const char *file, uint32_t line);
uint32_t place_number(struct place *place);
void place_touch(struct place *place, unsigned role, bool writes);
/* Which roles' accesses conflict with one of this kind. */
unsigned place_conflicts(struct place *place, bool writes);
enum { ROLE_HANDLER = MAX_THREADS };
extern bool weak_memory;

/* ---- words.c */

uint64_t read_word(const void *address, uint32_t size);
void write_word(void *address, uint32_t size, uint64_t value);

/* ---- search.c */

struct option {
    uint16_t choice, cost;
};
/* The choice; options[0] is the default. */
int decide(uint16_t check, const struct option *options, int count);
/* Random mode only: which of the enabled threads goes on at a point; the default is first. */

struct limits {
    double seconds;
    int bound;          /* most preemptions; the search goes from 0 to it */
    bool random;        /* go on by seed until the time is over */
    uint64_t seed;
};
struct scenario;
void search(const struct scenario *scenario, const struct limits *limits);
void execute(const struct scenario *scenario); /* program.c */
extern const struct schedule *replayed; /* not NULL: this one only */

/* ---- kernel.c */

bool sleeper_is_ready(struct thread *thread);
void lose_number(int number, int replacement); /* none: -1 */
int64_t real_nanoseconds(void);

#endif

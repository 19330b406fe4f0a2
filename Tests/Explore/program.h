/* SPDX-License-Identifier: MIT */
/* A scenario is a line of text per thing: items, and what each thread does. Docs/explorer.md explains the language. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "explore.h"

#include <runloop/runloop.h>

struct scenario {
    const char *name;  /* group.what_meets_what */
    const char *rules; /* of Docs/semantics.md; with a ! before them it is known to fail until the core is mended */
    const char *items; /* NAME=kind:number+?{calls of its callback}~{of its release} ... */
    const char *threads; /* NAME: calls before / calls explored / calls after | NAME: ... */
};
/* Arrays that end with a scenario without a name; NULL after the last. */
const struct scenario *scenario_group(int index);

enum { MAX_ITEMS = 10, MAX_CALLS = 14 };

struct item;
struct block;

struct call {
    const struct operation *operation;
    struct item *item[2];
    struct actor *actor;
    const char *mode;
    double number;
    bool has_number;
    struct block *block;
};

struct block {
    int count;
    struct call calls[MAX_CALLS];
};

enum kind { KIND_SOURCE, KIND_INBOX, KIND_PORT, KIND_TIMER, KIND_OBSERVER, KIND_POST, KIND_MACH_PORT, KIND_DESCRIPTOR, KIND_USER, KIND_THREAD, KIND_MESSAGE, KIND_SOCKET, KIND_VNODE, KIND_SYNC, KIND_CLOCK, KIND_COUNTER, KIND_HANDLER, KIND_LOCK_FILE, KIND_REQUEST, KIND_LISTENER, KIND_DIALER };

/* The functions of a context that make calls of their own. */
enum inner { INNER_DESCRIBE, INNER_RETAIN, INNER_RELEASE, INNER_SCHEDULE, INNER_CANCEL, INNER_EQUAL, INNER_COUNT };

/* An object of the library's, or a function for it, and what became of it. */
#define NO_BUDGET (-1)

struct item {
    char name[12];
    enum kind kind;
    RLTimerClock clock; /* of a timer */
    double number;
    double due; /* of a timer: what it was set to last, in seconds; of a clock: its first date */
    bool repeats;
    struct block *block; /* of its callback */
    struct block *inner[INNER_COUNT]; /* of the functions of its context */
    struct thread *inside[INNER_COUNT]; /* the thread that executes such a block */
    bool was_inside[INNER_COUNT];       /* it was executed: once in a scenario */
    const void *object;
    RLSourceRef source; /* of a port */
    const void *remote; /* of a message port, and of a request that was begun */
    RLRunLoopRef loop;  /* where the outcome of a request is told */
    uint32_t id;        /* of a request */
    char path[64];      /* of a file, or a message port's name */
    int descriptors[2];
    int written; /* to a socket and not taken by its peer */
    int retains, releases; /* of its info */
    bool has_description;  /* a copyDescription */
    uint32_t described;    /* how often that was called */
    uint32_t counted;      /* releases */
    int performed, scheduled, cancelled, invalidations;
    int budget; /* of a source with one limit for the whole scenario: how often it may perform */
    int posted, dropped, freed; /* of a post: calls, releases without a call, releases */
    struct thread *calling;     /* the thread that its callback runs on */
    bool ended_inside;          /* it was invalidated in its own callback, which may release its info */
    bool forgiven;              /* it was cancelled, or its loop ended: it need not be performed */
    bool is_leaving;            /* of a thread: its first exit callback has begun */
    uint64_t signal_begun, perform_begun;
};

struct actor {
    char name[12];
    struct block *before, *body, *after;
    struct thread *thread;
    RLRunLoopRef loop;
    bool has_loop; /* it makes calls on its own loop */
    bool ends; /* it does not wait for the others' bodies before it ends */
    bool has_ended;
    struct item *awaited;
    int awaited_count;
};

struct operation {
    const char *name, *functions; /* of the library, that it calls */
    void (*perform)(struct call *call);
    bool on_loop; /* without a loop's name it is about the own one */
};
/* Each ends with one without a name; the last is NULL. */
extern const struct operation *const operation_tables[];
extern const struct operation socket_operations[], queue_operations[], sync_operations[], look_operations[], lose_operations[];
extern const char *const kind_names[];

extern struct item items[MAX_ITEMS];
extern int item_count;
extern struct actor actors[MAX_THREADS];
extern int actor_count;
extern struct actor *acting(void);
extern uint64_t sequence;

void parse(const struct scenario *scenario);
void perform_block(struct block *block);
void make_sync(struct item *item);
void make_handler(struct item *item);
void set_slow(RLRunLoopRef loop, struct item *handler, double seconds);
void make_lock_file(struct item *item);
void wait_for_lock(RLRunLoopRef loop, struct item *item);
void check_lock_file(struct item *item);
void make_listener(struct item *item);
void make_dialer(struct item *item);
void end_cancelled_sources(void);
void check_taken(void); /* the numbers that the program has */
void make_item(struct item *item);
void drop_item(struct item *item);
void check_item(struct item *item);       /* after the last runs, when the threads still are */
void check_item_at_end(struct item *item); /* after everything */

/* Of an operation's call, and what contexts have: operations.c. */
RLMode mode_of(struct call *call);
RLRunLoopRef loop_of(struct call *call);
const void *object_of(struct call *call);
void check_alive(struct item *item);
void call_back(struct item *item);
const void *retain_info(const void *info);
void release_info(const void *info);
char *describe_info(const void *info);
void forget_line(const char *line, void *info); /* of the log */
void perform_post(void *info);
void release_post(void *info);

#endif

/* SPDX-License-Identifier: MIT */
/* The slow, obviously right loop that says what the library has to do. It is written from the
   numbered rules alone: plain arrays, linear searches, one rule beside each line that carries it
   out. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "choices.h"
#include "outside.h"
#include "program.h"
#include "trace.h"

enum { MAX_QUEUE = 128 };

/* A date as the library reports it: nanoseconds since the sequence began, or one of the specials.
   */
struct model_date {
    enum date_kind kind; /* DATE_FUTURE and DATE_PAST: an ordinary date */
    int64_t time;
};

struct model_item {
    const struct item_definition *definition;
    bool created;
    bool alive; /* the object exists: somebody refers to it */
    bool valid;
    bool has_context; /* the creation's reference to the context is not yet released */
    bool in[LOOPS][MODES];
    bool common[LOOPS]; /* added under the pseudo-mode */
    long common_since[LOOPS];
    long put[LOOPS][MODES]; /* when it was put in the mode, as a serial number */
    int pins;               /* batches that hold it */
    int turns; /* batches of signalled sources in which its turn is still to come */
    int firing;             /* timers and observers: callbacks on the stack */
    int firing_thread;
    bool release_waits; /* for the end of the callback: another thread invalidated it meanwhile */
    bool signalled;
    long first_signal; /* serial number of the signal that set the flag */
    int pending;       /* v1: units of the counter or bytes in the pipe */
    long ready_since; /* v1: serial number of the write that made it readable */
    /* timers */
    struct model_date date;
    int64_t instant;
    int64_t interval;
    long past_serial; /* not 0: made due at once by a past date, in the order of these numbers */
    bool was_past;    /* re-armed from such an instant */
    long armed;       /* serial number of the last change of the instant */
    long moved;       /* the same for a change that ends its turn in a batch: a fire, or a later date */
    bool set_inside;  /* the date was set while the callback ran */
    int64_t served;   /* the instant being served */
};

struct model_function {
    int id;
    int modes; /* a mask; MODE_COMMON is a bit of it */
    int script;
    bool has_release;
};

struct model_run {
    struct model_run *outer;
    int mode;
    bool poll; /* t <= 0 */
    bool returns_handled;
    int64_t deadline;
    bool stopped;
    bool woken;
    bool before_wait; /* from the start of the pass to the end of its wait */
    long event_put;   /* when the port that ended the wait had been put in the mode */
};

struct model_loop {
    struct model_run *innermost;
    bool exists[MODES];
    bool is_common[MODES];
    bool wake_noted; /* a wake-up was issued since the last wait or start of a pass */
    int queued;
    struct model_function queue[MAX_QUEUE];
};

struct model {
    const struct program *program;
    struct trace *trace;
    struct choices *choices;
    struct gate gate;
    struct outside outside;
    int64_t now;
    long serial;
    int functions; /* posted so far */
    /* [...][a][b]: a ended a wait of the mode while b was ready there, and b was not served since
       (S-PASS-10). */
    bool overtook[LOOPS][MODES][MAX_ITEMS][MAX_ITEMS];
    /* Of two items that one RLAddCommonMode put in a mode: 1 if the first went first, -1 if the
       second, 0 if not yet asked. */
    signed char went_first[LOOPS][MODES][MAX_ITEMS][MAX_ITEMS];
    struct model_item item[MAX_ITEMS];
    struct model_loop loop[LOOPS];
};

/* Predicts the trace of a whole sequence, with the given answers to what is open. */
void model_predict(const struct program *program, struct choices *choices, struct trace *trace);

/* model.c */
void model_note(struct model *model, enum entry_kind kind, int item, int a, int64_t b);
int model_choose(struct model *model, int options);
void model_run_script(struct model *model, int script);
void model_wake(struct model *model, int loop);
void model_stop(struct model *model, int loop);

/* model_items.c */
void model_create(struct model *model, int index);
void model_release(struct model *model, int index);
void model_add(struct model *model, int index, int loop, int mode);
void model_remove(struct model *model, int index, int loop, int mode);
void model_invalidate(struct model *model, int index);
void model_signal(struct model *model, int index);
void model_add_common_mode(struct model *model, int loop, int mode);
/* Whether a was put in the mode before b. */
bool model_put_before(struct model *model, int loop, int mode, int a, int b);
bool model_contains(const struct model *model, int index, int loop, int mode);
bool model_in_any_mode(const struct model_item *item, int loop);
void model_drop_if_unreferenced(struct model *model, int index);
void model_pin(struct model *model, int index);
void model_unpin_batch(struct model *model, const int *batch, int count, int turn);
/* After a callback that had the context's info: a release that another thread's Invalidate left to
   this one. */
void model_end_use_of_info(struct model *model, int index);
/* What the end of a loop's thread does, and what the last release of the loop does. */
void model_end_thread(struct model *model, int loop);
void model_free_loop(struct model *model, int loop);

/* model_timers.c */
void model_set_date(struct model *model, int index, const struct date *date);
bool model_earlier(struct model *model, int loop, int mode, int a, int b);
bool model_timer_due(const struct model *model, int index);
int64_t model_next_instant(const struct model *model, int loop, int mode);
int64_t model_next_fire_date(struct model *model, int loop, int mode);
int64_t model_date_answer(const struct model_date *date);
/* What a tolerance of so many units is stored as, in nanoseconds. */
int64_t model_tolerance(const struct model_item *item, int units);
void model_serve_timers(struct model *model, int loop, int mode);

/* model_run.c */
int model_run(struct model *model, int loop, int mode, const struct op *op);
void model_post(struct model *model, int loop, int modes, int script, int flags);

/* model_wait.c */
enum { EVENT_NOTHING = -1, EVENT_TIMERS = MAX_ITEMS };
int model_wait(struct model *model, int loop, struct model_run *run, bool poll);
bool model_port_ready(const struct model *model, int index, int loop, int mode);
void model_write(struct model *model, int index, int count);
void model_drain(struct model *model, int index);
void model_consume(struct model *model, int index);
/* Item b is no longer kept waiting by anybody. */
void model_forget_overtaken(struct model *model, int b);

#endif

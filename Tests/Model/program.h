/* SPDX-License-Identifier: MIT */
/* What one random sequence is: items, scripts for their callouts, and a list of operations. */
#ifndef MODEL_PROGRAM_H
#define MODEL_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MAX_ITEMS = 9, MAX_SCRIPTS = 8, MAX_SCRIPT_OPS = 5, MAX_OPS = 96, MAX_DEPTH = 4, MAX_FUEL = 48 };

/* Mode numbers; MODE_COMMON is the pseudo-mode and never a mode of its own. */
enum { MODE_DEFAULT, MODE_RED, MODE_BLUE, MODE_GREEN, MODE_COMMON, MODES };

/* Loop numbers are thread numbers: loop 0 belongs to the thread that runs the sequence. */
enum { LOOPS = 2 };

/* All times are whole units of 1/512 second: exact in binary fractions and in nanoseconds alike,
   so that no rounding in the library or in the model can make them disagree. */
#define UNIT_NANOSECONDS INT64_C(1953125)
#define UNITS_PER_SECOND 512.0
/* Dates and intervals that come from the generator are multiples of this many units. */
enum { DATE_STEP = 8 };

#define TIME_NEVER INT64_MAX

enum item_kind { ITEM_V0, ITEM_V1, ITEM_TIMER, ITEM_OBSERVER };

enum port_kind { PORT_EVENTFD, PORT_SEMAPHORE, PORT_PIPE, PORT_BAD };

enum date_kind { DATE_FUTURE, DATE_PAST, DATE_MINUS_INFINITY, DATE_PLUS_INFINITY, DATE_NAN };

/* What a schedule or cancel callback does; these effects commute, because the order in which one
   call schedules a source in several modes is not promised. */
enum { EDGE_SIGNAL = 1, EDGE_WAKE = 2, EDGE_STOP = 4 };

struct date {
    enum date_kind kind;
    /* DATE_FUTURE: steps from now; DATE_PAST: units before now; at least 1. */
    int value;
};

struct item_definition {
    enum item_kind kind;
    enum port_kind port;
    int order;
    int script; /* -1: the callback does nothing but note itself */
    bool has_callback;
    bool has_retain;
    bool repeats;    /* observers */
    int interval;    /* timers, in steps; 0 or negative for one-shot */
    unsigned activities;
    struct date date;
    int edge;
};

enum op_kind {
    OP_CREATE,
    OP_RELEASE,
    OP_ADD,
    OP_REMOVE,
    OP_INVALIDATE,
    OP_SIGNAL,
    OP_WRITE,
    OP_DRAIN,
    OP_SET_DATE,
    OP_WAKE,
    OP_STOP,
    OP_FUNCTION,
    OP_COMMON_MODE,
    OP_RUN,
    OP_RUN_FOREVER,
    OP_ADVANCE,
    OP_OTHER_THREAD,
    OP_OUTSIDE,
    OP_CONTAINS,
    OP_IS_VALID,
    OP_IS_SIGNALLED,
    OP_FIRE_DATE,
    OP_NEXT_FIRE_DATE,
    OP_CURRENT_MODE,
    OP_ALL_MODES,
    OP_IS_WAITING,
    OP_TOLERANCE, /* sets it, asks for it and puts it back to 0 */
    OP_CONTEXT,   /* whether the context still has its info */
    OP_END_OTHER, /* the second thread ends; its loop is retained to the end */
    OP_KINDS
};

enum timeout_kind { TIMEOUT_UNITS, TIMEOUT_MINUS_INFINITY, TIMEOUT_PLUS_INFINITY, TIMEOUT_NAN, TIMEOUT_HUGE };

enum { FUNCTION_RELEASE = 1, FUNCTION_LIST = 2, DATE_COARSE = 4 };

struct op {
    enum op_kind kind;
    int item;
    int loop;
    int mode;
    int script;             /* OP_FUNCTION, OP_OTHER_THREAD; -1: none */
    int value;              /* units of time, number of writes, a mask of modes, or a tolerance */
    /* FUNCTION_*; DATE_COARSE: a clock too coarse to tell this past date from the one before. */
    int flags;
    bool returns_handled;   /* OP_RUN: the argument h */
    enum timeout_kind timeout;
    struct date date;       /* OP_SET_DATE */
    enum op_kind outside;   /* OP_OUTSIDE: OP_SIGNAL, OP_WRITE, OP_WAKE or OP_STOP */
};

struct script {
    int count;
    struct op ops[MAX_SCRIPT_OPS];
};

struct program {
    uint64_t seed;
    bool has_second_loop;
    int items;
    struct item_definition item[MAX_ITEMS];
    int scripts;
    struct script script[MAX_SCRIPTS];
    int count;
    struct op op[MAX_OPS];
};

/* What may be done at a moment of a sequence. The model and the executor each keep one; it holds
   nothing that is under test, only which handles the client may still use and how much is left. */
struct gate {
    bool created[MAX_ITEMS];
    bool held[MAX_ITEMS];
    int active[MAX_ITEMS]; /* callbacks of the item on the stack; it may be used inside them */
    int fuel;              /* operations that scripts may still do */
    int depth;             /* runs on the stack */
    int thread;            /* the thread that is running: 0 or 1 */
    bool other_ended; /* the second thread is gone, its loop is not */
    bool closing;
};

void gate_open(struct gate *gate);

bool gate_can_use(const struct gate *gate, int item);

bool gate_allows(const struct gate *gate, const struct program *program, const struct op *op);

/* Units by which the clock advances before the operation. A past date means "now", and of two of
   them a real clock hardly ever makes the same nanosecond. */
int program_advance(const struct program *program, const struct op *op);

void program_print(const struct program *program, FILE *out);

/* The number of operations in the list and in the scripts. */
int program_size(const struct program *program);

const char *mode_label(int mode);

#endif

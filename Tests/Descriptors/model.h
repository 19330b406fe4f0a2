/* SPDX-License-Identifier: MIT */
/* The model: of each object whether it is valid, enabled and in which modes, and which callbacks the rules allow and ask for. */
#ifndef DESCRIPTORS_MODEL_H
#define DESCRIPTORS_MODEL_H

#include "files.h"
#include "program.h"

struct object {
    const struct object_definition *what;
    int generation; /* how often it was made */
    bool is_valid, has_source;
    int types;      /* what it can report */
    int off[LOOPS]; /* what the thread of that loop has disabled, and nobody enabled since */
    int told;       /* what it reports once, and has */
    int enabled, persistent;
    int again;      /* of a socket: types whose callback is on the stack and that have not been disabled since (S-SOCK-34) */
    bool is_queued; /* a Write left bytes queued, and no Write callback has told that they are sent */
    bool is_closing; /* closed in order: nothing is called any more, and it becomes invalid some day */
    bool has_ended_writing;
    bool has_failed; /* it was told that a connect failed */
    /* There was a connection and no descriptor for it: the library looks again later. Or the kernel tells nobody of a connect
       (S-SOCK-30). By loops. */
    bool is_put_off[LOOPS];
    int performs; /* callbacks on the stack */
    bool is_let_go; /* there are no references of the program's */
    int flags;      /* of a socket: types that come on again after the callback */
    bool in_mode[LOOPS][MODES];
    unsigned long added[LOOPS][MODES], removed[LOOPS][MODES];
    /* Its number was closed: what it does from then on is only partly settled by the rules. */
    bool is_stale;
    /* While the second loop sleeps: a Disable may have come before or after the end of a callback. */
    bool may_be_disabled;
    bool is_haunted; /* when it was closed, another number named the file */
    /* The last call, and the last operation that changed what may be expected of it. */
    unsigned long called, touched;
    int waited; /* passes in which it was ready, its mode ran and others had their turn */
};

/* A run on the stack of a thread. */
struct frame {
    int loop, mode, depth;
    bool handled, polls, sleeps;
    unsigned long start;
    int calls, v0_calls, v1_calls, passes;
    int acts; /* operations of the observer */
    int seen[MAX_OBJECTS]; /* for what it was ready at the start of the run or later */
    struct frame *outer;
};

extern struct object objects[MAX_OBJECTS];
extern int object_count;
/* Counts operations and calls. */
extern unsigned long instant;
/* Since when the second loop is in a run that only a stop ends; 0: it is not. */
extern unsigned long model_sleeps;

void model_start(const struct program *program);

bool object_is_socket(const struct object *object);
bool object_is_in_loop(const struct object *object, int loop);
bool object_is_scheduled(const struct object *object);

/* The types for which it is to be called in that mode now. */
int object_due(const struct object *object, int loop, int mode);

/* S-SRC-44: of the ports on its number it was added last. */
bool object_is_last_port(const struct object *object, int loop, int mode);

/* The loop that sleeps has to call it. */
bool object_is_awaited(const struct object *object, int mode);

/* Steps of the model, before the library is called. */
void model_created(int index);
void model_added(int index, int loop, int mode);
void model_removed(int index, int loop, int mode);
void model_source_invalidated(int index);
void model_invalidated(int index);
void model_enabled(int index, int types, bool persistent);
void model_disabled(int index, int types, int own_loop);
/* A Write left so many bytes queued; -1: it took nothing. */
void model_wrote(int index, long queued);
/* The program's references are released. */
void model_let_go(int index);
/* RLSocketClose. */
void model_ended(int index, int how);
/* A Data callback told the end of the stream. */
void model_stream_ended(int index, bool is_queued);
/* What comes on again after a callback, as the flags say at its end. */
void model_flags_set(int index, int flags);
/* Whether connections can be accepted has changed. */
void model_starved(void);
/* The program connects the file of a number. */
void model_file_connected(int number);
/* Whether a valid object is to close the number. */
bool model_has_owner(int number);
/* The number was given another file or none. */
void model_number_closed(int number);
/* Something happened to the file of a number: what was expected of its objects is open. */
void model_file_changed(int number, struct frame *frames);

/* What the start of a callback in that loop changes. */
void model_reports(struct object *object, int types, int loop);

/* The library calls the object for these types; and the callback returned. */
void model_called(int index, int generation, int types, struct frame *frame);
void model_returned(int index, int generation, int types);

/* How many sources the mode has; -1 if the rules leave it open. */
int model_content(int loop, int mode);

/* None of the objects in its mode does what the rules leave open. */
bool model_is_settled(const struct frame *frame);
/* A run begins and has ended. */
void model_run_begins(struct frame *frame);
void model_run_ended(struct frame *frame, int content, int result);

#endif

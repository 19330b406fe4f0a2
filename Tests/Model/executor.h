/* SPDX-License-Identifier: MIT */
/* Runs a sequence on the library and writes down everything that is seen. */
#ifndef MODEL_EXECUTOR_H
#define MODEL_EXECUTOR_H

#include <stdbool.h>

#include "program.h"
#include "trace.h"

struct executor_options {
    bool real_clock; /* for a library that the virtual clock does not reach */
    int planted;     /* the callback that is not noted; -1: none */
};

/* The exit status of the process when the library does not come back from a wait. */
enum { EXECUTOR_STUCK = 3 };

/* Runs the sequence on a new thread, whose end is part of the sequence. */
void executor_run(const struct program *program, struct trace *trace, const struct executor_options *options);

#endif

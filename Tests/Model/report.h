/* SPDX-License-Identifier: MIT */
/* Tries a sequence in a child process, makes a failing one smaller, and prints it. */
#ifndef MODEL_REPORT_H
#define MODEL_REPORT_H

#include <stdbool.h>

#include "executor.h"
#include "program.h"
#include "trace.h"

/* The observed trace lives in memory shared with the children, so that it outlives their death. */
struct attempt {
    struct trace observed;
    struct trace expected;
    int difference; /* -1: the model allows the trace */
    int status;     /* as waitpid gives it */
};

/* Runs the sequence in a child. Returns true if it came back and the model allows what was seen. */
bool attempt_run(struct attempt *attempt, const struct program *program, const struct executor_options *options);

/* Deletes operations, scripts and properties one by one, as long as the sequence still fails. */
void attempt_shrink(struct attempt *attempt, struct program *program, const struct executor_options *options);

/* Prints the sequence and both traces around the first difference, or all of them. */
void attempt_print(const struct attempt *attempt, const struct program *program, bool whole);

#endif

/* SPDX-License-Identifier: MIT */
/* Compares an observed trace with what the model allows. */
#ifndef MODEL_CHECK_H
#define MODEL_CHECK_H

#include "program.h"
#include "trace.h"

/* Searches the model's open choices for the observed trace, which it puts into normal form first.
   Returns -1 if the model allows it, else the index of the first wrong entry; expected is then the
   model's trace that agrees the longest. */
int check_trace(const struct program *program, struct trace *observed, struct trace *expected);

#endif

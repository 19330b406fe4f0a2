/* SPDX-License-Identifier: MIT */
/* Runs a program on the library, each operation and each callback beside the model. */
#ifndef DESCRIPTORS_EXECUTOR_H
#define DESCRIPTORS_EXECUTOR_H

#include "outcome.h"
#include "program.h"

/* The model is not told of that callback, which it has to notice; 0: of all. */
void execute(const struct program *program, struct outcome *result, int hidden);

#endif

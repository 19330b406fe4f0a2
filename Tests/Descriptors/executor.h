/* SPDX-License-Identifier: MIT */
/* Runs a program on the library, each operation and each callback beside the model. */
#ifndef DESCRIPTORS_EXECUTOR_H
#define DESCRIPTORS_EXECUTOR_H

#include "outcome.h"
#include "program.h"

void execute(const struct program *program, struct outcome *result);

#endif

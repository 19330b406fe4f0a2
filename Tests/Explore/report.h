/* SPDX-License-Identifier: MIT */
#ifndef REPORT_H
#define REPORT_H

#include "explore.h"

#include <stdio.h>

void print_schedule(const struct schedule *schedule, FILE *file);
bool read_schedule(const char *text, struct schedule *schedule);
void print_trace(const char *const *names, bool whole, FILE *file);

#endif

/* SPDX-License-Identifier: MIT */
/* One function per workload; what its arguments are is said where it is defined. */
#ifndef BENCH_WORKLOADS_H
#define BENCH_WORKLOADS_H

#include "../adapter.h"
#include "../bench.h"

void ping_pong(void);
void post(void);
void pass(void);
void pass_idle_sources(void);
void descriptors(void);
void timer_remove_set_add_inside(void);
void timer_move_inside(void);
void timer_move_outside(void);
void timer_life(void);
void fire_at_once(void);
void fire_spread(void);
void lateness(void);
void memory_timer(void);
void memory_source(void);
void memory_descriptor(void);
void idle(void);

#endif

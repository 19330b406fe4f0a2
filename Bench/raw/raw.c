/* SPDX-License-Identifier: MIT */
/* The hand-written programs: for each workload the shortest C for just that job. */
#include "raw.h"

const struct workload bench_workloads[] = {
    {"ping_pong", raw_ping_pong},
    {"post", raw_post},
    {"pass", raw_pass},
    {"pass_idle_sources", raw_pass_idle_sources},
    {"descriptors", raw_descriptors},
    {"timer_remove_set_add", raw_timer_remove_set_add},
    {"timer_move", raw_timer_move},
    {"timer_move_outside", raw_timer_move_outside},
    {"timer_life", raw_timer_life},
    {"fire_at_once", raw_fire_at_once},
    {"fire_spread", raw_fire_spread},
    {"lateness", raw_lateness},
    {"memory_timer", raw_memory_timer},
    {"memory_source", raw_memory_source},
    {"memory_descriptor", raw_memory_descriptor},
    {"idle", raw_idle},
    {NULL, NULL},
};

/* SPDX-License-Identifier: MIT */
/* The workloads of the programs that run over an adapter. */
#include "workloads.h"

const struct workload bench_workloads[] = {
    {"ping_pong", ping_pong}, {"post", post},
    {"pass", pass},           {"pass_idle_sources", pass_idle_sources},
    {"descriptors", descriptors},
    {"timer_remove_set_add", timer_remove_set_add_inside},
    {"timer_move", timer_move_inside}, {"timer_move_outside", timer_move_outside},
    {"timer_life", timer_life},
    {"fire_at_once", fire_at_once}, {"fire_spread", fire_spread},
    {"lateness", lateness},
    {"memory_timer", memory_timer}, {"memory_source", memory_source},
    {"memory_descriptor", memory_descriptor},
    {"idle", idle},
    {NULL, NULL},
};

#include "../program.h"

extern const struct scenario source_scenarios[], other_scenarios[], fork_scenarios[];

const struct scenario *const all_scenarios[] = {source_scenarios, other_scenarios, fork_scenarios, NULL};

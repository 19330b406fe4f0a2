/* SPDX-License-Identifier: MIT */
#include "../program.h"

extern const struct scenario source_scenarios[], other_scenarios[], fork_scenarios[], meeting_scenarios[], sync_scenarios[], clock_scenarios[],
    watch_scenarios[], context_scenarios[], turn_scenarios[], socket_scenarios[], queue_scenarios[], look_scenarios[], lost_scenarios[];
const struct scenario *family_scenarios(void);

const struct scenario *scenario_group(int index) {
    switch (index) {
    case 0: return source_scenarios;
    case 1: return other_scenarios;
    case 2: return fork_scenarios;
    case 3: return meeting_scenarios;
    case 4: return sync_scenarios;
    case 5: return clock_scenarios;
    case 6: return watch_scenarios;
    case 7: return context_scenarios;
    case 8: return turn_scenarios;
    case 9: return socket_scenarios;
    case 10: return queue_scenarios;
    case 11: return look_scenarios;
    case 12: return lost_scenarios;
    case 13: return family_scenarios();
    default: return NULL;
    }
}

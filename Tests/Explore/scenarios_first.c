#include "program.h"

const struct scenario first_scenarios[] = {
    {"source.signal_meets_run", "S-SRC-25", "A=source", "L: add A / until A | T: signal A; wake L"},
    {"source.remove_meets_add_elsewhere", "S-SRC-27", "A=source",
     "L: loop; add A; signal A / remove A | M: loop / add A; once | T: signal A; wake M"},
    {"inbox.message_meets_add", "S-SRC-27", "I=inbox", "L: keep / until I 1 | T: add I L | U: signal I 1"},
    {"inbox.message_meets_add2", "S-SRC-27", "I=inbox", "L: keep / until I 1 | T: add I L | U: signal I"},
    {"modes.common_mode_meets_common_post", "S-MODE-12", "p=post", "L: keep m; post p common; once m / wake L; until p m | T: common L m; wake L"},
    {NULL, NULL, NULL, NULL},
};
const struct scenario *const all_scenarios[] = {first_scenarios, NULL};

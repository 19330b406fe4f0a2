/* Calls that meet on one source. */
#include "../program.h"

const struct scenario source_scenarios[] = {
    {"source.signal_meets_run", "S-SRC-25 S-WAKE-1", "A=source", "L: add A / until A | T: signal A; wake L"},
    {"source.signal_meets_signal", "S-SRC-26 S-WAKE-1", "A=source", "L: add A / until A | T: signal A; wake L | U: signal A; wake L"},
    {"source.signal_and_wake_meet_signal", "S-SRC-26 S-WAKE-1", "A=source", "L: add A / until A | T: signal A | U: signal A; wake L"},
    {"source.signal_in_callback_meets_signal", "S-SRC-26", "A=source{signal A}", "L: add A / signal A; once; once | T: signal A; wake L"},
    {"source.signal_meets_add", "S-SRC-27 S-WAKE-15", "A=source", "L: keep / until A | T: add A L | U: signal A; wake L"},
    {"source.signal_meets_remove", "S-SRC-33", "A=source", "L: add A / once | T: signal A | U: remove A L"},
    {"source.signal_meets_invalidate", "S-SRC-34", "A=source", "L: add A / once | T: signal A | U: invalidate A"},
    {"source.remove_meets_add_elsewhere", "S-SRC-27 S-SRC-30", "A=source",
     "L: loop; add A; signal A / remove A | M: loop / add A; once | T: signal A; wake M"},
    {"source.remove_meets_add_and_signal", "S-SRC-27 S-SRC-30", "A=source",
     "L: loop; add A / remove A | M: keep / until A | T: add A M; signal A; wake M"},
    {"source.remove_and_release_meet_callback", "S-SRC-33 S-SRC-21", "A=source{wake L}",
     "L: keep; add A; signal A / once | T: remove A L; release A"},
    {"source.invalidate_and_release_meet_callback", "S-SRC-34 S-SRC-21", "A=source{wake L}",
     "L: keep; add A; signal A / once | T: invalidate A; release A"},
    {"source.handler_signal_meets_run", "S-WAKE-12", "A=source", "L: add A / until A | L!: signal A; wake L"},
    {"source.handler_signal_meets_add", "S-WAKE-12 S-SRC-27", "A=source", "L: keep / add A; until A | L!: signal A; wake L"},
    {"source.add_meets_add", "S-SRC-7", "A=source", "L: loop / once | T: add A L | U: add A L"},
    {"source.signal_meets_end_of_thread", "S-LOOP-9", "A=source", "L: loop; add A / end | T: signal A; wake L"},
    {"source.remove_meets_end_of_thread", "S-LOOP-9", "A=source", "L: loop; add A / end | T: remove A L"},
    {"source.fork_meets_signal", "S-FORK-1", "A=source", "L: add A / fork{signal A} | T: signal A; wake L"},
    {NULL, NULL, NULL, NULL},
};

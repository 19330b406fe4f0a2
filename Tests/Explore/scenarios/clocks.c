/* SPDX-License-Identifier: MIT */
#include "../program.h"

/* Clocks that the program moves (S-CLK). A timer that is not fired leaves its loop asleep for ever. */
const struct scenario clock_scenarios[] = {
    {"clock.advance_meets_sleep", "S-CLK-5 S-CLK-7", "C=clock t=timer:3", "L: loop; setclock C; add t / until t | T: advance C 5"},
    {"clock.two_advances_meet_sleep", "S-CLK-5 S-CLK-7", "C=clock t=timer:3", "L: loop; setclock C; add t / until t | T: advance C 2 | U: advance C 2"},
    {"clock.advance_meets_repeating", "S-CLK-5", "C=clock t=timer:1+", "L: loop; setclock C; add t / until t 3 | T: advance C 1; advance C 4"},
    {"clock.advance_meets_descriptor", "S-CLK-5", "C=clock t=timer:3 D=port", "L: loop; setclock C; add t; add D / until t | T: advance C 5 | U: signal D"},
    {"clock.advance_meets_two_loops", "S-CLK-7", "C=clock t=timer:3 u=timer:2",
     "L: loop; setclock C; add t / until t | M: loop; setclock C; add u / until u | T: advance C 5"},
    {"clock.advance_meets_date", "S-CLK-4 S-TMR-41", "C=clock t=timer:600", "L: loop; setclock C; add t / until t | T: advance C 5 | U: date t 3"},
    {"clock.advance_meets_add", "S-CLK-4", "C=clock t=timer:3", "L: loop; setclock C; keep / until t | T: advance C 5 | U: add t L"},
    {"clock.advance_meets_post", "S-CLK-5", "C=clock t=timer:3 p=post", "L: loop; setclock C; add t / until t | T: advance C 5 | U: post p L; wake L"},
    {"clock.advance_meets_stop", "S-CLK-7", "C=clock t=timer:3", "L: loop; setclock C; add t / until t | T: advance C 5 | U: stop L"},
    {"clock.advance_meets_end_of_thread", "S-CLK-7 S-CLK-2", "C=clock A=source", "M: loop; setclock C; add A / once; end | T: advance C 5; advance C 5"},
    {"clock.advance_meets_poll", "S-CLK-5", "C=clock t=timer:3", "L: loop; setclock C; add t / once; until t | T: advance C 5"},
    {"clock.callback_advances", "S-CLK-6", "C=clock t=timer:1{advance C 5} u=timer:3", "L: loop; setclock C; add t; add u / until u | T: advance C 1"},
    {"clock.to_next_meets_sleep", "S-CLK-8", "C=clock t=timer:3", "L: loop; setclock C; add t / until t | T: tonext C; advance C 3"},
    {"clock.automatic_meets_sleep", "S-CLK-9", "C=clock t=timer:3", "L: loop; setclock C; add t / until t | T: automatic C"},
    {"clock.automatic_two_loops", "S-CLK-9", "C=clock t=timer:3 u=timer:5",
     "L: loop; setclock C; automatic C; add t / until t | M: loop; setclock C; add u / until u"},
    {"clock.automatic_loops_meet_stop", "S-CLK-9", "C=clock t=timer:3 u=timer:500",
     "L: loop; setclock C; automatic C; add t / until t | M: loop; setclock C; add u / run | T: stop M"},
    {"clock.automatic_meets_descriptor", "S-CLK-9", "C=clock t=timer:3 D=port", "L: loop; setclock C; automatic C; add t; add D / until t | U: signal D"},
    {"clock.fork_meets_advance", "S-CLK-12", "C=clock t=timer:3", "F: loop; setclock C; add t / fork{advance C 5}; until t | T: advance C 5"},
    {"clock.automatic_meets_end_of_thread", "S-CLK-9 S-CLK-2", "C=clock t=timer:3 A=source",
     "L: loop; setclock C; automatic C; add t / until t | M: loop; setclock C; add A / once; end"},
    {NULL, NULL, NULL, NULL},
};

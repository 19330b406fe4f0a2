/* Calls that meet on a timer, an observer, a post, a port, a loop or a mode. */
#include "../program.h"

const struct scenario other_scenarios[] = {
    {"inbox.message_meets_add", "S-PORT-5 S-SRC-27", "I=inbox", "L: keep / until I | T: add I L | U: signal I"},
    {"inbox.trigger_meets_add", "S-KEV-1 S-SRC-27", "I=user", "L: keep; signal I / until I | T: add I L | U: signal I"},
    {"inbox.kernel_signal_meets_run", "S-KEV-2 S-KEV-15", "I=user:28", "L: keep; add I / until I | T: signal I"},
    {"inbox.kernel_signal_meets_end", "S-KEV-3 S-KEV-15", "I=user:28 J=user:28", "L: add J / release I; once | T: signal J"},
    {"inbox.kernel_signal_meets_make_and_end", "S-KEV-3 S-KEV-15", "I=user:28", "L: add I / invalidate I | T: signal I | U: signal I"},
    {"inbox.message_meets_run", "S-PORT-5", "I=inbox", "L: keep; add I / until I | T: signal I"},
    {"port.bytes_meet_run", "S-SRC-40", "P=port", "L: add P / until P | T: signal P"},
    {"port.bytes_meet_add", "S-SRC-40", "P=port", "L: keep / until P | T: add P L | U: signal P"},
    {"port.wake_meets_run", "S-SRC-40", "P=port", "L: add P / run 100 | T: wake L; stop L"},
    {"port.descriptor_meets_run", "S-SRC-40", "P=descriptor", "L: keep; add P / until P | T: signal P"},
    {"modes.common_mode_meets_common_post", "S-MODE-12 S-BLK-3", "p=post",
     "L: keep m; post p common; once m / wake L; until p m | T: common L m; wake L"},
    {"post.post_meets_run", "S-BLK-1", "p=post", "L: keep / until p | T: post p L; wake L"},
    {"post.post_meets_post", "S-BLK-1", "p=post", "L: keep / until p 2 | T: post p L; wake L | U: post p L; wake L"},
    {"post.post_meets_chunk_used_again", "S-BLK-1", "p=post", "L: keep; fill p 130; once; fill p 130; once / until p 261 | T: post p L; wake L"},
    {"post.post_meets_end_of_thread", "S-BLK-18", "p=post", "L: loop / end | T: post p L; wake L; forgive p"},
    {"loop.wake_meets_wait", "S-WAKE-1", "", "L: keep / run 100 | T: wake L; stop L"},
    {"loop.stop_meets_run", "S-STOP-1", "", "L: keep / run 100 | T: stop L | U: waiting L; wake L"},
    {"timer.date_meets_run", "S-TMR-40", "t=timer:50", "L: add t / until t | T: date t 5"},
    {"timer.add_meets_run", "S-TMR-11", "t=timer:5", "L: keep / until t | T: add t L"},
    {"timer.remove_meets_fire", "S-TMR-12", "t=timer:0{wake L}", "L: keep; add t / once | T: remove t L; release t"},
    {"timer.invalidate_meets_fire", "S-TMR-12", "t=timer:0{wake L}", "L: keep; add t / once | T: invalidate t; release t"},
    {"observer.remove_meets_callback", "S-OBS-10", "o=observer:4+{wake L}", "L: keep; add o / once | T: remove o L; release o"},
    {NULL, NULL, NULL, NULL},
};

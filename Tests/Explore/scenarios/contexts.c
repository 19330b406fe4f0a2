/* SPDX-License-Identifier: MIT */
/* The release of a context against what uses it: a copyDescription on another thread, a callback, a fork. */
#include "../program.h"

const struct scenario context_scenarios[] = {
    {"context.timer_described_meets_invalidate", "S-THR-8", "t=timer:50?", "T: describe t | U: invalidate t"},
    {"context.observer_described_meets_invalidate", "S-THR-8", "o=observer:4+?", "T: describe o | U: invalidate o"},
    {"context.inbox_described_meets_invalidate", "S-THR-8", "I=inbox?", "T: describe I | U: invalidate I"},
    {"context.descriptor_described_meets_invalidate", "S-THR-8", "A=descriptor?", "T: describe A | U: invalidate A"},
    {"context.socket_described_meets_invalidate", "S-THR-8", "A=socket?", "T: describe A | U: invalidate A"},
    {"context.message_port_described_meets_invalidate", "S-THR-8 S-MSG-41", "P=message?", "T: describe P | U: invalidate P"},
    {"context.described_twice_meets_invalidate", "S-THR-8", "t=timer:50?", "T: describe t | U: describe t | V: invalidate t"},
    {"context.observer_in_loop_described_meets_invalidate", "S-THR-8", "o=observer:4+?", "L: keep; add o / once | T: describe o | U: invalidate o"},
    {"context.timer_described_meets_fire_and_invalidate", "S-THR-8 S-TMR-42", "t=timer:0+?", "L: keep; add t / once | T: describe t | U: invalidate t"},
    {"context.one_shot_described_meets_fire", "S-THR-8 S-TMR-28", "t=timer:0?", "L: keep; add t / once | T: describe t | U: describe t"},
    {"context.inbox_described_meets_message_and_invalidate", "S-THR-8 S-PORT-8", "I=inbox?",
     "L: keep; add I; signal I / once | T: describe I | U: invalidate I"},
    {"context.descriptor_described_meets_bytes_and_invalidate", "S-THR-8 S-FD-11", "A=descriptor?",
     "L: keep; add A; signal A / once | T: describe A | U: invalidate A"},
    {"context.message_port_described_meets_message_and_invalidate", "S-THR-8 S-MSG-41", "P=message?",
     "L: keep; add P; signal P / run 5 | T: describe P | U: invalidate P"},
    {"context.observer_moves_in_callback_meets_invalidate", "S-THR-8", "o=observer:4+{remove o; step}",
     "L: keep; add o / once | M: loop / invalidate o | T: add o M"},
    /* A description that calls nothing keeps nothing. */
    {"context.timer_without_description", "S-THR-8", "t=timer:50", "T: describe t | U: endatonce t"},
    {"context.observer_without_description", "S-THR-8", "o=observer:4+", "T: describe o | U: endatonce o"},
    {"context.inbox_without_description", "S-THR-8", "I=inbox", "T: describe I | U: endatonce I"},
    {"context.descriptor_without_description", "S-THR-8", "A=descriptor", "T: describe A | U: endatonce A"},
    {"context.socket_without_description", "S-THR-8", "A=socket", "T: describe A | U: endatonce A"},
    {"context.message_port_without_description", "S-THR-8 S-MSG-41", "P=message", "T: describe P | U: endatonce P"},
    /* The child releases what was left to threads that it does not have, and nothing twice. */
    {"context.fork_meets_description", "S-FORK-5", "t=timer:50?", "F: keep / fork{once; invalidate t; once} | T: describe t | U: invalidate t"},
    {"context.fork_meets_message_port", "S-FORK-5 S-MSG-53", "P=message",
     "F: keep / fork{once; invalidate P; once} | L: loop; add P; signal P / run 5 | T: invalidate P"},
    {"context.fork_meets_description_of_message_port", "S-FORK-5 S-MSG-53", "P=message?",
     "F: keep / fork{once; invalidate P; once} | T: describe P | U: invalidate P"},
    {NULL, NULL, NULL, NULL},
};

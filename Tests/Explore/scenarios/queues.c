/* SPDX-License-Identifier: MIT */
#include "../program.h"

/* Message ports that a dispatch queue serves, and descriptors that go with messages. */
const struct scenario queue_scenarios[] = {
    {"queue.message_meets_queue", "S-MSG-12", "P=message:1", "Q: serve P | T: queue P | U: signal P"},
    {"queue.two_queues_meet_message", "S-MSG-12", "P=message:1", "Q: queue P / serve P | T: queue P | U: queue P; signal P"},
    {"queue.detached_and_attached", "S-MSG-12", "P=message:1", "Q: queue P / serve P | T: queue P 0; queue P | U: signal P"},
    {"queue.end_meets_message", "S-MSG-12 S-MSG-34", "P=message:1", "Q: queue P / serve P | T: signal P | U: invalidate P"},
    {"queue.end_meets_new_queue", "S-MSG-12 S-MSG-34", "P=message:1", "T: queue P; queue P | U: invalidate P"},
    {"queue.end_meets_end_of_queue", "S-MSG-12 S-MSG-34", "P=message:1", "Q: queue P; signal P / queue P | T: queue P 0; invalidate P | U: invalidate P"},
    {"queue.callback_ends_port", "S-MSG-12 S-MSG-34", "P=message:1{invalidate P}", "Q: queue P; signal P / serve P | T: signal P | U: queue P"},
    {"queue.callback_takes_queue_away", "S-MSG-12", "P=message:1{queue P 0}", "Q: queue P; signal P / serve P | T: signal P; queue P"},
    {"queue.callback_replaces_queue", "S-MSG-12", "P=message:1{queue P}", "Q: queue P; signal P / serve P | T: queue P | U: signal P"},
    {"queue.last_release_meets_message", "S-MSG-12 S-MSG-38", "P=message:1", "Q: queue P; signal P / serve P | T: release P"},
    {"queue.source_meets_queue", "S-MSG-12", "P=message:1", "T: othersource P; queue P | U: queue P; othersource P"},
    {"queue.request_meets_queue", "S-MSG-12 S-MSG-29", "P=message:1", "Q: queue P / serve P | L: loop / ask P | T: queue P"},
    {"queue.request_meets_end", "S-MSG-12 S-MSG-29", "P=message:1", "Q: queue P / serve P | L: loop / ask P | T: invalidate P"},
    {"queue.rename_meets_message", "S-MSG-9 S-MSG-12", "P=message:1", "Q: queue P; signal P / queue P | T: rename P; portname P | U: portname P; signal P"},
    {"queue.descriptors", "S-MSG-12 S-MSG-13", "P=message:1{takedescriptors P}", "Q: queue P / serve P | T: askwith P | U: takedescriptors P"},
    {"queue.fork_meets_message", "S-MSG-12 S-FORK-2", "P=message:1", "F: queue P / fork{queue P; signal P; invalidate P} | Q: serve P | T: signal P"},
    {"queue.fork_meets_queue", "S-MSG-12 S-FORK-2", "P=message:1", "F: loop / fork{queue P 0; othersource P; queue P} | T: queue P; queue P 0"},
    /* Descriptors that go with a message are the receiver's or are closed. */
    {"message.descriptors_meet_end", "S-MSG-13 S-MSG-34", "P=message{takedescriptors P}", "L: keep; add P / run 5 | T: askwith P; askwith P | U: invalidate P"},
    {"message.descriptors_with_reply_meet_end", "S-MSG-13 S-MSG-29", "P=message{takedescriptors P}", "L: keep; add P / run 5 | T: loop / askwith P 1 | U: endremote P"},
    {"message.descriptors_taken_elsewhere", "S-MSG-13", "P=message", "L: keep; add P / run 5 | T: askwith P; takedescriptors P | U: takedescriptors P; takedescriptors P"},
    {"message.descriptors_not_taken", "S-MSG-13", "P=message", "L: keep; add P / run 5 | T: askwith P; askwith P | U: endsource P"},
    {"message.descriptors_taken_from_ended_port", "S-MSG-13 S-MSG-34", "P=message{invalidate P; takedescriptors P}", "L: keep; add P / run 5 | T: askwith P | U: askwith P; invalidate P"},
    {"message.descriptors_in_two_loops", "S-MSG-12 S-MSG-13", "P=message{takedescriptors P}", "L: keep; add P / run 3 | M: keep; add P / run 3 | T: askwith P; askwith P"},
    {"message.descriptors_meet_end_of_thread", "S-MSG-13 S-LOOP-9", "P=message", "L: loop; add P / once; end | T: askwith P; askwith P"},
    {"message.descriptors_beside_request", "S-MSG-13 S-MSG-32", "P=message{takedescriptors P}", "L: keep; add P / run 5 | T: askwith P; askwith P | U: loop / ask P"},
    {"message.descriptors_in_nested_run", "S-MSG-13", "P=message{once; takedescriptors P}", "L: keep; add P / run 5 | T: askwith P | U: askwith P"},
    {"message.name_meets_rename", "S-MSG-9", "P=message", "L: keep; add P / once | T: portname P; portname P | U: rename P"},
    {"message.source_meets_end", "S-MSG-12 S-MSG-34", "P=message", "L: keep; add P / once | T: othersource P; othersource P | U: endsource P; invalidate P"},
    {"fork.meets_message_with_descriptors", "S-FORK-2 S-MSG-13", "P=message{takedescriptors P}", "L: keep; add P / fork{askwith P; takedescriptors P; once}; run 5 | T: askwith P; askwith P"},
    {NULL, NULL, NULL, NULL},
};

/* SPDX-License-Identifier: MIT */
/* Scenarios of section 14: libdispatch's main queue. Each runs on the main thread of its process, which its name asks for. */
#include "scenario.h"

#include <poll.h>

/* What is needed of libdispatch; its headers are where the toolchain keeps them. */
extern struct dispatch_queue _dispatch_main_q;
extern void dispatch_async(struct dispatch_queue *queue, Act block);
extern int _dispatch_get_main_queue_handle_4CF(void);

static void queue(const char *name, Act act) {
    dispatch_async(&_dispatch_main_q, ^{
        if (name) say("%s", name);
        if (act) act();
    });
}

/* Whether something waits in the queue. */
static void say_queued(void) {
    struct pollfd request = {_dispatch_get_main_queue_handle_4CF(), POLLIN, 0};
    yes("queued", poll(&request, 1, 0) > 0);
}

/* An observer of one activity that does the act at the nth time. */
static void at_nth(RLActivity activity, int nth, Act act) {
    __block int count = 0;
    act = (Act)_Block_copy((const void *)act);
    RLAddObserver(loop, observer(NULL, activity, 0, ^{
                      if (++count == nth) act();
                  }), D);
}

SCENARIO(main_queue_is_content, "S-GCD-3 S-RUN-4",
         "The default mode of the main loop with no item waits; a common mode that was never made is Finished.") {
    RLAttachMainQueue();
    observe("", D);
    run(D, 0.01, false);
    run(D, 0, false);
    RLAddCommonMode(loop, "named");
    run("named", 0.01, false);
    run("missing", 0.01, false);
}

SCENARIO(main_queue_drains_whole, "S-GCD-1 S-GCD-4 S-GCD-5",
         "A poll runs all that is queued and counts as a handled source; what was queued meanwhile stays.") {
    RLAttachMainQueue();
    observe("", D);
    queue("a", ^{ queue("later", NULL); });
    queue("b", NULL);
    run(D, 0, false);
    run(D, 0, true);
    run(D, 0, true);
}

SCENARIO(main_queue_first_pass, "S-GCD-6", "In the first pass of a run and in the pass after a drain the notifications are normal.") {
    RLAttachMainQueue();
    observe("", D);
    queue("a", ^{ queue("b", ^{ queue("c", NULL); }); });
    run(D, 100, true);
    queue("d", ^{ RLStop(loop); });
    run(D, 100, false);
}

SCENARIO(main_queue_peeked, "S-GCD-6 S-GCD-7",
         "A queue that is ready in a later pass is served without BeforeWaiting and AfterWaiting.") {
    RLAttachMainQueue();
    observe("", D);
    at_nth(kRLBeforeSources, 2, ^{ queue("peeked", ^{ queue("waited-for", ^{ RLStop(loop); }); }); });
    when_waiting(^{ RLWakeUp(loop); });
    run(D, 100, false);
}

SCENARIO(main_queue_peeked_in_poll, "S-GCD-6 S-GCD-7", "A pass that performed a source looks at the queue as well.") {
    RLAttachMainQueue();
    observe("", D);
    RLSourceRef s = source("s", ^{ queue("q", ^{ RLStop(loop); }); });
    RLAddSource(loop, s, D);
    when_waiting(^{ RLSourceSignal(s); RLWakeUp(loop); });
    run(D, 100, false);
}

SCENARIO(main_queue_and_source, "S-GCD-5 S-PASS-8", "A source and the queue are served in one pass of a run with h.") {
    RLAttachMainQueue();
    observe("", D);
    RLSourceRef s = source("s", NULL);
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    queue("q", NULL);
    run(D, 100, true);
    say_queued();
}

SCENARIO(main_queue_other_mode, "S-GCD-2 S-GCD-1",
         "A mode outside the common set leaves the queue alone; once it is common it serves it.") {
    RLAttachMainQueue();
    keep("other");
    queue("q", ^{ RLStop(loop); });
    run("other", 0.02, false);
    say_queued();
    RLAddCommonMode(loop, "other");
    run("other", 100, false);
    say_queued();
}

SCENARIO(main_queue_nested, "S-GCD-8",
         "Under a block of the queue a nested run neither serves the queue nor waits for it; the outer run does.") {
    RLAttachMainQueue();
    observe("", D);
    queue("outer", ^{
        queue("inner", ^{ RLStop(loop); });
        run(D, 100, false);
        keep(D);
        run(D, 0.01, false);
        say_queued();
    });
    run(D, 100, false);
}

SCENARIO(main_queue_nested_in_source, "S-GCD-8 S-GCD-1", "A run nested in a source's perform serves the queue.") {
    RLAttachMainQueue();
    observe("", D);
    RLSourceRef s = source("s", ^{
        queue("q", ^{ RLStop(loop); });
        run(D, 100, false);
    });
    RLAddSource(loop, s, D);
    RLSourceSignal(s);
    run(D, 0, false);
}

SCENARIO(main_queue_other_thread, "S-GCD-9", "Another thread's loop has no part in the queue.") {
    RLAttachMainQueue();
    queue("q", ^{ RLStop(loop); });
    elsewhere(^{
        say("result-%d", RLRunInMode(D, 0.01, false));
        RLSourceRef s = source(NULL, NULL);
        RLAddSource(RLGetCurrent(), s, D);
        say("result-%d", RLRunInMode(D, 0.01, false));
        RLSourceInvalidate(s);
    });
    say_queued();
    run(D, 100, false);
}

SCENARIO(main_queue_wakes, "S-GCD-1", "What another thread queues ends the wait of the main loop.") {
    RLAttachMainQueue();
    observe("", D);
    when_waiting(^{ queue("q", ^{ RLStop(loop); }); });
    run(D, 100, false);
}

SCENARIO(main_queue_and_block, "S-GCD-4 S-BLK-4", "A function queued by a block of the queue is performed at the end of that pass.") {
    RLAttachMainQueue();
    observe("", D);
    queue("q", ^{ perform("function", D, ^{ RLStop(loop); }); });
    run(D, 100, false);
}

SCENARIO(main_queue_run_forever, "S-GCD-3 S-RUN-8", "RLRun of the main loop goes on over drains until it is stopped.") {
    RLAttachMainQueue();
    queue("a", ^{ queue("b", ^{ queue("c", ^{ RLStop(loop); }); }); });
    RLRun();
    say("returned");
}

SCENARIO(main_queue_wake_up_in_block, "S-GCD-7 S-WAKE-4",
         "A wake-up in a block that was served without a wait makes no further pass.") {
    RLAttachMainQueue();
    observe("", D);
    at_nth(kRLBeforeSources, 2, ^{ queue("peeked", ^{ RLWakeUp(loop); }); });
    when_waiting(^{ RLWakeUp(loop); });
    at_nth(kRLBeforeWaiting, 2, ^{ when_waiting(^{ RLStop(loop); }); });
    run(D, 100, false);
}

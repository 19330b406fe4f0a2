/* SPDX-License-Identifier: MIT */
/*
 * A thread that works in portions and looks after each whether it is to end, as in Apple's guide:
 * its loop runs for no longer than it takes to hear of it.
 *
 * The main thread asks it how far it is, waits for the answer, and then ends it in good order.
 */
#include <runloop/runloop.h>

#include <stdio.h>

struct work {
    long portions;
};

static void keep(void *info) { (void)info; }

static void thread_main(RLThreadRef thread, void *info) {
    struct work *work = info;
    /* What keeps the mode from being empty: the source of the thread's own input. */
    RLSourceContext context = {.info = work, .perform = keep};
    RLSourceRef input = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), input, kRLDefaultMode);

    bool more_work = true;
    while (more_work && !RLThreadIsCancelled(thread)) {
        /* One portion of the work, which would go on for very long. */
        more_work = ++work->portions > 0;
        /* One pass that does not wait: whoever wants something of this thread is served here. */
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    printf("thread: asked to end\n");
    RLSourceInvalidate(input);
    RLRelease(input);
}

struct question {
    const struct work *work;
    long answer;
};

static void answer(void *info) {
    struct question *question = info;
    question->answer = question->work->portions;
}

static void last_words(void *info) {
    (void)info;
    printf("thread: queued before the end, and performed\n");
}

int main(void) {
    struct work work = {0};
    RLThreadRef thread = RLThreadCreate(thread_main, &work, NULL);
    RLThreadSetName(thread, "portions");
    if (!RLThreadStart(thread)) return 1;

    struct question question = {&work, 0};
    if (!RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, answer, &question, NULL, true)) return 1;
    printf("main: %s\n", question.answer > 0 ? "the thread is at work" : "no portion was done");

    RLPerformOnLoop(RLThreadGetRunLoop(thread), kRLDefaultMode, last_words, NULL, NULL, false);
    RLThreadEnd(thread);
    printf("main: the thread has ended\n");
    RLRelease(thread);
    return 0;
}

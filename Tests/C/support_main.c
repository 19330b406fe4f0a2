/* SPDX-License-Identifier: MIT */
/* The list of cases and main() for support.h. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TestCase *first_case;
static TestCase **last_case = &first_case;

/* Called by load-time constructors, before main and on one thread. */
void test_register(TestCase *test_case) {
    *last_case = test_case;
    last_case = &test_case->next;
}

static double spin_limit;
static Gate body_done = GATE_INITIALIZER;

/*
 * The thread is parked and not ended after the body: its end would call the cancel callbacks of the
 * probes on the body's stack, which is gone by then. The process ends soon after.
 */
static void call_body(void *argument) {
    void (*body)(void) = *(void (**)(void))argument;
    Gate never = GATE_INITIALIZER;
    if (spin_limit > 0) RLSetSpinLimit(RLGetCurrent(), spin_limit);
    body();
    gate_open(&body_done);
    gate_wait(&never);
}

void test_on_fresh_thread(void (*body)(void)) {
    thread_start(call_body, &body);
    gate_wait(&body_done);
}

static bool is_wanted(const TestCase *test_case, int count_of_names, char **names) {
    if (count_of_names == 0) return true;
    for (int i = 0; i < count_of_names; i++)
        if (strcmp(names[i], test_case->name) == 0) return true;
    return false;
}

/* Says under each failure what the case was to prove. */
static void explain_failures(SRunner *runner) {
    int failures = srunner_ntests_failed(runner);
    TestResult **results = srunner_failures(runner);
    for (int i = 0; i < failures; i++) {
        for (const TestCase *c = first_case; c; c = c->next)
            if (strcmp(c->name, tr_tcname(results[i])) == 0)
                printf("not proved: %s (%s): %s\n", c->name, c->rules, c->sentence);
    }
    free(results);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (const TestCase *c = first_case; c; c = c->next)
            printf("%s\t%s\t%s\n", c->name, c->rules, c->sentence);
        return 0;
    }
    Suite *suite = suite_create(argv[0]);
    if (argc > 2 && strcmp(argv[1], "--spin") == 0) {
        spin_limit = atof(argv[2]);
        argc -= 2;
        argv += 2;
    }
    int wanted = 0;
    for (const TestCase *c = first_case; c; c = c->next) {
        if (!is_wanted(c, argc - 1, argv + 1)) continue;
        TCase *test_case = tcase_create(c->name);
        tcase_set_timeout(test_case, 60);
        tcase_add_test(test_case, c->test);
        suite_add_tcase(suite, test_case);
        wanted++;
    }
    if (wanted == 0) {
        fprintf(stderr, "no such case\n");
        return 2;
    }
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    explain_failures(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

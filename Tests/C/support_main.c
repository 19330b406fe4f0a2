/* SPDX-License-Identifier: MIT */
/* The list of cases and main() for support.h. */
#define _GNU_SOURCE
#include "support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static TestCase *first_case;
static TestCase **last_case = &first_case;

/* Called by load-time constructors, before main and on one thread. */
void test_register(TestCase *test_case) {
    *last_case = test_case;
    last_case = &test_case->next;
}

static double spin_limit;
static Gate body_begins = GATE_INITIALIZER, body_done = GATE_INITIALIZER;

/*
 * The thread is parked and not ended after the body: its end would call the cancel callbacks of the
 * probes on the body's stack, which is gone by then. The process ends soon after.
 */
static void call_body(void *argument) {
    void (*body)(void) = *(void (**)(void))argument;
    Gate never = GATE_INITIALIZER;
    gate_wait(&body_begins);
    if (spin_limit > 0) RLSetSpinLimit(RLGetCurrent(), spin_limit);
    body();
    gate_open(&body_done);
    gate_wait(&never);
}

void test_on_fresh_thread(void (*body)(void)) {
    thread_start(call_body, &body);
    /* The starting thread writes to Check's file, for which the body may leave no room. */
    gate_open(&body_begins);
    gate_wait(&body_done);
}

/* Set before the first case: this program runs its case without Check's fork. */
static bool is_alone;

#undef _ck_assert_failed
void case_failed(const char *file, int line, const char *assertion, const char *format, ...) {
    char text[4096] = "";
    if (format) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
    }
    if (!is_alone) _ck_assert_failed(file, line, assertion, format ? "%s" : NULL, text);
    fprintf(stderr, "%s:%d: %s\n", file, line, format ? text : assertion);
    _exit(1);
}

/* Held by every fork. Recursive, because the handlers of other libraries around a fork may assert. */
static pthread_mutex_t mark_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void lock_marks(void) { pthread_mutex_lock(&mark_lock); }
static void unlock_marks(void) { pthread_mutex_unlock(&mark_lock); }
static void renew_marks(void) { mark_lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; }

static void leave_mark(void *unused) {
    (void)unused;
    unlock_marks();
}
#undef _mark_point
void case_passed(const char *file, int line) {
    lock_marks();
    pthread_cleanup_push(leave_mark, NULL);
    _mark_point(file, line);
    pthread_cleanup_pop(1);
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

static unsigned seconds_for_a_case(void) {
    const char *multiplier = getenv("CK_TIMEOUT_MULTIPLIER");
    double factor = multiplier ? atof(multiplier) : 1;
    return (unsigned)(60 * (factor > 0 ? factor : 1));
}

void become_program(const char *argument) {
    enum { WORDS = 16 };
    char *words[WORDS], path[4096], *emulator = getenv("RL_EMULATOR"), *rest = NULL;
    int count = 0;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (emulator) emulator = strdup(emulator);
    for (char *word = emulator ? strtok_r(emulator, " ", &rest) : NULL; word && count < WORDS - 3; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count++] = path;
    words[count++] = (char *)argument;
    words[count] = NULL;
    execv(words[0], words);
    free(emulator);
}

bool is_left_out_by_emulator(const char *why) {
    if (!getenv("RL_EMULATOR")) return false;
    printf("left out: %s\n", why);
    return true;
}

bool is_left_out_by_thread_sanitizer(const char *why) {
#if defined(WITH_THREAD_SANITIZER)
    printf("left out: %s\n", why);
    return true;
#else
    (void)why;
    return false;
#endif
}

/*
 * Runs each case in a program of its own, started anew: a process that never forked and is nobody's fork, which the library tells
 * apart from others by a number that is 0 there.
 */
static int run_alone(int count_of_names, char **names) {
    int failures = 0, wanted = 0;
    setenv("CK_FORK", "no", 1);
    for (const TestCase *c = first_case; c; c = c->next) {
        if (!is_wanted(c, count_of_names, names)) continue;
        wanted++;
        int status;
        pid_t child = fork();
        if (child == 0) {
            become_program(c->name);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) return 2;
        if (status == 0) continue;
        failures++;
        printf("not proved alone: %s (%s): %s (status %#x)\n", c->name, c->rules, c->sentence, status);
    }
    printf("%d of %d cases hold alone\n", wanted - failures, wanted);
    return wanted == 0 ? 2 : failures != 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (const TestCase *c = first_case; c; c = c->next)
            printf("%s\t%s\t%s\n", c->name, c->rules, c->sentence);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "--alone") == 0) return run_alone(argc - 2, argv + 2);
    pthread_atfork(lock_marks, unlock_marks, renew_marks);
    const char *forks = getenv("CK_FORK");
    is_alone = forks && strcmp(forks, "no") == 0;
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
    srunner_set_fork_status(runner, is_alone ? CK_NOFORK : CK_FORK);
    /* Check itself limits only what it forks. */
    if (is_alone) alarm(seconds_for_a_case());
    srunner_run_all(runner, is_alone ? CK_SILENT : CK_ENV);
    int failures = srunner_ntests_failed(runner);
    if (is_alone && failures) srunner_print(runner, CK_NORMAL);
    if (!is_alone) explain_failures(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

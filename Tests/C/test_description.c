/* SPDX-License-Identifier: MIT */
/* Descriptions, and the lines of the log. */
#define _GNU_SOURCE
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int described;
static char *describe(const void *info) {
    described++;
    ck_assert_ptr_nonnull(info);
    return strdup((const char *)info);
}

static bool is_printable(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7F) return false;
    return true;
}

static void expect_described(RLTypeRef object, const char *part) {
    char *text = RLCopyDescription(object);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text);
    free(text);
}

RL_TEST(descriptions_are_made_when_asked_for, "S-ARG-8",
        "copyDescription is called by RLCopyDescription, whose answer has its text, and by no "
        "other") {
    RLRunLoopRef loop = RLGetCurrent();
    RLSourceContext source_context = {.info = "the source's info", .copyDescription = describe};
    RLTimerContext timer_context = {.info = "the timer's info", .copyDescription = describe};
    RLObserverContext observer_context = {.info = "the observer's info",
                                          .copyDescription = describe};
    RLSourceRef source = RLSourceCreate(0, &source_context);
    RLTimerRef timer = RLTimerCreate(0, 1000, 0, 0, NULL, &timer_context);
    RLObserverRef observer =
        RLObserverCreate(kRLAllActivities, true, 0, NULL, &observer_context);
    RLAddSource(loop, source, kRLDefaultMode);
    RLAddTimer(loop, timer, kRLDefaultMode);
    RLAddObserver(loop, observer, kRLDefaultMode);
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    ck_assert_int_eq(described, 0);
    expect_described(source, "the source's info");
    expect_described(timer, "the timer's info");
    expect_described(observer, "the observer's info");
    ck_assert_int_eq(described, 3);
    RLSourceInvalidate(source);
    RLTimerInvalidate(timer);
    RLObserverInvalidate(observer);
    ck_assert_int_eq(described, 3);
    RLRelease(source);
    RLRelease(timer);
    RLRelease(observer);
    ck_assert_int_eq(described, 3);
}

RL_TEST(an_invalid_item_s_info_is_not_described, "S-ARG-8 S-TMR-43 S-OBS-16",
        "copyDescription is not called with the NULL info of an invalidated timer or observer") {
    RLTimerContext timer_context = {.info = "info", .copyDescription = describe};
    RLObserverContext observer_context = {.info = "info", .copyDescription = describe};
    RLTimerRef timer = RLTimerCreate(0, 0, 0, 0, NULL, &timer_context);
    RLObserverRef observer = RLObserverCreate(0, true, 0, NULL, &observer_context);
    RLTimerInvalidate(timer);
    RLObserverInvalidate(observer);
    free(RLCopyDescription(timer));
    free(RLCopyDescription(observer));
    ck_assert_int_eq(described, 0);
    RLRelease(timer);
    RLRelease(observer);
}

RL_TEST(an_invalid_source_s_info_is_described, "S-ARG-8 S-SRC-11",
        "The info of an invalid source lives and may still be described") {
    RLSourceContext context = {.info = "living info", .copyDescription = describe};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLSourceInvalidate(source);
    expect_described(source, "living info");
    RLRelease(source);
}

static char *describe_as_null(const void *info) {
    (void)info;
    described++;
    return NULL;
}

/* As libc writes numbers after setlocale(3) in a country with a decimal comma, which need not be installed here; Persian's sign has two bytes. */
static const char *decimal_sign;
static int print_in_locale(char *text, size_t size, const char *format, va_list arguments) {
    char plain[512];
    int length = vsnprintf(plain, sizeof plain, format, arguments);
    char *point = decimal_sign && strcmp(format, "%.6f") == 0 ? strchr(plain, '.') : NULL;
    if (!point) {
        if (size > 0) memcpy(text, plain, (size_t)length < size ? (size_t)length + 1 : size);
        return length;
    }
    const char *rest = point + 1;
    *point = '\0';
    strcpy(text, plain);
    strcat(text, decimal_sign);
    strcat(text, rest);
    return (int)strlen(text);
}
/* The library calls these, because a program's own come first. */
#undef snprintf
int snprintf(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = decimal_sign ? print_in_locale(text, size, format, arguments) : vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

RL_TEST(numbers_have_a_decimal_point, "S-ARG-12", "Descriptions write numbers with a point, whatever decimal sign the program's locale has") {
    static const char *const signs[] = {",", "\xd9\xab", NULL};
    for (const char *const *sign = signs; *sign; sign++) {
        decimal_sign = *sign;
        RLTimerRef timer = RLTimerCreate(12.5, 0.25, 0, 0, NULL, NULL), never = RLTimerCreate(1e300, 1e300, 0, 0, NULL, NULL);
        expect_described(timer, "next fire date = 12.500000 (in -");
        expect_described(timer, "interval = 0.250000, tolerance = 0.000000, order = 0");
        expect_described(never, "540160.000000, tolerance = 0.000000, order = 0");
        decimal_sign = NULL;
        RLRelease(timer);
        RLRelease(never);
    }
}

RL_TEST(a_null_description_is_allowed, "S-ARG-8",
        "A copyDescription that answers NULL is survived") {
    RLSourceContext context = {.info = "info", .copyDescription = describe_as_null};
    RLSourceRef source = RLSourceCreate(0, &context);
    char *text = RLCopyDescription(source);
    ck_assert_ptr_nonnull(text);
    free(text);
    ck_assert_int_eq(described, 1);
    RLRelease(source);
}

RL_TEST(every_type_has_a_description, "S-ARG-8 S-REF-1",
        "Every object has a description, which the caller frees, also while the loop runs") {
    static Probe source = {0}, port = {0}, timer = {0}, observer = {0};
    RLRunLoopRef loop = RLGetCurrent();
    RLTypeRef objects[] = {loop,
                           add_source(&source, kRLDefaultMode),
                           add_port(&port, -1, kRLDefaultMode),
                           add_timer(&timer, FAR_FUTURE, 1, kRLCommonModes),
                           add_observer(&observer, kRLEntry, "odd \x01\xff name"),
                           RLDataCreate("\x01\xff", 2)};
    for (int i = 0; i < 6; i++) {
        char *text = RLCopyDescription(objects[i]);
        ck_assert_ptr_nonnull(text);
        ck_assert_uint_gt(strlen(text), 0);
        free(text);
    }
    RLRelease(objects[5]);
}

RL_TEST(odd_mode_names_are_printable_in_descriptions, "S-ARG-9",
        "Control characters of a mode's name do not get into the description of its loop") {
    RLRunLoopRef loop = RLGetCurrent();
    keep_alive(loop, "bell\a escape\x1b[2J newline\n byte\xff");
    char *text = RLCopyDescription(loop);
    ck_assert_ptr_null(strchr(text, '\a'));
    ck_assert_ptr_null(strchr(text, '\x1b'));
    ck_assert_ptr_null(strchr(text, '\xff'));
    free(text);
}

/* The log */

static void run_pseudo_mode(void *argument) {
    (void)argument;
    expect_run(kRLCommonModes, 0, false, Finished);
}

RL_TEST(lines_go_to_the_handler, "S-ARG-9 S-MODE-19",
        "A log line goes to the handler with its info, once, and not to standard error") {
    log_capture();
    ChildResult result = run_child(run_pseudo_mode, NULL);
    ck_assert_int_eq(result.status, 0);
    ck_assert_str_eq(result.output, "");
    run_pseudo_mode(NULL);
    run_pseudo_mode(NULL);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_uint_gt(strlen(log_text()), 1);
}

static void *handler_info;
static char handler_line[1024];
static void keep_line(const char *line, void *info) {
    handler_info = info;
    strncpy(handler_line, line, sizeof handler_line - 1);
}

RL_TEST(a_line_is_one_printable_line, "S-ARG-9",
        "The handler gets its info and a printable text without a newline") {
    RLSetLogHandler(keep_line, &handler_info);
    run_pseudo_mode(NULL);
    ck_assert_ptr_eq(handler_info, &handler_info);
    ck_assert(is_printable(handler_line));
    ck_assert_uint_gt(strlen(handler_line), 0);
}

static void run_without_handler(void *argument) {
    log_capture();
    RLSetLogHandler(NULL, argument);
    run_pseudo_mode(NULL);
    ck_assert_int_eq(log_count(), 0);
}

RL_TEST(without_a_handler_lines_go_to_standard_error, "S-ARG-9",
        "At first, and again after NULL, lines go to standard error") {
    ChildResult result = run_child(run_pseudo_mode, NULL);
    ck_assert_int_eq(result.status, 0);
    ck_assert_uint_gt(strlen(result.output), 1);
    ck_assert_int_eq(result.output[strlen(result.output) - 1], '\n');
    result = run_child(run_without_handler, NULL);
    ck_assert_int_eq(result.status, 0);
    ck_assert_uint_gt(strlen(result.output), 1);
}

/* Without the asserts, which write to a file of their own. */
static void log_and_expect_no_signal(int number) {
    RLRunInMode(kRLCommonModes, 0, false);
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, number)) _exit(1);
}

static void log_to_a_file_at_its_limit(void *unused) {
    (void)unused;
    struct rlimit none = {0, RLIM_INFINITY};
    FILE *file = tmpfile();
    dup2(fileno(file), STDERR_FILENO);
    setrlimit(RLIMIT_FSIZE, &none);
    log_and_expect_no_signal(SIGXFSZ);
}

static void log_to_nobody(void *unused) {
    (void)unused;
    int ends[2];
    if (pipe(ends) != 0) _exit(2);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL);
    log_and_expect_no_signal(SIGPIPE);
}

RL_TEST(no_line_ends_the_program, "S-ARG-9",
        "A line for a standard error that takes nothing, a file at the limit of sizes or a pipe without a reader, raises no signal") {
    ck_assert_int_eq(run_child(log_to_a_file_at_its_limit, NULL).status, 0);
    ck_assert_int_eq(run_child(log_to_nobody, NULL).status, 0);
}

RL_TEST(a_line_is_one_write, "S-ARG-9", "The default handler writes a line with one write") {
    int ends[2], saved = dup(STDERR_FILENO);
    char first[4096], second[16];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    run_pseudo_mode(NULL);
    ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
    close(ends[1]);
    ssize_t length = read(ends[0], first, sizeof first - 1);
    ck_assert_int_gt(length, 1);
    first[length] = '\0';
    ck_assert_int_eq(first[length - 1], '\n');
    ck_assert_ptr_eq(strchr(first, '\n'), first + length - 1);
    ck_assert_int_eq(read(ends[0], second, sizeof second), 0);
}

/* The lines have to take more than any of these holds, and to leave room for a part of a line in between. None of them tells of a wrong call. */
static void log_much(int standard_error) {
    ck_assert_int_ge(dup2(standard_error, STDERR_FILENO), 0);
    const int before = count_descriptors();
    for (int i = 0; i < 10000; i++) RLTraceStart("/nonexistent/folder/of/a/trace/with/a/long/name", 1);
    if (count_descriptors() != before || fcntl(standard_error, F_GETFL) & O_NONBLOCK) _exit(3);
}
static void log_to_a_full_file(void *argument) { log_much(*(int *)argument); }

/* What came first. The child's own standard error is replaced. */
static void expect_lines(int own, int other) {
    char text[4096];
    ck_assert_int_eq(run_child(log_to_a_full_file, &own).status, 0);
    fcntl(other, F_SETFL, O_NONBLOCK);
    ssize_t length = read(other, text, sizeof text - 1);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    ck_assert_str_eq(strtok(text, "\r\n"), "RLTraceStart: no trace to \"/nonexistent/folder/of/a/trace/with/a/long/name\": No such file or directory");
    close(own), close(other);
}

static int make_terminal(int *other) {
    *other = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(*other, 0);
    ck_assert_int_eq(grantpt(*other), 0);
    ck_assert_int_eq(unlockpt(*other), 0);
    int own = open(ptsname(*other), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(own, 0);
    return own;
}

RL_TEST(no_line_waits_for_a_reader, "S-ARG-9",
        "Lines for a terminal, a pipe or a socket that nobody reads are left out when it is full; the descriptor stays as it is") {
    int ends[2], other, own = make_terminal(&other);
    expect_lines(own, other);
    make_pipe(ends);
    expect_lines(ends[1], ends[0]);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    expect_lines(ends[1], ends[0]);
}

/* A line for the terminal in a process that has no descriptor left. */
static void log_without_a_number(void *argument) {
    struct rlimit limit;
    ck_assert_int_ge(dup2(*(int *)argument, STDERR_FILENO), 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = STDERR_FILENO + 1;
    setrlimit(RLIMIT_NOFILE, &limit);
    RLTraceStart("/nonexistent/x", 1);
    for (int number = 0; number < 3; number++)
        if (fcntl(number, F_GETFD) < 0) _exit(3);
}

RL_TEST(a_line_needs_no_number, "S-ARG-9", "A process that has no descriptor left writes its lines to a terminal") {
    char text[4096];
    int other, own = make_terminal(&other);
    ck_assert_int_eq(run_child(log_without_a_number, &own).status, 0);
    fcntl(other, F_SETFL, O_NONBLOCK);
    ssize_t length = read(other, text, sizeof text - 1);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    ck_assert_ptr_nonnull(strstr(text, "RLTraceStart: no trace to \"/nonexistent/x\": "));
    close(own), close(other);
}

static void lose_descriptors(int kept, int port) {
    for (int number = 3; number < 1024; number++)
        if (number != kept && number != port) close(number);
    RLRunInMode(kRLDefaultMode, 0.01, false);
}
static void log_to_a_master_side(void *unused) {
    (void)unused;
    static Probe port;
    int ends[2], other, saved = dup(STDERR_FILENO);
    make_terminal(&other);
    make_pipe(ends);
    add_port(&port, ends[0], kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0.01, false);
    dup2(other, STDERR_FILENO);
    lose_descriptors(saved, ends[0]);
    dup2(saved, STDERR_FILENO);
    lose_descriptors(saved, ends[0]);
}

RL_TEST(a_master_side_gets_no_line, "S-ARG-9", "A line that is logged once, and was left out as standard error is a terminal's master side, is logged the next time") {
    ChildResult result = run_child(log_to_a_master_side, NULL);
    ck_assert_int_eq(result.status, 0);
    ck_assert_ptr_nonnull(strstr(result.output, "made anew"));
}

static void change_handler(const char *line, void *info) {
    (void)line;
    trace("line");
    RLSetLogHandler(NULL, NULL);
    RLSetLogHandler(change_handler, info);
}

RL_TEST(a_handler_may_set_another, "S-ARG-9 S-THR-3",
        "The handler is called with no lock held and may set the handler") {
    RLSetLogHandler(change_handler, NULL);
    run_pseudo_mode(NULL);
    expect_trace("line");
}

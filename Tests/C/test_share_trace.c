/* SPDX-License-Identifier: MIT */
/* A trace of a process for another one: in memory, for as long as the connection lasts. */
#define _GNU_SOURCE
#include "support_share.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The whole answer as it is. */
static char *receive_bytes(int connection, size_t *length) {
    static char part[70000];
    char *bytes = NULL;
    *length = 0;
    while (true) {
        struct pollfd entry = {connection, POLLIN, 0};
        const ssize_t count = poll(&entry, 1, 10000) > 0 ? recv(connection, part, sizeof part, 0) : 0;
        ck_assert_int_gt(count, 0);
        bytes = realloc(bytes, *length + (size_t)count);
        memcpy(bytes + *length, part + 1, (size_t)count - 1);
        *length += (size_t)count - 1;
        if (part[0] == '.') return bytes;
        ck_assert_int_eq(part[0], '+');
    }
}

static bool starts(int connection) {
    char *answer = share_ask(connection, "trace start");
    const bool is_on = answer && strcmp(answer, "{\"trace\":true}\n") == 0;
    if (!is_on) ck_assert_str_eq(answer, "{\"trace\":false}\n");
    free(answer);
    return is_on;
}

/* Stops it; whether that gave a trace of this process, in which a text is found. */
static bool stops(int connection, const char *text) {
    size_t length;
    ck_assert(share_send(connection, "trace stop"));
    char *bytes = receive_bytes(connection, &length);
    uint32_t process = 0;
    uint64_t size = 0;
    const bool is_trace = length > 4096 && memcmp(bytes, "RLTRACE1", 8) == 0;
    if (is_trace) {
        memcpy(&process, bytes + 12, sizeof process);
        memcpy(&size, bytes + 32, sizeof size);
        ck_assert_int_eq(process, getpid());
        ck_assert_uint_eq(size, length);
        if (text) ck_assert_ptr_nonnull(memmem(bytes, length, text, strlen(text)));
    } else {
        ck_assert_uint_eq(length, strlen("{\"trace\":false}\n"));
    }
    free(bytes);
    return is_trace;
}

static Probe probe;
static int begin(void) {
    share_alone();
    RLSetName(probe_source(&probe, 0), "what is traced");
    RLAddSource(RLGetCurrent(), probe.source, kRLDefaultMode);
    ck_assert(RLSetShared(true));
    return share_connect_soon(0);
}
static void perform(void) {
    RLSourceSignal(probe.source);
    ck_assert_int_eq(RLRunInMode(kRLDefaultMode, 0, true), kRLRunHandledSource);
}
static void end(int connection) {
    close(connection);
    RLSourceInvalidate(probe.source);
    RLRelease(probe.source);
}

RL_TEST(a_trace_for_another_process, "S-OUT-11", "A connection gets what the loops did between its start and its stop, and the process opens no file for it") {
    int connection = begin();
    /* It is taken, and the loop has made what it needs. */
    free(share_ask(connection, "statistics"));
    perform();
    const int descriptors = count_descriptors();
    for (int i = 0; i < 3; i++) {
        ck_assert(starts(connection));
        ck_assert(!starts(connection));
        perform();
        ck_assert_int_eq(count_descriptors(), descriptors);
        ck_assert(stops(connection, "what is traced"));
        ck_assert(!stops(connection, NULL));
        ck_assert_int_eq(count_descriptors(), descriptors);
    }
    end(connection);
}

RL_TEST(one_trace_for_all, "S-OUT-11", "There is one such trace, which its connection alone can stop, and which ends with that connection") {
    int connection = begin(), other = share_connect_soon(0);
    ck_assert(starts(connection));
    ck_assert(!starts(other));
    ck_assert(!stops(other, NULL));
    perform();
    ck_assert(stops(connection, "what is traced"));
    ck_assert(starts(other));
    close(other);
    while (!starts(connection)) take_time(0.001);
    /* A third one is taken while an answer waits for its receiver, which does not take it. */
    ck_assert(share_send(connection, "trace stop"));
    other = share_connect_soon(0);
    ck_assert(!starts(other));
    size_t length;
    free(receive_bytes(connection, &length));
    ck_assert(starts(other));
    close(other);
    end(connection);
}

static char path[256];
static bool has_file(void) { return access(path, F_OK) == 0; }

RL_TEST(the_programs_own_trace_comes_first, "S-OUT-12 S-TRC-1", "The program's own trace takes the place of another process's, and neither side can stop the other's") {
    int connection = begin();
    snprintf(path, sizeof path, "%s/own.trace", getenv("XDG_RUNTIME_DIR"));
    ck_assert(starts(connection));
    ck_assert(!RLIsTracing());
    RLTraceStop();
    perform();
    ck_assert(stops(connection, "what is traced"));
    ck_assert(starts(connection));
    ck_assert(RLTraceStart(path, 1));
    ck_assert(RLIsTracing() && has_file());
    ck_assert(!stops(connection, NULL));
    ck_assert(!starts(connection));
    ck_assert(RLIsTracing());
    RLTraceStop();
    ck_assert(!RLIsTracing());
    ck_assert(starts(connection));
    ck_assert(stops(connection, NULL));
    end(connection);
}

static void call_trace_start(void *unused) {
    (void)unused;
    for (int i = 0; i < 50; i++) {
        ck_assert(RLTraceStart(path, 1));
        RLTraceStop();
    }
}

RL_TEST(starts_of_both_at_once, "S-OUT-12", "However starts and stops of another process fall between, the program's own starts succeed") {
    int connection = begin();
    snprintf(path, sizeof path, "%s/own.trace", getenv("XDG_RUNTIME_DIR"));
    Thread *thread = thread_start(call_trace_start, NULL);
    for (int i = 0; i < 20; i++) {
        if (starts(connection)) stops(connection, NULL);
    }
    thread_join(thread);
    ck_assert(!RLIsTracing());
    end(connection);
}

RL_TEST(the_end_of_the_sharing, "S-OUT-11", "The end of the sharing ends the trace") {
    int connection = begin();
    ck_assert(starts(connection));
    ck_assert(RLSetShared(false));
    ck_assert(share_ends(connection));
    while (share_threads() > 0) take_time(0.001);
    ck_assert(RLSetShared(true));
    int other = share_connect_soon(0);
    ck_assert(starts(other));
    ck_assert(stops(other, NULL));
    close(other);
    end(connection);
}

static void trace_in_child(void *unused) {
    (void)unused;
    ck_assert(!RLIsTracing());
    ck_assert(RLTraceStart(path, 1));
    RLTraceStop();
}

RL_TEST(the_child_of_fork, "S-OUT-7 S-TRC-9", "The child of fork is not traced for anybody, and may start a trace") {
    int connection = begin();
    snprintf(path, sizeof path, "%s/child.trace", getenv("XDG_RUNTIME_DIR"));
    ck_assert(starts(connection));
    ck_assert_int_eq(run_child(trace_in_child, NULL).status, 0);
    ck_assert(stops(connection, NULL));
    end(connection);
}

/* How many bytes of addresses the process has. */
static size_t address_bytes(void) {
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

RL_TEST(traces_of_many_lengths, "S-OUT-11 S-OUT-12", "Traces of other processes and the program's own, with other numbers of loops, take the same place in turn") {
    int connection = begin();
    snprintf(path, sizeof path, "%s/own.trace", getenv("XDG_RUNTIME_DIR"));
    size_t before = 0;
    for (int i = 0; i < 40; i++) {
        ck_assert(starts(connection));
        ck_assert(RLTraceStart(path, 1 + i % 20));
        perform();
        RLTraceStop();
        ck_assert(!stops(connection, NULL));
        if (i == 20) before = address_bytes();
    }
    ck_assert_uint_lt(address_bytes(), before + (16 << 20));
    ck_assert(starts(connection));
    perform();
    ck_assert(stops(connection, "what is traced"));
    end(connection);
}

/* A mapping of at least that many bytes which a fork does not copy, or NULL. */
static void *mapping_not_copied(size_t bytes) {
    char line[512];
    void *found = NULL;
    uintptr_t from = 0, to = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    ck_assert_ptr_nonnull(file);
    while (!found && fgets(line, sizeof line, file)) {
        uintptr_t first, last;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2) from = first, to = last;
        if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc") && to - from >= bytes) found = (void *)from;
    }
    fclose(file);
    return found;
}

static void *trace_that_is_sent;
static void expect_no_trace(void *unused) {
    (void)unused;
    ck_assert_int_eq(msync(trace_that_is_sent, 1, MS_ASYNC), -1);
    ck_assert_int_eq(errno, ENOMEM);
}

RL_TEST(the_child_has_no_trace_that_is_sent, "S-OUT-11", "The child of fork does not keep the trace that its parent is sending") {
    size_t bytes_of_trace;
    int connection = begin();
    ck_assert(starts(connection));
    ck_assert(share_send(connection, "trace stop"));
    free(receive_bytes(connection, &bytes_of_trace));
    ck_assert(starts(connection));
    ck_assert_ptr_null(mapping_not_copied(bytes_of_trace / 2));
    /* Nobody receives it. */
    ck_assert(share_send(connection, "trace stop"));
    while (!(trace_that_is_sent = mapping_not_copied(bytes_of_trace / 2))) take_time(0.001);
    ck_assert_int_eq(run_child(expect_no_trace, NULL).status, 0);
    end(connection);
}

RL_TEST(nobody_takes_the_trace, "S-OUT-5 S-OUT-11", "A peer that asks for traces and takes none is disconnected, the memory is given back, and loops go on") {
    int connection = begin();
    for (int i = 0; i < 3; i++) {
        ck_assert(starts(connection));
        ck_assert(share_send(connection, "trace stop"));
        perform();
        close(connection);
        connection = share_connect_soon(0);
        while (!starts(connection)) take_time(0.001);
        ck_assert(stops(connection, NULL));
    }
    end(connection);
}

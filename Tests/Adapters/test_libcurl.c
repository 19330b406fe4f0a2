/* SPDX-License-Identifier: MIT */
/* Section 40: libcurl on a run loop, with an HTTP server that can misbehave. */
#define _GNU_SOURCE
#include "peer.h"

#include <runloop/adapters/libcurl.h>

#include <stdio.h>
#include <stdlib.h>

enum { TRANSFERS = 200, LENGTH = 100000 };

typedef struct Transfer {
    CURL *easy;
    size_t length;
    CURLcode result;
    int ends;
} Transfer;

static Peer server;
static int port, ends;
static CURLM *multi;
static RLCurlRef place;
static void (*when_done)(Transfer *transfer);

static void done(CURL *easy, CURLcode result, void *info) {
    Transfer *transfer;
    ck_assert_ptr_eq(info, &ends);
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    transfer->result = result;
    transfer->ends++;
    ends++;
    if (when_done) when_done(transfer);
}

static void begin_in(RLMode mode) {
    server = peer_start("listening on", (const char *[]){RL_HTTP_SERVER, NULL});
    port = atoi(server.line + strlen("listening on "));
    multi = curl_multi_init();
    place = RLCurlAttach(multi, RLGetCurrent(), mode, done, &ends);
    ck_assert_ptr_nonnull(place);
}

static void begin(void) { begin_in(kRLDefaultMode); }

/* All is given back, so that a leak would be one of the adapter. */
static void end(void) {
    RLCurlDetach(place);
    curl_multi_cleanup(multi);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static size_t take(char *bytes, size_t size, size_t count, void *info) {
    (void)bytes;
    ((Transfer *)info)->length += size * count;
    return size * count;
}

static void make(Transfer *transfer, const char *format, long value) {
    char path[64], address[128];
    snprintf(path, sizeof path, format, value);
    snprintf(address, sizeof address, "http://127.0.0.1:%d/%s", port, path);
    transfer->easy = curl_easy_init();
    curl_easy_setopt(transfer->easy, CURLOPT_URL, address);
    curl_easy_setopt(transfer->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(transfer->easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, transfer);
}

static void add(Transfer *transfer, const char *format, long value) {
    make(transfer, format, value);
    ck_assert_int_eq(curl_multi_add_handle(multi, transfer->easy), CURLM_OK);
}

RL_TEST(many_transfers_at_once, "S-ADP-2 S-ADP-3", "Two hundred parallel transfers bring all their bytes, each ends once; then the run finishes by itself") {
    static Transfer transfers[TRANSFERS];
    begin();
    for (int round = 1; round <= 2; round++) {
        for (long i = 0; i < TRANSFERS; i++) {
            if (round == 1) add(&transfers[i], "bytes/%ld", LENGTH + i);
            else ck_assert_int_eq(curl_multi_add_handle(multi, transfers[i].easy), CURLM_OK); /* over the connections that are there */
        }
        expect_run(kRLDefaultMode, 60, false, Finished);
        ck_assert_int_eq(ends, round * TRANSFERS);
        for (long i = 0; i < TRANSFERS; i++) {
            ck_assert_int_eq(transfers[i].ends, round);
            ck_assert_int_eq(transfers[i].result, CURLE_OK);
            ck_assert_uint_eq(transfers[i].length, (size_t)round * (LENGTH + (size_t)i));
        }
    }
    for (int i = 0; i < TRANSFERS; i++) curl_easy_cleanup(transfers[i].easy);
    end();
}

RL_TEST(limits_are_kept, "S-ADP-5", "A server that says nothing, and one that stops in the middle: each transfer ends by its own limit") {
    Transfer transfers[3] = {{.length = 0}};
    begin();
    for (int i = 0; i < 2; i++) {
        make(&transfers[i], i ? "half/%ld" : "silence", LENGTH);
        curl_easy_setopt(transfers[i].easy, CURLOPT_TIMEOUT_MS, i ? 1500L : 50L);
        curl_multi_add_handle(multi, transfers[i].easy);
    }
    expect_run(kRLDefaultMode, 60, false, Finished);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(transfers[i].ends, 1);
        ck_assert_int_eq(transfers[i].result, CURLE_OPERATION_TIMEDOUT);
        curl_easy_cleanup(transfers[i].easy);
    }
    ck_assert_uint_eq(transfers[1].length, LENGTH / 2);
    end();
}

RL_TEST(limits_are_kept_beside_a_clock, "S-ADP-11",
        "On a loop whose clock stands still, or moves by itself, a transfer that the server does not answer ends by its limit, without a pass before it") {
    for (int moves = 0; moves <= 1; moves++) {
        Transfer transfer = {.length = 0};
        RLClockRef clock = RLClockCreateManual();
        RLClockSetAutomatic(clock, moves);
        ck_assert(RLSetClock(RLGetCurrent(), clock));
        begin();
        const long *passes = count_passes(kRLDefaultMode);
        RLAbsoluteTime before = RLClockGetTime(clock);
        make(&transfer, "silence", 0);
        curl_easy_setopt(transfer.easy, CURLOPT_TIMEOUT_MS, 200L);
        curl_multi_add_handle(multi, transfer.easy);
        expect_run(kRLDefaultMode, 1e10, false, Finished);
        ck_assert_int_eq(transfer.ends, 1);
        ck_assert_int_eq(transfer.result, CURLE_OPERATION_TIMEDOUT);
        ck_assert_int_lt(*passes, 100);
        ck_assert(RLClockGetTime(clock) == before);
        curl_easy_cleanup(transfer.easy);
        end();
        ends = 0;
        peer_kill(&server);
        ck_assert(RLSetClock(RLGetCurrent(), NULL));
        RLRelease(clock);
    }
}

static void cancel(Probe *self) {
    Transfer *transfers = self->data;
    for (int i = 0; i < 20; i++) curl_multi_remove_handle(multi, transfers[i].easy);
}

RL_TEST(transfers_are_cancelled, "S-ADP-7", "Transfers that are removed end without a word and leave nothing in the loop; the others go on") {
    static Transfer transfers[21];
    begin();
    for (int i = 0; i < 20; i++) add(&transfers[i], i % 2 ? "flood" : "silence", 0);
    add(&transfers[20], "bytes/%ld", LENGTH);
    Probe timer = {.action = cancel, .data = transfers};
    add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(ends, 1);
    ck_assert_uint_eq(transfers[20].length, LENGTH);
    for (int i = 0; i < 21; i++) curl_easy_cleanup(transfers[i].easy);
    end();
}

RL_TEST(a_server_that_vanishes, "S-ADP-4", "A connection that is cut, a server that is killed, a port that is closed: each transfer ends once with libcurl's error") {
    static Transfer transfers[31];
    begin();
    for (int i = 0; i < 10; i++) add(&transfers[i], "cut/%ld", LENGTH);
    run_until(&ends, 10);
    for (int i = 10; i < 30; i++) add(&transfers[i], "half/%ld", LENGTH);
    for (int all = 0; all < 20;) {
        RLRunInMode(kRLDefaultMode, 60, true);
        all = 0;
        for (int i = 10; i < 30; i++) all += transfers[i].length == LENGTH / 2;
    }
    peer_kill(&server);
    expect_run(kRLDefaultMode, 60, false, Finished);
    add(&transfers[30], "bytes/1", 0);
    expect_run(kRLDefaultMode, 60, false, Finished);
    for (int i = 0; i < 31; i++) {
        ck_assert_int_eq(transfers[i].ends, 1);
        ck_assert_int_ne(transfers[i].result, CURLE_OK);
        curl_easy_cleanup(transfers[i].easy);
    }
    ck_assert_int_eq(transfers[30].result, CURLE_COULDNT_CONNECT);
    end();
}

static size_t take_and_stop(char *bytes, size_t size, size_t count, void *info) {
    if (((Transfer *)info)->length > 32000000) return 0; /* an error, which ends the transfer */
    return take(bytes, size, count, info);
}

RL_TEST(a_flood_leaves_turns_to_others, "S-ADP-6", "Of an endless answer each pass reads one portion, so that other items have their turns") {
    Transfer transfer = {.length = 0};
    begin();
    const long *passes = count_passes(kRLDefaultMode);
    make(&transfer, "flood", 0);
    curl_easy_setopt(transfer.easy, CURLOPT_WRITEFUNCTION, take_and_stop);
    curl_multi_add_handle(multi, transfer.easy);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(transfer.result, CURLE_WRITE_ERROR);
    ck_assert_int_ge(*passes, 15); /* libcurl reads a hundred buffers of 16 KiB at most */
    curl_easy_cleanup(transfer.easy);
    end();
}

static Transfer second, third;

static size_t take_and_run(char *bytes, size_t size, size_t count, void *info) {
    Transfer *transfer = info;
    if (transfer->length == 0) {
        int before = ends;
        const long *passes = count_passes(kRLDefaultMode);
        expect_run(kRLDefaultMode, 0.1, false, TimedOut);
        ck_assert_int_lt(*passes, 50);
        ck_assert_int_eq(ends, before);
    }
    return take(bytes, size, count, info);
}

RL_TEST(libcurls_callback_runs_the_loop, "S-ADP-8", "In a run that libcurl's write callback makes no transfer goes on, and the loop waits; then all end") {
    Transfer first = {.length = 0};
    begin();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    make(&first, "bytes/%ld", LENGTH);
    curl_easy_setopt(first.easy, CURLOPT_WRITEFUNCTION, take_and_run);
    curl_multi_add_handle(multi, first.easy);
    add(&second, "bytes/%ld", LENGTH);
    make(&third, "silence", 0);
    curl_easy_setopt(third.easy, CURLOPT_TIMEOUT_MS, 20L);
    curl_multi_add_handle(multi, third.easy);
    run_until(&ends, 3);
    ck_assert_uint_eq(first.length, LENGTH);
    ck_assert_uint_eq(second.length, LENGTH);
    ck_assert_int_eq(third.result, CURLE_OPERATION_TIMEDOUT);
    curl_easy_cleanup(first.easy), curl_easy_cleanup(second.easy), curl_easy_cleanup(third.easy);
    RLCurlDetach(place);
    curl_multi_cleanup(multi);
}

static int calls;

/* Pauses its transfer, and runs the loop when that goes on, in the call of curl_easy_pause. */
static size_t pause_and_run(char *bytes, size_t size, size_t count, void *info) {
    if (calls++ == 0) return CURL_WRITEFUNC_PAUSE;
    return take_and_run(bytes, size, count, info);
}

static void go_on(Probe *self) {
    Transfer *transfer = self->data;
    while (calls == 0) ck_assert_int_ne(RLRunInMode(kRLDefaultMode, 60, true), kRLRunTimedOut);
    ck_assert_int_eq(curl_easy_pause(transfer->easy, CURLPAUSE_CONT), CURLE_OK);
}

RL_TEST(the_callback_of_a_pause_runs_the_loop, "S-ADP-8",
        "In a run that the write callback makes within curl_easy_pause no transfer goes on, and the loop waits; then all end") {
    Transfer first = {.length = 0};
    begin();
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    make(&first, "bytes/%ld", LENGTH);
    curl_easy_setopt(first.easy, CURLOPT_WRITEFUNCTION, pause_and_run);
    curl_multi_add_handle(multi, first.easy);
    make(&second, "flood", 0);
    curl_easy_setopt(second.easy, CURLOPT_WRITEFUNCTION, take_and_stop);
    curl_multi_add_handle(multi, second.easy);
    make(&third, "silence", 0);
    curl_easy_setopt(third.easy, CURLOPT_TIMEOUT_MS, 200L);
    curl_multi_add_handle(multi, third.easy);
    Probe timer = {.action = go_on, .data = &first};
    add_timer(&timer, date_in(0), 0, kRLDefaultMode);
    run_until(&ends, 3);
    ck_assert_uint_eq(first.length, LENGTH);
    ck_assert_int_eq(second.result, CURLE_WRITE_ERROR);
    ck_assert_int_eq(third.result, CURLE_OPERATION_TIMEDOUT);
    curl_easy_cleanup(first.easy), curl_easy_cleanup(second.easy), curl_easy_cleanup(third.easy);
    RLCurlDetach(place);
    curl_multi_cleanup(multi);
}

static void start_second(Transfer *transfer) {
    if (transfer == &second) return;
    add(&second, "bytes/%ld", LENGTH);
    /* Outside libcurl: the next transfer goes on in this run. */
    while (second.ends == 0) ck_assert_int_ne(RLRunInMode(kRLDefaultMode, 60, true), kRLRunTimedOut);
}

RL_TEST(done_runs_the_loop, "S-ADP-8", "done adds a transfer, which comes to its end in a run that done makes") {
    Transfer first = {.length = 0};
    begin();
    when_done = start_second;
    add(&first, "bytes/%ld", LENGTH);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(ends, 2);
    ck_assert_uint_eq(second.length, LENGTH);
    curl_easy_cleanup(first.easy), curl_easy_cleanup(second.easy);
    end();
}

RL_TEST(done_of_a_limit_runs_the_loop, "S-ADP-8", "done of a transfer that ended by its limit adds a transfer, which comes to its end in a run that done makes") {
    Transfer first = {.length = 0};
    begin();
    when_done = start_second;
    make(&first, "silence", 0);
    curl_easy_setopt(first.easy, CURLOPT_TIMEOUT_MS, 50L);
    ck_assert_int_eq(curl_multi_add_handle(multi, first.easy), CURLM_OK);
    run_until(&ends, 2);
    ck_assert_int_eq(first.result, CURLE_OPERATION_TIMEDOUT);
    ck_assert_int_eq(second.result, CURLE_OK);
    curl_easy_cleanup(first.easy), curl_easy_cleanup(second.easy);
    end();
}

static void detach(Transfer *transfer) {
    (void)transfer;
    RLCurlDetach(place);
}

/* A file each, whose transfers end in one call of libcurl. */
static void wait_for_all(Transfer *transfer) {
    (void)transfer;
    while (ends < 4) ck_assert_int_ne(RLRunInMode(kRLDefaultMode, 60, true), kRLRunTimedOut);
}

RL_TEST(done_in_done_runs_the_loop, "S-ADP-8", "Of transfers that are over at once each done may run the loop until all are, inside the one before") {
    static Transfer transfers[4];
    begin();
    when_done = wait_for_all;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (int i = 0; i < 4; i++) {
        make(&transfers[i], "", 0);
        curl_easy_setopt(transfers[i].easy, CURLOPT_URL, "file:///proc/self/stat");
        ck_assert_int_eq(curl_multi_add_handle(multi, transfers[i].easy), CURLM_OK);
    }
    run_until(&ends, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(transfers[i].ends, 1);
        curl_easy_cleanup(transfers[i].easy);
    }
    RLCurlDetach(place);
    curl_multi_cleanup(multi);
}

RL_TEST(done_detaches, "S-ADP-7", "done detaches the multi handle: nothing of it is in the loop, nothing more is told") {
    static Transfer transfers[20];
    begin();
    when_done = detach;
    for (int i = 0; i < 20; i++) add(&transfers[i], i ? "silence" : "bytes/1", 0);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(ends, 1);
    for (int i = 0; i < 20; i++) {
        curl_multi_remove_handle(multi, transfers[i].easy);
        curl_easy_cleanup(transfers[i].easy);
    }
    curl_multi_cleanup(multi);
}

RL_TEST(it_works_in_its_mode, "S-ADP-2 S-ADP-3", "A transfer goes on in runs of its mode only; one that waits for its server costs no pass") {
    Transfer first = {.length = 0}, silent = {.length = 0};
    begin_in("own");
    add(&first, "bytes/%ld", LENGTH);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    ck_assert_int_eq(ends, 0);
    expect_run("own", 60, false, Finished);
    ck_assert_int_eq(ends, 1);
    add(&silent, "silence", 0);
    const long *passes = count_passes("own");
    expect_run("own", 0.2, false, TimedOut);
    ck_assert_int_lt(*passes, 30);
    curl_multi_remove_handle(multi, silent.easy);
    curl_easy_cleanup(first.easy), curl_easy_cleanup(silent.easy);
    RLCurlDetach(place);
    curl_multi_cleanup(multi);
    expect_run("own", 0, false, Finished);
}

/* The child has copies of the transfers, over the same sockets. */
static void detach_in_child(void *info) {
    (void)info;
    RLCurlDetach(place);
    expect_run(kRLDefaultMode, 0, false, Finished);
    multi = curl_multi_init();
    place = RLCurlAttach(multi, RLGetCurrent(), kRLDefaultMode, done, &ends);
    Transfer own = {.length = 0};
    add(&own, "bytes/%ld", 10);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_uint_eq(own.length, 10);
}

RL_TEST(the_child_of_fork_detaches, "S-ADP-9",
        "The child of fork detaches a multi handle in the middle of its transfers and makes one with another: the parent's bring all their bytes") {
    static Transfer transfers[20];
    begin();
    for (long i = 0; i < 20; i++) add(&transfers[i], "bytes/%ld", 100 * LENGTH + i);
    while (transfers[0].length == 0) RLRunInMode(kRLDefaultMode, 60, true);
    ck_assert_int_lt(ends, 20);
    ChildResult child = run_child(detach_in_child, NULL);
    ck_assert_str_eq(child.output, "");
    ck_assert_int_eq(child.status, 0);
    expect_run(kRLDefaultMode, 60, false, Finished);
    for (long i = 0; i < 20; i++) {
        ck_assert_int_eq(transfers[i].result, CURLE_OK);
        ck_assert_uint_eq(transfers[i].length, 100 * LENGTH + (size_t)i);
        curl_easy_cleanup(transfers[i].easy);
    }
    end();
}

RL_TEST(a_host_adds_transfers, "S-ADP-10", "Code of a foreign run's host adds transfers, one after the other and several at once") {
    static Transfer transfers[5];
    begin();
    host_begin();
    for (int i = 0; i < 5; i++) {
        add(&transfers[i], "bytes/%ld", LENGTH);
        if (i < 3) host_until(&ends, i + 1);
    }
    host_until(&ends, 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(transfers[i].result, CURLE_OK);
        curl_easy_cleanup(transfers[i].easy);
    }
    host_end();
    RLCurlDetach(place);
    curl_multi_cleanup(multi);
}

RL_TEST(bad_arguments_are_refused, "S-ADP-1", "No handle, no loop, no mode, or a handle that is attached: no adapter") {
    CURLM *handle = curl_multi_init();
    ck_assert_ptr_null(RLCurlAttach(NULL, RLGetCurrent(), kRLDefaultMode, done, NULL));
    ck_assert_ptr_null(RLCurlAttach(handle, NULL, kRLDefaultMode, done, NULL));
    ck_assert_ptr_null(RLCurlAttach(handle, RLGetCurrent(), NULL, done, NULL));
    for (int times = 0; times < 2; times++) {
        RLCurlRef attached = RLCurlAttach(handle, RLGetCurrent(), kRLDefaultMode, done, NULL);
        ck_assert_ptr_nonnull(attached);
        ck_assert_ptr_null(RLCurlAttach(handle, RLGetCurrent(), kRLDefaultMode, done, NULL));
        RLCurlDetach(attached);
    }
    RLCurlDetach(NULL);
    curl_multi_cleanup(handle);
}

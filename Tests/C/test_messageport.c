/* SPDX-License-Identifier: MIT */
/*
 * Local message ports: names, contexts, sources, service. Both ends are in one process here.
 */
#define _GNU_SOURCE
#include "messageport_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

RL_TEST(a_message_reaches_the_port_of_its_name, "S-MSG-1 S-MSG-13 S-MSG-20 S-MSG-24",
        "A message sent to a name is served by the callback of the local port on its loop's "
        "thread") {
    static Service service = {.word = "got"};
    RLMessagePortRef port = add_service(&service, port_name("plain"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("plain"));
    ck_assert_ptr_nonnull(remote);
    RLDataRef untouched = (RLDataRef)&service;
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 7, "hello", 5, 1, 1, NULL, &untouched),
                     kRLMessagePortSuccess);
    ck_assert_ptr_eq(untouched, (RLDataRef)&service);
    expect_trace("");
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("got7");
    ck_assert_str_eq(service.text, "hello");
    ck_assert(pthread_equal(service.thread, pthread_self()));
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(one_message_is_served_in_each_pass, "S-MSG-13",
        "Messages are served one in each pass, in the order in which they were sent") {
    static Service service = {.word = "m"};
    RLMessagePortRef port = add_service(&service, port_name("passes"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("passes"));
    for (int i = 1; i <= 3; i++) ck_assert_int_eq(send_text(remote, i, "x"), kRLMessagePortSuccess);
    for (int i = 1; i <= 3; i++) {
        char word[8];
        snprintf(word, sizeof word, "m%d", i);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace(word);
    }
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(the_same_name_gives_the_same_port, "S-MSG-2 S-MSG-6",
        "A second port of a name in the same process is the first one, and its context is not "
        "taken") {
    static Service first, second;
    bool freed = true;
    RLMessagePortContext context = service_context(&first, true);
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("same"), serve_message, &context,
                                                     &freed);
    ck_assert(!freed);
    ck_assert_int_eq(first.retains, 1);
    context = service_context(&second, true);
    RLMessagePortRef again = RLMessagePortCreateLocal(port_name("same"), serve_message, &context,
                                                      &freed);
    ck_assert_ptr_eq(again, port);
    ck_assert(freed);
    ck_assert_int_eq(second.retains, 0);
    RLMessagePortContext own = {0};
    RLMessagePortGetContext(port, &own);
    ck_assert_ptr_eq(own.info, &first);
    ck_assert_ptr_nonnull(own.release);
    RLRelease(again);
    ck_assert_int_eq(first.releases, 0);
    RLRelease(port);
    ck_assert_int_eq(first.releases, 1);
    port = RLMessagePortCreateLocal(port_name("same"), NULL, NULL, NULL);
    ck_assert_ptr_nonnull(port);
    RLRelease(port);
}

RL_TEST(an_unnamed_port_can_be_named, "S-MSG-4 S-MSG-7 S-MSG-8 S-MSG-10",
        "A port without a name is valid and receives messages once it is named") {
    static Service service = {.word = "m"};
    bool freed = true;
    RLMessagePortContext context = service_context(&service, false);
    RLMessagePortRef port = RLMessagePortCreateLocal(NULL, serve_message, &context, &freed);
    ck_assert(!freed);
    ck_assert(RLMessagePortIsValid(port));
    ck_assert_ptr_null(RLMessagePortGetName(port));
    ck_assert_ptr_null(RLMessagePortCreateRemote(port_name("later")));
    ck_assert(RLMessagePortSetName(port, port_name("later")));
    ck_assert_str_eq(RLMessagePortGetName(port), port_name("later"));
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("later"));
    ck_assert_int_eq(send_text(remote, 1, NULL), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("m1");
    RLRelease(remote);
    RLRelease(source);
    RLRelease(port);
}

RL_TEST(set_name_refuses, "S-MSG-8",
        "SetName refuses a remote port, NULL, and names that are in use in this process or "
        "another") {
    RLMessagePortRef one = RLMessagePortCreateLocal(port_name("one"), NULL, NULL, NULL);
    RLMessagePortRef two = RLMessagePortCreateLocal(port_name("two"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("one"));
    ck_assert(!RLMessagePortSetName(remote, port_name("free")));
    ck_assert(!RLMessagePortSetName(one, NULL));
    ck_assert(!RLMessagePortSetName(NULL, port_name("free")));
    ck_assert(!RLMessagePortSetName(one, port_name("one")));
    ck_assert(!RLMessagePortSetName(one, port_name("two")));
    Server server = server_start(port_name("elsewhere"), "", NULL);
    ck_assert(!RLMessagePortSetName(one, port_name("elsewhere")));
    ck_assert_str_eq(RLMessagePortGetName(one), port_name("one"));
    server_kill(&server);
    RLMessagePortInvalidate(two);
    ck_assert(!RLMessagePortSetName(two, port_name("free")));
    RLRelease(remote);
    RLRelease(one);
    RLRelease(two);
}

static void *given_info;
static int invalidations;
static void note_invalidation(RLMessagePortRef port, void *info) {
    (void)port;
    __atomic_store_n(&given_info, info, __ATOMIC_SEQ_CST);
    trace("invalid");
    __atomic_add_fetch(&invalidations, 1, __ATOMIC_SEQ_CST);
}

RL_TEST(a_new_name_frees_the_old_one, "S-MSG-9 S-MSG-36",
        "SetName frees the old name, ends its remotes and loses what they had sent") {
    static Service service = {.word = "m"};
    RLMessagePortRef port = add_service(&service, port_name("old"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("old"));
    ck_assert_int_eq(send_text(remote, 1, "lost"), kRLMessagePortSuccess);
    ck_assert(RLMessagePortIsValid(remote));
    ck_assert(RLMessagePortSetName(port, port_name("new")));
    ck_assert(!RLMessagePortIsValid(remote));
    ck_assert_ptr_null(RLMessagePortCreateRemote(port_name("old")));
    RLMessagePortRef other = RLMessagePortCreateLocal(port_name("old"), NULL, NULL, NULL);
    ck_assert_ptr_nonnull(other);
    RLMessagePortRef again = RLMessagePortCreateRemote(port_name("new"));
    ck_assert_int_eq(send_text(again, 2, "kept"), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("m2");
    RLRelease(again);
    RLRelease(other);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(names_stay_readable, "S-MSG-5",
        "What GetName has returned stays as it was when the port gets other names, and names that take turns are kept once") {
    char texts[4][64];
    const char *names[4];
    RLMessagePortRef port = RLMessagePortCreateLocal(NULL, NULL, NULL, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            snprintf(texts[i], sizeof texts[i], "%s", port_name((const char *[]){"first of four", "second of four", "third", ""}[i]));
            ck_assert(RLMessagePortSetName(port, texts[i]));
            if (round == 0) names[i] = RLMessagePortGetName(port);
            ck_assert_ptr_eq(RLMessagePortGetName(port), names[i]);
            for (int earlier = 0; earlier < (round == 0 ? i : 4); earlier++) ck_assert_str_eq(names[earlier], texts[earlier]);
        }
    }
    RLRelease(port);
}

RL_TEST(names_are_cut_between_characters, "S-MSG-5 S-MSG-7",
        "A name longer than 128 bytes is cut at the start of a character, and a name may hold any "
        "bytes") {
    char name[200];
    memset(name, 'a', sizeof name);
    memcpy(name + 127, "\xc3\xa9 and more", 11);
    name[150] = 0;
    RLMessagePortRef port = RLMessagePortCreateLocal(name, NULL, NULL, NULL);
    ck_assert_uint_eq(strlen(RLMessagePortGetName(port)), 127);
    ck_assert_mem_eq(RLMessagePortGetName(port), name, 127);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    ck_assert_ptr_nonnull(remote);
    ck_assert_uint_eq(strlen(RLMessagePortGetName(remote)), 127);
    RLRelease(remote);
    RLRelease(port);
    memset(name, 'b', 128);
    strcpy(name + 128, "\xc3\xa9");
    port = RLMessagePortCreateLocal(name, NULL, NULL, NULL);
    ck_assert_uint_eq(strlen(RLMessagePortGetName(port)), 128);
    RLRelease(port);
    snprintf(name, sizeof name, "../\n/%s\x01\xff", port_name("odd"));
    port = RLMessagePortCreateLocal(name, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(port);
    ck_assert_str_eq(RLMessagePortGetName(port), name);
    remote = RLMessagePortCreateRemote(name);
    ck_assert_ptr_nonnull(remote);
    RLRelease(remote);
    RLRelease(port);
    port = RLMessagePortCreateLocal("", NULL, NULL, NULL);
    ck_assert_ptr_nonnull(port);
    RLRelease(port);
}

RL_TEST(sources_of_ports, "S-MSG-11 S-MSG-34",
        "A local port gives the same source while that is valid, and a remote or invalid one gives "
        "none") {
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("sources"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("sources"));
    ck_assert_ptr_null(RLMessagePortCreateRunLoopSource(remote, 0));
    ck_assert_ptr_null(RLMessagePortCreateRunLoopSource(NULL, 0));
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 3);
    ck_assert_int_eq(RLSourceGetOrder(source), 3);
    RLSourceRef again = RLMessagePortCreateRunLoopSource(port, 4);
    ck_assert_ptr_eq(again, source);
    RLSourceInvalidate(source);
    RLSourceRef other = RLMessagePortCreateRunLoopSource(port, 5);
    ck_assert_ptr_ne(other, source);
    ck_assert(RLSourceIsValid(other));
    RLMessagePortInvalidate(port);
    ck_assert(!RLSourceIsValid(other));
    ck_assert_ptr_null(RLMessagePortCreateRunLoopSource(port, 0));
    RLRelease(source);
    RLRelease(again);
    RLRelease(other);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(no_data_are_empty_data, "S-MSG-14 S-MSG-17",
        "A message without data has data of length 0, and so has no reply") {
    static Service service = {.word = "m", .length = 9};
    RLMessagePortRef port = add_service(&service, port_name("empty"), "private");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("empty"));
    ck_assert_str_eq(ask_text(remote, 1, NULL, "private"), "");
    ck_assert_uint_eq(service.length, 0);
    ck_assert_str_eq(ask_text(remote, 2, "", "private"), "");
    ck_assert_uint_eq(service.length, 0);
    RLRelease(remote);
    RLRelease(port);
}

static RLDataRef kept_reply;
static RLDataRef reply_kept(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)data, (void)info;
    return RLRetain(kept_reply);
}

RL_TEST(replies_are_released, "S-MSG-16",
        "The data that a callback returns are released after they were sent, and unused after a "
        "one-way message") {
    kept_reply = RLDataCreate("reply", 5);
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("released"), reply_kept, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("released"));
    ck_assert_str_eq(ask_text(remote, 1, "x", "m"), "reply");
    ck_assert_int_eq(RLGetRetainCount(kept_reply), 1);
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    expect_run("m", 60, true, HandledSource);
    ck_assert_int_eq(RLGetRetainCount(kept_reply), 1);
    RLRelease(kept_reply);
    RLRelease(source);
    RLRelease(remote);
    RLRelease(port);
}

static int retains_in_callback, releases_in_callback;
static void note_counts(Service *self, RLMessagePortRef port) {
    (void)port;
    retains_in_callback = self->retains;
    releases_in_callback = self->releases;
}

RL_TEST(each_callback_is_bracketed, "S-MSG-19",
        "With retain in the context each callback is bracketed by retain and release") {
    static Service service = {.action = note_counts};
    RLMessagePortContext context = service_context(&service, true);
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("bracket"), serve_message, &context,
                                                     NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("bracket"));
    send_text(remote, 1, "x");
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(retains_in_callback, 2);
    ck_assert_int_eq(releases_in_callback, 0);
    ck_assert_int_eq(service.releases, 1);
    RLRelease(source);
    RLRelease(remote);
    RLRelease(port);
    ck_assert_int_eq(service.releases, 2);
}

static RLSourceRef ordered_source;
static const char *ordered_name;
static void release_in_order(const void *info) {
    (void)info;
    trace(RLSourceIsValid(ordered_source) ? "release" : "late");
}
static void invalid_in_order(RLMessagePortRef port, void *info) {
    trace(RLMessagePortIsValid(port) ? "valid" : "invalid");
    RLMessagePortRef other = RLMessagePortCreateLocal(ordered_name, NULL, NULL, NULL);
    trace(other && other != port ? "free" : "taken");
    RLRelease(other);
    given_info = info;
}

RL_TEST(invalidation_has_an_order, "S-MSG-34 S-MSG-37",
        "Invalidation frees the name, calls the callback, releases the context and invalidates the "
        "source") {
    static Service service;
    ordered_name = port_name("order");
    RLMessagePortContext context = {.info = &service, .release = release_in_order};
    RLMessagePortRef port = RLMessagePortCreateLocal(ordered_name, serve_message, &context, NULL);
    ordered_source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), ordered_source, kRLDefaultMode);
    RLMessagePortSetInvalidationCallBack(port, invalid_in_order);
    ck_assert(RLMessagePortGetInvalidationCallBack(port) == invalid_in_order);
    RLMessagePortInvalidate(port);
    expect_trace("invalid free release");
    ck_assert_ptr_eq(given_info, &service);
    ck_assert(!RLSourceIsValid(ordered_source));
    ck_assert(!RLContainsSource(RLGetCurrent(), ordered_source, kRLDefaultMode));
    RLMessagePortInvalidate(port);
    expect_trace("");
    RLMessagePortSetInvalidationCallBack(port, note_invalidation);
    expect_trace("invalid");
    ck_assert_ptr_null(given_info);
    ck_assert(!RLMessagePortIsRemote(port));
    RLRelease(ordered_source);
    RLRelease(port);
    expect_trace("");
}

RL_TEST(the_last_release_invalidates, "S-MSG-38 S-MSG-35 S-MSG-40",
        "The last release of a port invalidates it, and its name is free") {
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("last"), NULL, NULL, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLMessagePortSetInvalidationCallBack(port, note_invalidation);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("last"));
    RLMessagePortSetInvalidationCallBack(remote, note_invalidation);
    RLRelease(port);
    ck_assert_int_ge(count_of(&invalidations), 1);
    ck_assert(!RLSourceIsValid(source));
    wait_until_count(&invalidations, 2);
    ck_assert_ptr_null(__atomic_load_n(&given_info, __ATOMIC_SEQ_CST));
    ck_assert(!RLMessagePortIsValid(remote));
    ck_assert(RLMessagePortIsRemote(remote));
    ck_assert_ptr_null(RLMessagePortCreateRemote(port_name("last")));
    RLRelease(source);
    RLRelease(remote);
    trace_take();
}

RL_TEST(null_ports, "S-ARG-1 S-MSG-21", "NULL ports are invalid, and nothing happens with them") {
    ck_assert(!RLMessagePortIsValid(NULL));
    ck_assert(!RLMessagePortIsRemote(NULL));
    ck_assert_ptr_null(RLMessagePortGetName(NULL));
    ck_assert_ptr_null(RLMessagePortCreateRemote(NULL));
    ck_assert(RLMessagePortGetInvalidationCallBack(NULL) == NULL);
    RLMessagePortSetInvalidationCallBack(NULL, note_invalidation);
    RLMessagePortGetContext(NULL, NULL);
    RLMessagePortInvalidate(NULL);
    int descriptor;
    ck_assert_int_eq(RLMessagePortTakeDescriptors(NULL, &descriptor, 1), 0);
    ck_assert_int_eq(RLMessagePortSendRequest(NULL, 1, "x", 1, 1, 1, NULL, NULL),
                     kRLMessagePortIsInvalid);
    expect_trace("");
}

RL_TEST(ports_are_objects, "S-ARG-7 S-REF-5",
        "Message ports have a type id, a description and are equal to themselves alone") {
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("object"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("object"));
    ck_assert_uint_eq(RLGetTypeIDOf(port), RLMessagePortGetTypeID());
    ck_assert_uint_ne(RLMessagePortGetTypeID(), RLSourceGetTypeID());
    ck_assert(RLEqual(port, port));
    ck_assert(!RLEqual(port, remote));
    char *text = RLCopyDescription(port);
    ck_assert_ptr_nonnull(strstr(text, "RLMessagePort"));
    ck_assert_ptr_nonnull(strstr(text, port_name("object")));
    free(text);
    text = RLCopyDescription(remote);
    ck_assert_ptr_nonnull(strstr(text, "remote"));
    free(text);
    RLRelease(remote);
    RLRelease(port);
}

RL_TEST(remotes_are_shared, "S-MSG-20",
        "A process has one valid remote port of a name, and none of a name that nobody has") {
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("shared"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("shared"));
    RLMessagePortRef again = RLMessagePortCreateRemote(port_name("shared"));
    ck_assert_ptr_eq(remote, again);
    RLMessagePortInvalidate(remote);
    RLMessagePortRef fresh = RLMessagePortCreateRemote(port_name("shared"));
    ck_assert_ptr_ne(fresh, remote);
    ck_assert(RLMessagePortIsValid(fresh));
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortIsInvalid);
    ck_assert_int_eq(send_text(port, 1, "x"), kRLMessagePortIsInvalid);
    ck_assert_ptr_null(RLMessagePortCreateRemote(port_name("nobody")));
    RLRelease(fresh);
    RLRelease(again);
    RLRelease(remote);
    RLRelease(port);
}

static char *make_directory(const char *format, mode_t mode) {
    static char path[64];
    snprintf(path, sizeof path, format, (int)getpid());
    ck_assert_int_eq(mkdir(path, mode), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return path;
}

RL_TEST(names_lie_in_the_runtime_directory, "S-MSG-1 S-MSG-39",
        "Names are files of a directory that is this user's alone, and no descriptor or file is "
        "left") {
    char *directory = make_directory("/tmp/rlmp-%d", 0700), inner[96];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    snprintf(inner, sizeof inner, "%s/runloop", directory);
    int before = count_descriptors();
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("dir"), NULL, NULL, NULL);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("dir"));
    ck_assert_ptr_nonnull(remote);
    struct stat status;
    ck_assert_int_eq(stat(inner, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0700);
    RLRelease(remote);
    RLRelease(port);
    ck_assert_int_eq(count_descriptors(), before);
    /* Nothing is left in it. */
    ck_assert_int_eq(rmdir(inner), 0);
    ck_assert_int_eq(rmdir(directory), 0);
}

RL_TEST(an_open_directory_is_not_used, "S-MSG-1 S-MSG-6",
        "A directory for names that others can enter is refused with a log line, and the context "
        "is not taken") {
    char *directory = make_directory("/tmp/rlmq-%d", 0700), inner[96];
    setenv("XDG_RUNTIME_DIR", directory, 1);
    snprintf(inner, sizeof inner, "%s/runloop", directory);
    ck_assert_int_eq(mkdir(inner, 0777), 0);
    ck_assert_int_eq(chmod(inner, 0777), 0);
    log_capture();
    bool freed = false;
    int before = count_descriptors();
    ck_assert_ptr_null(RLMessagePortCreateLocal(port_name("open"), NULL, NULL, &freed));
    ck_assert(freed);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq(count_descriptors(), before);
    rmdir(inner);
    rmdir(directory);
}

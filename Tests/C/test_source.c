/* SPDX-License-Identifier: MIT */
/* Custom sources by themselves: creation, equality, validity and the life of their context. */
#include "support.h"

#include <limits.h>
#include <string.h>

static int retains, releases;
static char original, substitute;

static const void *retain_as_substitute(const void *info) {
    ck_assert_ptr_eq(info, &original);
    retains++;
    return &substitute;
}

static void release_substitute(const void *info) {
    ck_assert_ptr_eq(info, &substitute);
    releases++;
}

static void *performed_with;
static void perform_keeping_info(void *info) { performed_with = info; }
static void perform_nothing(void *info) { (void)info; }
static char *describe_nothing(const void *info) {
    (void)info;
    return NULL;
}

static RLSourceContext substituting_context(void) {
    RLSourceContext context = {0};
    context.info = &original;
    context.retain = retain_as_substitute;
    context.release = release_substitute;
    context.copyDescription = describe_nothing;
    context.perform = perform_keeping_info;
    return context;
}

RL_TEST(context_is_copied_and_its_info_retained_once, "S-SRC-1",
        "The context is copied, and what its retain returns at creation is the info from then on") {
    RLSourceContext context = substituting_context();
    RLSourceRef source = RLSourceCreate(0, &context);
    memset(&context, 0xEE, sizeof context);
    ck_assert_int_eq(retains, 1);
    RLSourceContext stored = {0};
    RLSourceGetContext(source, &stored);
    ck_assert_ptr_eq(stored.info, &substitute);
    ck_assert(stored.retain == retain_as_substitute && stored.release == release_substitute);
    ck_assert(stored.copyDescription == describe_nothing && stored.perform == perform_keeping_info);
    ck_assert(stored.equal == NULL && stored.hash == NULL);
    ck_assert(stored.schedule == NULL && stored.cancel == NULL);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    ck_assert_ptr_eq(performed_with, &substitute);
    ck_assert_int_eq(retains, 1);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    ck_assert_int_eq(releases, 0);
    RLRelease(source);
    ck_assert_int_eq(releases, 1);
}

RL_TEST(null_context_makes_no_source, "S-SRC-2", "Without a context RLSourceCreate returns NULL") {
    ck_assert_ptr_null(RLSourceCreate(0, NULL));
}

RL_TEST(unknown_version_makes_no_source, "S-SRC-3",
        "A context whose version is neither 0 nor 1 makes no source and is not retained") {
    const RLIndex versions[] = {2, -1, 99, LONG_MAX, LONG_MIN};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        RLSourceContext context = substituting_context();
        context.version = versions[i];
        ck_assert_ptr_null(RLSourceCreate(0, &context));
    }
    ck_assert_int_eq(retains, 0);
}

RL_TEST(order_is_fixed_at_creation, "S-SRC-4",
        "RLSourceGetOrder gives the order of the creation, also after invalidation") {
    const RLIndex orders[] = {0, 1, -1, 7, LONG_MAX, LONG_MIN};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        Probe probe = {0};
        RLSourceRef source = probe_source(&probe, orders[i]);
        ck_assert_int_eq(RLSourceGetOrder(source), orders[i]);
        RLSourceInvalidate(source);
        ck_assert_int_eq(RLSourceGetOrder(source), orders[i]);
        RLRelease(source);
    }
}

/* Equality */

static bool equal_when_same_letter(const void *a, const void *b) {
    return *(const char *)a == *(const char *)b;
}
static bool equal_never(const void *a, const void *b) {
    (void)a;
    (void)b;
    return false;
}
static RLHashCode hash_letter(const void *info) { return (RLHashCode) * (const char *)info; }
static RLHashCode hash_constant(const void *info) {
    (void)info;
    return 42;
}

static RLSourceContext letter_context(char *info) {
    RLSourceContext context = {0};
    context.info = info;
    context.perform = perform_nothing;
    return context;
}

RL_TEST(sources_with_the_same_info_are_equal, "S-SRC-5",
        "Without an equal function sources are equal when the info pointers are the same") {
    char a = 'a', other_a = 'a';
    RLSourceContext context = letter_context(&a), other = letter_context(&other_a);
    RLSourceRef one = RLSourceCreate(3, &context), same = RLSourceCreate(3, &context);
    RLSourceRef different = RLSourceCreate(3, &other);
    ck_assert(RLEqual(one, one));
    ck_assert(RLEqual(one, same) && RLEqual(same, one));
    ck_assert(!RLEqual(one, different) && !RLEqual(different, one));
    ck_assert(!RLEqual(one, NULL) && !RLEqual(NULL, one));
    RLRelease(one);
    RLRelease(same);
    RLRelease(different);
}

RL_TEST(the_equal_function_decides, "S-SRC-5",
        "With an equal function its answer decides, except that an object equals itself") {
    char a = 'a', other_a = 'a', b = 'b';
    RLSourceContext context = letter_context(&a), same = letter_context(&other_a);
    RLSourceContext different = letter_context(&b), never = letter_context(&a);
    context.equal = same.equal = different.equal = equal_when_same_letter;
    never.equal = equal_never;
    RLSourceRef one = RLSourceCreate(0, &context), two = RLSourceCreate(0, &same);
    RLSourceRef three = RLSourceCreate(0, &different);
    RLSourceRef four = RLSourceCreate(0, &never), five = RLSourceCreate(0, &never);
    ck_assert(RLEqual(one, two));
    ck_assert(!RLEqual(one, three));
    ck_assert(RLEqual(four, four));
    ck_assert(!RLEqual(four, five));
    RLRelease(one);
    RLRelease(two);
    RLRelease(three);
    RLRelease(four);
    RLRelease(five);
}

static RLPort no_port(void *info) {
    (void)info;
    return -1;
}

RL_TEST(every_part_of_the_identity_counts, "S-SRC-5",
        "Order, version, validity and the hash, equal and perform pointers must be the same") {
    char a = 'a';
    RLSourceContext context = letter_context(&a);
    RLSourceRef one = RLSourceCreate(0, &context);
    RLSourceRef others[5];
    others[0] = RLSourceCreate(1, &context);
    RLSourceContext changed = context;
    changed.hash = hash_letter;
    others[1] = RLSourceCreate(0, &changed);
    changed = context;
    changed.equal = equal_when_same_letter;
    others[2] = RLSourceCreate(0, &changed);
    changed = context;
    changed.perform = perform_keeping_info;
    others[3] = RLSourceCreate(0, &changed);
    RLSourceContext1 port = {0};
    port.version = 1;
    port.info = &a;
    port.getPort = no_port;
    port.perform = perform_nothing;
    others[4] = RLSourceCreate(0, (RLSourceContext *)&port);
    for (int i = 0; i < 5; i++) {
        ck_assert_msg(!RLEqual(one, others[i]) && !RLEqual(others[i], one), "variant %d", i);
        RLRelease(others[i]);
    }
    RLSourceRef twin = RLSourceCreate(0, &context);
    RLSourceInvalidate(twin);
    ck_assert(!RLEqual(one, twin));
    RLSourceInvalidate(one);
    ck_assert(RLEqual(one, twin));
    RLRelease(one);
    RLRelease(twin);
}

static RLTypeRef same_identity[2];
RL_TEST(callbacks_outside_the_identity_do_not_count, "S-SRC-5",
        "Different retain, release, schedule or cancel functions leave two sources equal") {
    Probe probe = {0};
    RLSourceContext context = {0};
    same_identity[0] = probe_source(&probe, 0);
    RLSourceGetContext(probe.source, &context);
    context.schedule = NULL;
    context.cancel = NULL;
    context.copyDescription = describe_nothing;
    same_identity[1] = RLSourceCreate(0, &context);
    ck_assert(RLEqual(same_identity[0], same_identity[1]));
    RLRelease(same_identity[0]);
    RLRelease(same_identity[1]);
}

RL_TEST(hash_is_the_function_s_or_the_pointer, "S-SRC-6",
        "The hash of a source is hash(info), or the info pointer without a hash function") {
    char a = 'a';
    RLSourceContext context = letter_context(&a);
    RLSourceRef plain = RLSourceCreate(0, &context);
    context.hash = hash_constant;
    RLSourceRef hashed = RLSourceCreate(0, &context);
    ck_assert_uint_eq(RLHash(plain), (RLHashCode)(uintptr_t)&a);
    ck_assert_uint_eq(RLHash(hashed), 42);
    RLRelease(plain);
    RLRelease(hashed);
}

RL_TEST(sources_whose_hashes_collide_stay_apart, "S-SRC-6 S-SRC-8",
        "A hundred unequal sources with one hash are all members, and each can be removed alone") {
    enum { many = 100 };
    static char letters[many];
    RLSourceRef sources[many];
    RLRunLoopRef loop = RLGetCurrent();
    for (int i = 0; i < many; i++) {
        letters[i] = (char)i;
        RLSourceContext context = letter_context(&letters[i]);
        context.hash = hash_constant;
        context.equal = equal_when_same_letter;
        sources[i] = RLSourceCreate(0, &context);
        RLAddSource(loop, sources[i], kRLDefaultMode);
    }
    for (int i = 0; i < many; i += 2) RLRemoveSource(loop, sources[i], kRLDefaultMode);
    for (int i = 0; i < many; i++) {
        ck_assert_int_eq(RLContainsSource(loop, sources[i], kRLDefaultMode), i % 2);
        RLRelease(sources[i]);
    }
}

/* Validity and the end of the context */

RL_TEST(invalidation_clears_the_signal_and_is_final, "S-SRC-9 S-SRC-12 S-SRC-28",
        "Invalidation makes a source invalid at once and clears its signal; again it does "
        "nothing") {
    Probe probe = {.name = "s"};
    RLSourceRef source = probe_source(&probe, 0);
    ck_assert(RLSourceIsValid(source));
    RLSourceSignal(source);
    ck_assert(RLSourceIsSignalled(source));
    RLSourceInvalidate(source);
    ck_assert(!RLSourceIsValid(source));
    ck_assert(!RLSourceIsSignalled(source));
    RLSourceInvalidate(source);
    RLSourceSignal(source);
    ck_assert(!RLSourceIsValid(source));
    ck_assert(!RLSourceIsSignalled(source));
    RLRelease(source);
}

RL_TEST(invalidation_keeps_the_context, "S-SRC-11",
        "The context stays readable after invalidation and is released when the source dies") {
    static Probe probe = {.counted = true};
    RLSourceRef source = probe_source(&probe, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLSourceInvalidate(source);
    RLSourceContext stored = {0};
    RLSourceGetContext(source, &stored);
    ck_assert_ptr_eq(stored.info, &probe);
    ck_assert(stored.perform != NULL && stored.release != NULL);
    ck_assert_int_eq(probe.releases, 0);
    RLRelease(source);
    ck_assert_int_eq(probe.releases, 1);
    ck_assert_int_eq(probe.retains, 1);
}

RL_TEST(the_last_release_releases_the_context, "S-SRC-14",
        "Dropping the last reference to a source that is in no loop releases its context once") {
    static Probe never_added = {.counted = true}, removed = {.counted = true};
    RLSourceRef first = probe_source(&never_added, 0), second = probe_source(&removed, 0);
    RLRetain(first);
    RLRelease(first);
    ck_assert_int_eq(never_added.releases, 0);
    RLRelease(first);
    ck_assert_int_eq(never_added.releases, 1);
    RLAddSource(RLGetCurrent(), second, kRLDefaultMode);
    RLSourceSignal(second);
    RLRelease(second);
    ck_assert_int_eq(removed.releases, 0);
    RLRemoveSource(RLGetCurrent(), second, kRLDefaultMode);
    ck_assert_int_eq(removed.releases, 1);
    ck_assert_int_eq(removed.cancels, 1);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

/* SPDX-License-Identifier: MIT */
/* RLDataRef: bytes with an owner. */
#include "support.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

RL_TEST(data_copies_its_bytes, "S-REF-1 S-ARG-7",
        "An object keeps a copy of the bytes it was made of, and their number") {
    char bytes[] = "some\0bytes";
    RLDataRef data = RLDataCreate(bytes, sizeof bytes);
    ck_assert_ptr_nonnull(data);
    memset(bytes, 'x', sizeof bytes);
    ck_assert_uint_eq(RLDataGetLength(data), sizeof bytes);
    ck_assert(memcmp(RLDataGetBytePtr(data), "some\0bytes", sizeof bytes) == 0);
    ck_assert(RLDataGetBytePtr(data) != (const void *)bytes);
    ck_assert_uint_eq(RLGetTypeIDOf(data), RLDataGetTypeID());
    RLRelease(data);
}

RL_TEST(data_may_be_empty, "S-ARG-1",
        "No bytes, with or without an address, make an object of length 0") {
    RLDataRef data = RLDataCreate("", 0), null_data = RLDataCreate(NULL, 0);
    ck_assert_ptr_nonnull(data);
    ck_assert_ptr_nonnull(null_data);
    ck_assert_uint_eq(RLDataGetLength(data), 0);
    ck_assert_uint_eq(RLDataGetLength(null_data), 0);
    RLRelease(data);
    RLRelease(null_data);
}

RL_TEST(null_data_has_length_zero, "S-ARG-1", "NULL data has length 0 and no bytes") {
    ck_assert_uint_eq(RLDataGetLength(NULL), 0);
    ck_assert_ptr_null(RLDataGetBytePtr(NULL));
}

RL_TEST(data_may_be_large, "S-REF-1", "A megabyte is kept as it is") {
    const size_t length = 1 << 20;
    unsigned char *bytes = malloc(length);
    for (size_t i = 0; i < length; i++) bytes[i] = (unsigned char)(i * 31 >> 3);
    RLDataRef data = RLDataCreate(bytes, length);
    ck_assert_uint_eq(RLDataGetLength(data), length);
    ck_assert(memcmp(RLDataGetBytePtr(data), bytes, length) == 0);
    free(bytes);
    RLRelease(data);
}

RL_TEST(data_of_the_same_bytes_are_equal, "S-REF-1",
        "Objects of the same bytes are equal and hash alike, others are not equal") {
    RLDataRef one = RLDataCreate("bytes", 5), same = RLDataCreate("bytes", 5);
    RLDataRef other = RLDataCreate("bytez", 5), shorter = RLDataCreate("byte", 4);
    ck_assert(RLEqual(one, one) && RLEqual(one, same));
    ck_assert(!RLEqual(one, other) && !RLEqual(one, shorter) && !RLEqual(shorter, one));
    ck_assert(!RLEqual(one, RLGetCurrent()));
    ck_assert_uint_eq(RLHash(one), RLHash(same));
    RLRelease(one);
    RLRelease(same);
    RLRelease(other);
    RLRelease(shorter);
}

RL_TEST(bytes_stay_where_they_are, "S-REF-3",
        "The address of the bytes is the same for the life of the object, on every thread") {
    RLDataRef data = RLDataCreate("stay", 4);
    const void *bytes = RLDataGetBytePtr(data);
    RLRetain(data);
    ck_assert_ptr_eq(RLDataGetBytePtr(data), bytes);
    RLRelease(data);
    ck_assert_ptr_eq(RLDataGetBytePtr(data), bytes);
    ck_assert(memcmp(bytes, "stay", 4) == 0);
    RLRelease(data);
}

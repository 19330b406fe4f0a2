/* SPDX-License-Identifier: MIT */
/* Objects: references, allocators, data, collections, numbers. */
#include "traces.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static CFStringRef text(const char *bytes) { return CFStringCreateWithCString(NULL, bytes, kCFStringEncodingUTF8); }

SCENARIO(references_are_counted, "S-CF-2") {
    CFDataRef data = CFDataCreate(NULL, (const UInt8 *)"abc", 3);
    CFDataRef other = CFDataCreate(NULL, (const UInt8 *)"abc", 3);
    yes("same", CFRetain(data) == data);
    CFRelease(data);
    yes("equal", CFEqual(data, other));
    yes("hashes", CFHash(data) == CFHash(other));
    yes("type", CFGetTypeID(data) == CFDataGetTypeID());
    CFStringRef string = text("abc");
    yes("different types", CFEqual(data, string));
    sayNew("data", CFCopyTypeIDDescription(CFDataGetTypeID()));
    sayNew("string", CFCopyTypeIDDescription(CFStringGetTypeID()));
    sayNew("array", CFCopyTypeIDDescription(CFArrayGetTypeID()));
    sayNew("timer", CFCopyTypeIDDescription(CFRunLoopTimerGetTypeID()));
    sayNew("loop", CFCopyTypeIDDescription(CFRunLoopGetTypeID()));
    sayNew("source", CFCopyTypeIDDescription(CFRunLoopSourceGetTypeID()));
    sayNew("observer", CFCopyTypeIDDescription(CFRunLoopObserverGetTypeID()));
    sayNew("socket", CFCopyTypeIDDescription(CFSocketGetTypeID()));
    sayNew("number", CFCopyTypeIDDescription(CFNumberGetTypeID()));
    sayNew("boolean", CFCopyTypeIDDescription(CFBooleanGetTypeID()));
    sayNew("null", CFCopyTypeIDDescription(CFNullGetTypeID()));
    CFRelease(data);
    CFRelease(other);
    CFRelease(string);
}

SCENARIO(data_change, "S-CF-12") {
    CFMutableDataRef data = CFDataCreateMutable(NULL, 0);
    CFDataAppendBytes(data, (const UInt8 *)"hello world", 11);
    CFDataDeleteBytes(data, CFRangeMake(5, 1));
    CFDataReplaceBytes(data, CFRangeMake(0, 1), (const UInt8 *)"JJ", 2);
    say("%.*s", (int)CFDataGetLength(data), (const char *)CFDataGetBytePtr(data));
    CFDataSetLength(data, 3);
    CFDataIncreaseLength(data, 2);
    number("length", CFDataGetLength(data));
    number("last", CFDataGetBytePtr(data)[4]);
    CFDataGetMutableBytePtr(data)[0] = 'X';
    UInt8 part[2];
    CFDataGetBytes(data, CFRangeMake(0, 2), part);
    say("%.2s", (char *)part);
    CFDataAppendBytes(data, CFDataGetBytePtr(data), CFDataGetLength(data));
    number("doubled", CFDataGetLength(data));
    CFDataRef copy = CFDataCreateCopy(NULL, data);
    yes("equal", CFEqual(copy, data));
    yes("hashes", CFHash(copy) == CFHash(data));
    CFDataSetLength(data, 0);
    yes("still equal", CFEqual(copy, data));
    number("copy", CFDataGetLength(copy));
    CFDataRef none = CFDataCreate(NULL, NULL, 0);
    number("none", CFDataGetLength(none));
    CFMutableDataRef more = CFDataCreateMutableCopy(NULL, 0, copy);
    CFDataAppendBytes(more, (const UInt8 *)"!", 1);
    number("more", CFDataGetLength(more));
    CFRelease(more), CFRelease(none), CFRelease(copy), CFRelease(data);
}

SCENARIO(data_are_searched, "S-CF-8") {
    CFDataRef data = CFDataCreate(NULL, (const UInt8 *)"abcabc", 6), part = CFDataCreate(NULL, (const UInt8 *)"bc", 2);
    CFRange found = CFDataFind(data, part, CFRangeMake(0, 6), 0);
    say("%ld,%ld", found.location, found.length);
    found = CFDataFind(data, part, CFRangeMake(0, 6), kCFDataSearchBackwards);
    say("%ld,%ld", found.location, found.length);
    found = CFDataFind(data, part, CFRangeMake(0, 6), kCFDataSearchAnchored);
    say("%ld", found.location);
    found = CFDataFind(data, part, CFRangeMake(1, 2), kCFDataSearchAnchored);
    say("%ld", found.location);
    found = CFDataFind(data, part, CFRangeMake(2, 3), 0);
    say("%ld", found.location);
    CFRelease(data), CFRelease(part);
}

SCENARIO(bytes_are_taken_over, "S-CF-4") {
    static const UInt8 bytes[] = "static";
    CFDataRef data = CFDataCreateWithBytesNoCopy(NULL, bytes, 6, kCFAllocatorNull);
    yes("not copied", CFDataGetBytePtr(data) == bytes);
    CFRelease(data);
    data = CFDataCreateWithBytesNoCopy(NULL, (UInt8 *)calloc(5, 1), 5, kCFAllocatorMalloc);
    number("length", CFDataGetLength(data));
    CFRelease(data);
}

static int retains, releases;
static const void *countRetain(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    retains++;
    return value;
}
static void countRelease(CFAllocatorRef allocator, const void *value) {
    (void)allocator, (void)value;
    releases++;
}
static Boolean equalNumbers(const void *one, const void *two) { return *(const int *)one == *(const int *)two; }
static CFHashCode hashNumber(const void *one) { return (CFHashCode) * (const int *)one; }

static void sayValues(CFArrayRef array) {
    for (CFIndex index = 0; index < CFArrayGetCount(array); index++) say("%s", (const char *)CFArrayGetValueAtIndex(array, index));
}

static CFComparisonResult compareTexts(const void *one, const void *two, void *context) {
    (void)context;
    int order = strcmp((const char *)one, (const char *)two);
    return order < 0 ? kCFCompareLessThan : order > 0 ? kCFCompareGreaterThan : kCFCompareEqualTo;
}
static CFComparisonResult compareFirstLetters(const void *one, const void *two, void *context) {
    (void)context;
    return *(const char *)one < *(const char *)two ? kCFCompareLessThan : *(const char *)one > *(const char *)two ? kCFCompareGreaterThan : kCFCompareEqualTo;
}
static void sayText(const void *value, void *context) { say("%s%s", (const char *)context, (const char *)value); }

SCENARIO(arrays_change, "S-CF-11") {
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, NULL);
    const void *some[] = {"c", "a", "b"};
    CFArrayReplaceValues(array, CFRangeMake(0, 0), some, 3);
    CFArrayAppendValue(array, "d");
    CFArrayInsertValueAtIndex(array, 1, "i");
    sayValues(array);
    CFArrayExchangeValuesAtIndices(array, 0, 4);
    CFArraySetValueAtIndex(array, 5, "e");
    CFArraySetValueAtIndex(array, 0, "s");
    CFArrayRemoveValueAtIndex(array, 1);
    say("|");
    sayValues(array);
    CFArraySortValues(array, CFRangeMake(0, CFArrayGetCount(array)), compareTexts, NULL);
    say("|");
    sayValues(array);
    number("search", CFArrayBSearchValues(array, CFRangeMake(0, 5), "c", compareTexts, NULL));
    for (CFIndex from = 0; from < 5; from++) number("search from", CFArrayBSearchValues(array, CFRangeMake(from, 5 - from), CFArrayGetValueAtIndex(array, from), compareTexts, NULL));
    number("search none", CFArrayBSearchValues(array, CFRangeMake(0, 5), "d", compareTexts, NULL));
    number("search end", CFArrayBSearchValues(array, CFRangeMake(0, 5), "z", compareTexts, NULL));
    CFArrayApplyFunction(array, CFRangeMake(1, 2), sayText, (void *)"+");
    const void *values[2];
    CFArrayGetValues(array, CFRangeMake(3, 2), values);
    say("%s%s", (const char *)values[0], (const char *)values[1]);
    CFArrayReplaceValues(array, CFRangeMake(1, 3), some, 1);
    say("|");
    sayValues(array);
    CFArrayRef copy = CFArrayCreateCopy(NULL, array);
    CFArrayAppendArray(array, copy, CFRangeMake(1, 2));
    say("|");
    sayValues(array);
    number("count", CFArrayGetCountOfValue(array, CFRangeMake(0, 5), some[0]));
    number("first", CFArrayGetFirstIndexOfValue(array, CFRangeMake(0, 5), some[0]));
    number("last", CFArrayGetLastIndexOfValue(array, CFRangeMake(0, 5), some[0]));
    number("none", CFArrayGetFirstIndexOfValue(array, CFRangeMake(0, 5), some));
    yes("contains", CFArrayContainsValue(array, CFRangeMake(2, 0), some[0]));
    CFArrayRemoveAllValues(array);
    number("left", CFArrayGetCount(array));
    CFRelease(array), CFRelease(copy);
}

SCENARIO(sorting_is_stable, "S-CF-11") {
    const char *words[] = {"b1", "a1", "b2", "a2", "c1", "a3", "b3", "c2", "a4", "b4"};
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, NULL);
    for (int index = 0; index < 10; index++) CFArrayAppendValue(array, words[index]);
    CFArraySortValues(array, CFRangeMake(0, 10), compareFirstLetters, NULL);
    sayValues(array);
    CFRelease(array);
}

SCENARIO(arrays_hold_their_values, "S-CF-11") {
    CFArrayCallBacks callbacks = {0, countRetain, countRelease, NULL, equalNumbers};
    int one = 1, other = 1, two = 2;
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, &callbacks);
    CFArrayAppendValue(array, &one);
    CFArrayAppendValue(array, &two);
    number("retains", retains);
    yes("equal", CFArrayContainsValue(array, CFRangeMake(0, 2), &other));
    CFArraySetValueAtIndex(array, 0, &other);
    say("%d/%d", retains, releases);
    CFArrayRemoveValueAtIndex(array, 1);
    say("%d/%d", retains, releases);
    CFArrayRef copy = CFArrayCreateCopy(NULL, array);
    say("%d/%d", retains, releases);
    yes("equal", CFEqual(copy, array));
    CFRelease(array);
    CFRelease(copy);
    say("%d/%d", retains, releases);
}

SCENARIO(objects_live_in_each_other, "S-CF-11") {
    CFMutableArrayRef outer = CFArrayCreateMutable(NULL, 0, &kCFTypeArrayCallBacks);
    CFMutableDictionaryRef dictionary = CFDictionaryCreateMutable(NULL, 0, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
    CFStringRef key = text("key"), value = text("value"), again = text("key");
    CFDictionarySetValue(dictionary, key, value);
    CFArrayAppendValue(outer, dictionary);
    CFRelease(dictionary);
    CFRelease(value);
    sayString("found", (CFStringRef)CFDictionaryGetValue((CFDictionaryRef)CFArrayGetValueAtIndex(outer, 0), again));
    sayString("by constant", (CFStringRef)CFDictionaryGetValue((CFDictionaryRef)CFArrayGetValueAtIndex(outer, 0), CFSTR("key")));
    CFRelease(outer);
    CFRelease(key), CFRelease(again);
}

static void compareEndlessly(CFTypeRef one, CFTypeRef two) { CFEqual(one, two); }

static void describeEndlessly(CFTypeRef one, CFTypeRef two) {
    (void)two;
    CFCopyDescription(one);
}

/* In a child, with little stack to use up. */
static void sayHowItEnds(const char *word, void (*function)(CFTypeRef, CFTypeRef), CFTypeRef one, CFTypeRef two) {
    struct rlimit none = {0, 0}, little = {1 << 20, 1 << 20};
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        setrlimit(RLIMIT_CORE, &none), setrlimit(RLIMIT_STACK, &little);
        function(one, two);
        _exit(0);
    }
    waitpid(child, &status, 0);
    yes(word, WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

SCENARIO(collections_contain_themselves, "S-CF-26") {
    CFMutableArrayRef arrays[2];
    CFMutableDictionaryRef dictionaries[2];
    for (int index = 0; index < 2; index++) {
        arrays[index] = CFArrayCreateMutable(NULL, 0, &kCFTypeArrayCallBacks);
        CFArrayAppendValue(arrays[index], arrays[index]);
        dictionaries[index] = CFDictionaryCreateMutable(NULL, 0, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
        CFDictionarySetValue(dictionaries[index], CFSTR("itself"), dictionaries[index]);
    }
    number("hash", (long)CFHash(arrays[0]));
    number("hash", (long)CFHash(dictionaries[0]));
    yes("equal", CFEqual(arrays[0], arrays[0]) && CFEqual(dictionaries[0], dictionaries[0]));
    yes("contains", CFArrayContainsValue(arrays[0], CFRangeMake(0, 1), arrays[0]));
    sayHowItEnds("compared", compareEndlessly, arrays[0], arrays[1]);
    sayHowItEnds("compared", compareEndlessly, dictionaries[0], dictionaries[1]);
    sayHowItEnds("described", describeEndlessly, arrays[0], NULL);
    sayHowItEnds("described", describeEndlessly, dictionaries[0], NULL);
    for (int index = 0; index < 2; index++) {
        CFArrayRemoveAllValues(arrays[index]), CFDictionaryRemoveAllValues(dictionaries[index]);
        CFRelease(arrays[index]), CFRelease(dictionaries[index]);
    }
}

static void sum(const void *key, const void *value, void *context) { *(long *)context += (long)key * 100 + (long)value; }

SCENARIO(dictionaries_of_plain_pointers, "S-CF-11") {
    CFMutableDictionaryRef dictionary = CFDictionaryCreateMutable(NULL, 0, NULL, NULL);
    for (long index = 0; index < 1000; index++) CFDictionaryAddValue(dictionary, (void *)index, (void *)(index % 7));
    number("count", CFDictionaryGetCount(dictionary));
    for (long index = 0; index < 1000; index += 2) CFDictionaryRemoveValue(dictionary, (void *)index);
    number("count", CFDictionaryGetCount(dictionary));
    long lost = 0;
    for (long index = 1; index < 1000; index += 2) lost += CFDictionaryGetValue(dictionary, (void *)index) != (void *)(index % 7);
    number("lost", lost);
    yes("removed", CFDictionaryContainsKey(dictionary, (void *)4));
    CFDictionaryAddValue(dictionary, (void *)1, (void *)99);
    number("add again", (long)CFDictionaryGetValue(dictionary, (void *)1));
    CFDictionarySetValue(dictionary, (void *)1, (void *)99);
    number("set", (long)CFDictionaryGetValue(dictionary, (void *)1));
    CFDictionaryReplaceValue(dictionary, (void *)2, (void *)5);
    yes("replaced none", CFDictionaryContainsKey(dictionary, (void *)2));
    CFDictionaryReplaceValue(dictionary, (void *)3, (void *)55);
    number("replaced", (long)CFDictionaryGetValue(dictionary, (void *)3));
    number("values", CFDictionaryGetCountOfValue(dictionary, (void *)55));
    yes("contains", CFDictionaryContainsValue(dictionary, (void *)77));
    number("keys", CFDictionaryGetCountOfKey(dictionary, (void *)3));
    const void *value = NULL;
    yes("present", CFDictionaryGetValueIfPresent(dictionary, (void *)3, &value));
    number("value", (long)value);
    long total = 0;
    CFDictionaryApplyFunction(dictionary, sum, &total);
    number("sum", total);
    const void *keys[500], *values[500];
    CFDictionaryGetKeysAndValues(dictionary, keys, values);
    long wrong = 0;
    for (int index = 0; index < 500; index++) wrong += CFDictionaryGetValue(dictionary, keys[index]) != values[index];
    number("wrong", wrong);
    CFDictionaryRef copy = CFDictionaryCreateCopy(NULL, dictionary);
    yes("equal", CFEqual(copy, dictionary));
    CFDictionaryRemoveAllValues(dictionary);
    number("left", CFDictionaryGetCount(dictionary));
    yes("equal", CFEqual(copy, dictionary));
    CFRelease(copy), CFRelease(dictionary);
}

SCENARIO(dictionaries_of_objects, "S-CF-11") {
    const void *keys[] = {CFSTR("one"), CFSTR("two"), CFSTR("one")}, *values[] = {CFSTR("1"), CFSTR("2"), CFSTR("3")};
    CFDictionaryRef dictionary = CFDictionaryCreate(NULL, keys, values, 3, &kCFTypeDictionaryKeyCallBacks, &kCFTypeDictionaryValueCallBacks);
    number("count", CFDictionaryGetCount(dictionary));
    sayString("one", (CFStringRef)CFDictionaryGetValue(dictionary, CFSTR("one")));
    CFMutableDictionaryRef copy = CFDictionaryCreateMutableCopy(NULL, 0, dictionary);
    yes("equal", CFEqual(copy, dictionary));
    yes("hashes", CFHash(copy) == CFHash(dictionary));
    CFDictionarySetValue(copy, CFSTR("two"), CFSTR("zwei"));
    yes("equal", CFEqual(copy, dictionary));
    /* Keys that are copied do not change with the string that they were. */
    CFMutableDictionaryRef copying = CFDictionaryCreateMutable(NULL, 0, &kCFCopyStringDictionaryKeyCallBacks, NULL);
    CFMutableStringRef key = CFStringCreateMutable(NULL, 0);
    CFStringAppend(key, CFSTR("before"));
    CFDictionarySetValue(copying, key, "value");
    CFStringAppend(key, CFSTR(" after"));
    yes("kept", CFDictionaryContainsKey(copying, CFSTR("before")));
    CFRelease(key), CFRelease(copying), CFRelease(copy), CFRelease(dictionary);
}

SCENARIO(sets_keep_one_of_equals, "S-CF-11") {
    CFSetCallBacks callbacks = {0, countRetain, countRelease, NULL, equalNumbers, hashNumber};
    int one = 1, other = 1, two = 2;
    CFMutableSetRef set = CFSetCreateMutable(NULL, 0, &callbacks);
    CFSetAddValue(set, &one);
    CFSetAddValue(set, &other);
    CFSetAddValue(set, &two);
    number("count", CFSetGetCount(set));
    yes("first", CFSetGetValue(set, &other) == &one);
    CFSetSetValue(set, &other);
    yes("second", CFSetGetValue(set, &one) == &other);
    CFSetReplaceValue(set, &one);
    yes("first", CFSetGetValue(set, &one) == &one);
    say("%d/%d", retains, releases);
    const void *value = NULL;
    yes("present", CFSetGetValueIfPresent(set, &other, &value));
    number("of value", CFSetGetCountOfValue(set, &two));
    CFSetRemoveValue(set, &two);
    yes("contains", CFSetContainsValue(set, &two));
    CFSetRef copy = CFSetCreateCopy(NULL, set);
    yes("equal", CFEqual(copy, set));
    CFSetRemoveAllValues(set);
    say("%d/%d", retains, releases);
    CFRelease(copy), CFRelease(set);
    say("%d/%d", retains, releases);
}

static void sayNumber(CFNumberType type, const void *value) {
    CFNumberRef made = CFNumberCreate(NULL, type, value);
    SInt8 small = 0;
    SInt32 middle = 0;
    SInt64 large = 0;
    Float32 single = 0;
    double real = 0;
    Boolean a = CFNumberGetValue(made, kCFNumberSInt8Type, &small), b = CFNumberGetValue(made, kCFNumberSInt32Type, &middle),
            c = CFNumberGetValue(made, kCFNumberSInt64Type, &large), d = CFNumberGetValue(made, kCFNumberFloat32Type, &single),
            e = CFNumberGetValue(made, kCFNumberDoubleType, &real);
    say("[%s%d %s%d %s%lld %s%.9g %s%.17g size %ld real %d]", a ? "" : "~", small, b ? "" : "~", middle, c ? "" : "~",
        (long long)large, d ? "" : "~", single, e ? "" : "~", real, (long)CFNumberGetByteSize(made), CFNumberIsFloatType(made));
    CFRelease(made);
}

SCENARIO(numbers_convert, "S-CF-13") {
    int small = 5, negative = -3, middle = 70000;
    long long large = 5000000000LL, huge = 9007199254740993LL;
    double half = 2.5, whole = 3.0, big = 1e30;
    float third = 1.0f / 3;
    short shorty = 300;
    char letter = 'a';
    sayNumber(kCFNumberIntType, &small);
    sayNumber(kCFNumberIntType, &negative);
    sayNumber(kCFNumberIntType, &middle);
    sayNumber(kCFNumberLongLongType, &large);
    sayNumber(kCFNumberSInt64Type, &huge);
    sayNumber(kCFNumberDoubleType, &whole);
    sayNumber(kCFNumberDoubleType, &half);
    sayNumber(kCFNumberFloatType, &third);
    sayNumber(kCFNumberShortType, &shorty);
    sayNumber(kCFNumberCharType, &letter);
    (void)big;
}

static CFNumberRef ofInt(int value) { return CFNumberCreate(NULL, kCFNumberIntType, &value); }
static CFNumberRef ofDouble(double value) { return CFNumberCreate(NULL, kCFNumberDoubleType, &value); }

SCENARIO(numbers_compare_by_value, "S-CF-13") {
    CFNumberRef five = ofInt(5), six = ofInt(6), real = ofDouble(5.0), half = ofDouble(5.5);
    yes("equal", CFEqual(five, real));
    yes("hashes", CFHash(five) == CFHash(real));
    number("less", CFNumberCompare(five, six, NULL));
    number("greater", CFNumberCompare(half, five, NULL));
    number("same", CFNumberCompare(five, real, NULL));
    number("infinite", CFNumberCompare(kCFNumberPositiveInfinity, six, NULL));
    number("negative", CFNumberCompare(kCFNumberNegativeInfinity, six, NULL));
    yes("boolean", CFBooleanGetValue(kCFBooleanTrue) && !CFBooleanGetValue(kCFBooleanFalse));
    yes("booleans differ", CFEqual(kCFBooleanTrue, kCFBooleanFalse));
    CFRelease(five), CFRelease(six), CFRelease(real), CFRelease(half);
}

SCENARIO(dates_compare, "S-CF-2") {
    CFDateRef one = CFDateCreate(NULL, 100), two = CFDateCreate(NULL, 150.5), same = CFDateCreate(NULL, 100);
    number("order", CFDateCompare(one, two, NULL));
    say("%g", CFDateGetTimeIntervalSinceDate(two, one));
    yes("equal", CFEqual(one, same));
    yes("hashes", CFHash(one) == CFHash(same));
    say("%.1f %.1f", kCFAbsoluteTimeIntervalSince1970, kCFAbsoluteTimeIntervalSince1904);
    CFRelease(one), CFRelease(two), CFRelease(same);
}

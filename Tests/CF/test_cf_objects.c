/* SPDX-License-Identifier: MIT */
/* Objects of the CoreFoundation interface: what the toolchain's CoreFoundation does not show on Linux. */
#include "../C/support.h"

#include <malloc.h>
#include <CoreFoundation/CoreFoundation.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Counts {
    int made, freed, retained, released;
} Counts;

static void *count_allocate(CFIndex size, CFOptionFlags hint, void *info) {
    (void)hint;
    ((Counts *)info)->made++;
    return malloc((size_t)size);
}
static void *count_reallocate(void *memory, CFIndex size, CFOptionFlags hint, void *info) {
    (void)hint, (void)info;
    return realloc(memory, (size_t)size);
}
static void count_free(void *memory, void *info) {
    ((Counts *)info)->freed++;
    free(memory);
}
static const void *count_retain(const void *info) {
    ((Counts *)info)->retained++;
    return info;
}
static void count_release(const void *info) { ((Counts *)info)->released++; }

static CFAllocatorRef counting(Counts *counts, CFAllocatorRef maker) {
    CFAllocatorContext context = {0, counts, count_retain, count_release, NULL, count_allocate, count_reallocate, count_free, NULL};
    return CFAllocatorCreate(maker, &context);
}

RL_TEST(allocators_give_all_memory_of_an_object, "S-CF-4", "What an allocator gave for an object it gets back, and it lives as long") {
    Counts counts = {0, 0, 0, 0};
    CFAllocatorRef allocator = counting(&counts, NULL);
    ck_assert_int_eq(counts.retained, 1);
    CFTypeRef objects[] = {
        CFStringCreateWithCString(allocator, "text", kCFStringEncodingUTF8),
        CFDataCreate(allocator, (const UInt8 *)"bytes", 5),
        CFArrayCreateMutable(allocator, 0, &kCFTypeArrayCallBacks),
        CFDictionaryCreateMutable(allocator, 0, NULL, NULL),
        CFDateCreate(allocator, 1),
    };
    CFArrayAppendValue((CFMutableArrayRef)objects[2], objects[0]);
    CFDictionarySetValue((CFMutableDictionaryRef)objects[3], "key", "value");
    for (size_t index = 0; index < sizeof objects / sizeof *objects; index++) ck_assert(CFGetAllocator(objects[index]) == allocator);
    CFRelease(allocator);
    ck_assert_int_eq(counts.released, 0);
    for (size_t index = 0; index < sizeof objects / sizeof *objects; index++) CFRelease(objects[index]);
    ck_assert_int_gt(counts.made, 5);
    ck_assert_int_eq(counts.made, counts.freed);
    ck_assert_int_eq(counts.released, 1);
}

RL_TEST(allocators_reallocate, "S-CF-4", "The calls that hand out plain memory use the functions of the context") {
    Counts counts = {0, 0, 0, 0};
    CFAllocatorRef allocator = counting(&counts, NULL);
    void *memory = CFAllocatorAllocate(allocator, 10, 0);
    memory = CFAllocatorReallocate(allocator, memory, 2000, 0);
    memset(memory, 1, 2000);
    ck_assert_ptr_null(CFAllocatorReallocate(allocator, memory, 0, 0));
    ck_assert_int_eq(counts.made, counts.freed);
    ck_assert_int_eq(CFAllocatorGetPreferredSizeForSize(allocator, 33, 0), 33);
    ck_assert_ptr_null(CFAllocatorAllocate(allocator, 0, 0));
    CFAllocatorContext context = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    CFAllocatorGetContext(allocator, &context);
    ck_assert(context.info == &counts && context.allocate == count_allocate);
    CFRelease(allocator);
}

RL_TEST(an_allocator_may_make_itself, "S-CF-5", "By kCFAllocatorUseContext the memory of the allocator is its own") {
    Counts counts = {0, 0, 0, 0};
    CFAllocatorRef allocator = counting(&counts, kCFAllocatorUseContext);
    ck_assert_int_eq(counts.made, 1);
    CFRelease(CFDateCreate(allocator, 0));
    CFRelease(allocator);
    ck_assert_int_eq(counts.made, 2);
    ck_assert_int_eq(counts.freed, 2);
    ck_assert_int_eq(counts.released, 1);
}

RL_TEST(the_default_allocator_is_the_threads, "S-CF-5", "NULL means what the thread has set, and nothing changes on other threads") {
    Counts counts = {0, 0, 0, 0};
    ck_assert(CFAllocatorGetDefault() == kCFAllocatorSystemDefault);
    /* What was a default stays for good. */
    static CFAllocatorRef allocator;
    allocator = counting(&counts, NULL);
    CFAllocatorSetDefault(allocator);
    CFRelease(CFDateCreate(NULL, 0));
    ck_assert_int_eq(counts.made, 1);
    ck_assert(CFAllocatorGetDefault() == allocator);
    CFAllocatorSetDefault(kCFAllocatorSystemDefault);
    CFRelease(CFDateCreate(NULL, 0));
    ck_assert_int_eq(counts.made, 1);
}

RL_TEST(the_null_allocator_gives_nothing, "S-CF-4", "No object can be made with kCFAllocatorNull, and it frees nothing") {
    ck_assert_ptr_null(CFStringCreateWithCString(kCFAllocatorNull, "x", kCFStringEncodingUTF8));
    ck_assert_ptr_null(CFDataCreate(kCFAllocatorNull, (const UInt8 *)"x", 1));
    ck_assert_ptr_null(CFArrayCreateMutable(kCFAllocatorNull, 0, NULL));
    ck_assert_ptr_null(CFAllocatorAllocate(kCFAllocatorNull, 5, 0));
    static char text[] = "kept";
    CFRelease(CFStringCreateWithCStringNoCopy(NULL, text, kCFStringEncodingUTF8, kCFAllocatorNull));
    ck_assert_str_eq(text, "kept");
    CFRelease(CFStringCreateWithCStringNoCopy(NULL, strdup("freed"), kCFStringEncodingUTF8, kCFAllocatorMalloc));
}

RL_TEST(references_are_counted, "S-CF-1 S-CF-2", "Objects of both libraries have one count, whichever library's calls change it") {
    CFDateRef date = CFDateCreate(NULL, 0);
    CFRetain(date);
    ck_assert_int_eq(CFGetRetainCount(date), 2);
    CFRelease(date);
    CFRelease(date);
    CFRunLoopTimerRef timer = CFRunLoopTimerCreate(NULL, 0, 0, 0, 0, NULL, NULL);
    CFIndex count = CFGetRetainCount(timer);
    RLRetain(timer);
    ck_assert_int_eq(CFGetRetainCount(timer), count + 1);
    CFRelease(timer);
    ck_assert(CFGetTypeID(timer) == CFRunLoopTimerGetTypeID() && CFGetTypeID(timer) == RLTimerGetTypeID());
    ck_assert(CFEqual(timer, timer));
    RLRelease(timer);
    RLDataRef data = RLDataCreate("abc", 3);
    CFMutableDataRef same = CFDataCreateMutable(NULL, 0);
    CFDataAppendBytes(same, (const UInt8 *)"abc", 3);
    ck_assert(CFEqual(data, same) && CFEqual(same, data) && CFHash(data) == CFHash(same));
    ck_assert(CFGetTypeID(data) == CFGetTypeID(same));
    ck_assert_int_eq(CFDataGetLength((CFDataRef)data), 3);
    CFRelease(data);
    CFRelease(same);
    ck_assert((void *)CFRunLoopGetCurrent() == (void *)RLGetCurrent());
}

static const void *kept_constant;

RL_TEST(constants_stay, "S-CF-6 S-CF-7", "Constants are retained and released without an effect, also at file scope, whatever their text") {
    static CFStringRef constant = CFSTR("static");
    for (int times = 0; times < 10; times++) CFRelease(constant);
    ck_assert_int_eq(CFStringGetLength(constant), 6);
    ck_assert(CFGetRetainCount(constant) == LONG_MAX);
    CFStringRef umlaut = CFSTR("gr\303\274n"), latin = CFSTR("gr\374n"), made = CFStringCreateWithCString(NULL, "gr\303\274n", kCFStringEncodingUTF8);
    ck_assert_int_eq(CFStringGetLength(umlaut), 4);
    ck_assert(CFEqual(umlaut, made) && CFHash(umlaut) == CFHash(made) && CFEqual(latin, made));
    ck_assert(CFStringCreateCopy(NULL, umlaut) == umlaut);
    CFRelease(made);
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, &kCFTypeArrayCallBacks);
    CFArrayAppendValue(array, constant);
    kept_constant = CFArrayGetValueAtIndex(array, 0);
    CFRelease(array);
    ck_assert(kept_constant == constant);
    CFRelease(kCFBooleanTrue), CFRelease(kCFNull), CFRelease(kCFNumberNaN), CFRelease(kCFAllocatorMalloc);
    ck_assert(CFBooleanGetValue(kCFBooleanTrue));
}

RL_TEST(capacities_limit_nothing, "S-CF-12", "More fits into a collection, a string and data than was said when they were made") {
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 1, NULL);
    CFMutableStringRef string = CFStringCreateMutable(NULL, 1);
    CFMutableDataRef data = CFDataCreateMutable(NULL, 1);
    CFMutableSetRef set = CFSetCreateMutable(NULL, 1, NULL);
    for (long index = 0; index < 100; index++) {
        CFArrayAppendValue(array, (void *)index);
        CFStringAppend(string, CFSTR("ab"));
        CFDataAppendBytes(data, (const UInt8 *)"abc", 3);
        CFSetAddValue(set, (void *)index);
    }
    ck_assert(CFArrayGetCount(array) == 100 && CFStringGetLength(string) == 200 && CFDataGetLength(data) == 300 && CFSetGetCount(set) == 100);
    CFRelease(array), CFRelease(string), CFRelease(data), CFRelease(set);
}

RL_TEST(descriptions_name_type_and_content, "S-CF-2", "A description tells the type, and what the object holds") {
    const void *values[] = {CFSTR("one"), CFSTR("two")};
    CFArrayRef array = CFArrayCreate(NULL, values, 2, &kCFTypeArrayCallBacks);
    CFStringRef description = CFCopyDescription(array);
    char text[256];
    ck_assert(CFStringGetCString(description, text, sizeof text, kCFStringEncodingUTF8));
    ck_assert_ptr_nonnull(strstr(text, "<CFArray 0x"));
    ck_assert_ptr_nonnull(strstr(text, "one"));
    CFRelease(description), CFRelease(array);
    description = CFCopyDescription(CFRunLoopGetCurrent());
    ck_assert(CFStringGetCString(description, text, sizeof text, kCFStringEncodingUTF8));
    ck_assert(strncmp(text, "<CFRunLoop 0x", 13) == 0);
    CFRelease(description);
}

/* What CFShow writes. */
static void expect_shown(CFTypeRef object, const char *expected) {
    int ends[2], error = dup(STDERR_FILENO);
    ck_assert_int_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    CFShow(object);
    dup2(error, STDERR_FILENO);
    char text[128] = "";
    ssize_t length = read(ends[0], text, sizeof text - 1);
    ck_assert_int_gt(length, 0);
    ck_assert_str_eq(text, expected);
    close(ends[0]), close(ends[1]), close(error);
}

RL_TEST(objects_are_shown, "S-CF-2", "CFShow writes a string's text, a number's value, and a word for NULL") {
    expect_shown(CFSTR("text \342\202\254"), "text \342\202\254\n");
    int value = 7;
    CFNumberRef number = CFNumberCreate(NULL, kCFNumberIntType, &value);
    expect_shown(number, "7\n");
    CFRelease(number);
    expect_shown(NULL, "(null)\n");
}

/* Mistakes */

#define MISTAKES(X) \
    X("CFRetain", CFRetain(NULL)) \
    X("CFRelease", CFRelease(NULL)) \
    X("CFRetain", CFRetain("0123456789abcdef")) \
    X("CFGetTypeID", CFGetTypeID(NULL)) \
    X("CFEqual", CFEqual(CFSTR("a"), NULL)) \
    X("CFHash", CFHash(NULL)) \
    X("CFCopyDescription", CFRelease(CFCopyDescription(NULL))) \
    X("CFStringGetLength", CFStringGetLength(NULL)) \
    X("CFStringGetLength", CFStringGetLength((CFStringRef)kCFNull)) \
    X("CFStringGetCharacterAtIndex", CFStringGetCharacterAtIndex(CFSTR("abc"), 3)) \
    X("CFStringGetCharacterAtIndex", CFStringGetCharacterAtIndex(CFSTR("abc"), -1)) \
    X("CFStringCreateWithSubstring", CFStringCreateWithSubstring(NULL, CFSTR("abc"), CFRangeMake(2, LONG_MAX))) \
    X("CFStringAppend", CFStringAppend((CFMutableStringRef)CFSTR("constant"), CFSTR("x"))) \
    X("CFStringCompare", CFStringCompare(CFSTR("a"), NULL, 0)) \
    X("CFStringCreateWithCString", CFStringCreateWithCString(NULL, NULL, kCFStringEncodingUTF8)) \
    X("CFStringCreateWithCStringNoCopy", CFStringCreateWithCStringNoCopy(NULL, NULL, kCFStringEncodingUTF8, kCFAllocatorNull)) \
    X("CFStringCreateWithBytesNoCopy", CFStringCreateWithBytesNoCopy(NULL, NULL, 1, kCFStringEncodingUTF8, false, kCFAllocatorNull)) \
    X("CFStringCreateWithCharactersNoCopy", CFStringCreateWithCharactersNoCopy(NULL, NULL, 1, kCFAllocatorNull)) \
    X("CFStringCreateWithFileSystemRepresentation", CFStringCreateWithFileSystemRepresentation(NULL, NULL)) \
    X("CFStringGetFileSystemRepresentation", CFStringGetFileSystemRepresentation(NULL, NULL, 0)) \
    X("CFStringCreateWithFormat", CFStringCreateWithFormat((CFAllocatorRef)kCFNull, NULL, CFSTR("x"))) \
    X("CFStringCreateWithFormat", CFStringCreateWithFormat(NULL, NULL, NULL)) \
    X("CFStringCreateWithFormat", CFStringCreateWithFormat(NULL, NULL, (CFStringRef)kCFNull)) \
    X("CFStringAppendFormat", CFStringAppendFormat(CFStringCreateMutable(NULL, 0), NULL, NULL)) \
    X("CFStringAppendFormat", CFStringAppendFormat((CFMutableStringRef)CFSTR("constant"), NULL, CFSTR("x"))) \
    X("CFArrayGetValueAtIndex", CFArrayGetValueAtIndex(CFArrayCreate(NULL, NULL, 0, NULL), 0)) \
    X("CFArrayGetCount", CFArrayGetCount((CFArrayRef)CFSTR("a"))) \
    X("CFArrayGetCount", CFArrayGetCount(NULL)) \
    X("CFArrayAppendValue", CFArrayAppendValue((CFMutableArrayRef)CFArrayCreate(NULL, NULL, 0, NULL), "x")) \
    X("CFArrayCreate", CFArrayCreate(NULL, NULL, 1, NULL)) \
    X("CFArrayGetValues", CFArrayGetValues(CFArrayCreate(NULL, NULL, 0, NULL), CFRangeMake(0, 1), NULL)) \
    X("CFDictionaryGetValue", CFDictionaryGetValue((CFDictionaryRef)CFSetCreate(NULL, NULL, 0, NULL), "x")) \
    X("CFSetAddValue", CFSetAddValue((CFMutableSetRef)CFSetCreate(NULL, NULL, 0, NULL), "x")) \
    X("CFDataGetBytes", CFDataGetBytes(CFDataCreate(NULL, NULL, 0), CFRangeMake(0, 1), NULL)) \
    X("CFDataCreate", CFDataCreate(NULL, (const UInt8 *)"", -1)) \
    X("CFDataGetLength", CFDataGetLength((CFDataRef)CFSTR("a"))) \
    X("CFDataAppendBytes", CFDataAppendBytes((CFMutableDataRef)CFDataCreate(NULL, NULL, 0), (const UInt8 *)"a", 1)) \
    X("CFNumberCreate", CFNumberCreate(NULL, (CFNumberType)99, "")) \
    X("CFNumberGetValue", CFNumberGetValue((CFNumberRef)CFSTR("1"), kCFNumberIntType, NULL)) \
    X("CFBooleanGetValue", CFBooleanGetValue((CFBooleanRef)CFSTR("1"))) \
    X("CFDateGetAbsoluteTime", CFDateGetAbsoluteTime(NULL)) \
    X("CFAllocatorCreate", CFAllocatorCreate(NULL, NULL)) \
    X("CFDataCreate", CFDataCreate((CFAllocatorRef)CFSTR("none"), NULL, 0)) \
    X("CFRunLoopRunInMode", CFRunLoopRunInMode((CFRunLoopMode)kCFNull, 0, false)) \
    X("CFSocketSetAddress", CFSocketSetAddress(NULL, (CFDataRef)CFSTR("x")))

static int mistake_wanted;
/* A sanitizer takes a second to report the end of a process. */
#if defined(WITH_ADDRESS_SANITIZER) || defined(WITH_THREAD_SANITIZER)
enum { STEP = 7 };
#else
enum { STEP = 1 };
#endif

static void make_mistake(int wanted) {
    int number = 0;
#define X(name, expression) if (number++ == wanted) (void)(expression);
    MISTAKES(X)
#undef X
}

static const char *const mistake_names[] = {
#define X(name, expression) name,
    MISTAKES(X)
#undef X
};

RL_TEST(mistakes_name_their_call, "S-CF-2 S-CF-3", "NULL, wrong types and places outside an object end the process with the name of the call") {
    for (mistake_wanted = 0; mistake_wanted < (int)(sizeof mistake_names / sizeof *mistake_names); mistake_wanted += STEP) {
        int ends[2];
        ck_assert_int_eq(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], STDERR_FILENO);
            make_mistake(mistake_wanted);
            _exit(0);
        }
        close(ends[1]);
        char text[256] = "";
        ssize_t length = read(ends[0], text, sizeof text - 1);
        (void)length;
        close(ends[0]);
        int status = 0;
        waitpid(child, &status, 0);
#if defined(WITH_ADDRESS_SANITIZER) || defined(WITH_THREAD_SANITIZER) /* which end the process themselves */
        bool ended = status != 0;
#else
        bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
#endif
        ck_assert_msg(ended, "%s: status %d: %s", mistake_names[mistake_wanted], status, text);
        size_t name = strlen(mistake_names[mistake_wanted]);
        ck_assert_msg(strncmp(text, mistake_names[mistake_wanted], name) == 0 && text[name] == ':', "%s: %s", mistake_names[mistake_wanted], text);
    }
}

RL_TEST(strings_are_made_of_any_bytes, "S-CF-8", "Random bytes make a string or none in each encoding, and what they make converts back") {
    static const CFStringEncoding encodings[] = {kCFStringEncodingUTF8, kCFStringEncodingASCII, kCFStringEncodingISOLatin1, kCFStringEncodingMacRoman,
        kCFStringEncodingUTF16, kCFStringEncodingUTF16BE, kCFStringEncodingUTF16LE, kCFStringEncodingUTF32, kCFStringEncodingUTF32LE};
    unsigned seed = 7;
    for (int times = 0; times < 9000; times++) {
        UInt8 bytes[16];
        size_t length = (size_t)(rand_r(&seed) % 17);
        for (size_t index = 0; index < length; index++) {
            int kind = rand_r(&seed) % 4;
            bytes[index] = (UInt8)(kind == 0 ? rand_r(&seed) : kind == 1 ? 0xc0 + rand_r(&seed) % 0x38 : kind == 2 ? 0x80 + rand_r(&seed) % 0x40 : rand_r(&seed) % 0x80);
        }
        CFStringEncoding encoding = encodings[times % 9];
        CFStringRef string = CFStringCreateWithBytes(NULL, bytes, (CFIndex)length, encoding, false);
        if (!string) continue;
        CFIndex used = 0;
        UInt8 back[64];
        /* ASCII's strange bytes are those of ISO Latin 1, and a part of a unit is no text. */
        if (encoding == kCFStringEncodingASCII) encoding = kCFStringEncodingISOLatin1;
        length -= length % (times % 9 < 4 ? 1 : times % 9 < 7 ? 2 : 4);
        CFIndex units = CFStringGetBytes(string, CFRangeMake(0, CFStringGetLength(string)), encoding, 0, false, back, sizeof back, &used);
        ck_assert_int_eq(units, CFStringGetLength(string));
        ck_assert_int_eq(used, (CFIndex)length);
        ck_assert(memcmp(back, bytes, length) == 0);
        CFMutableStringRef copy = CFStringCreateMutable(NULL, 0);
        for (CFIndex index = 0; index < CFStringGetLength(string); index++) {
            UniChar unit = CFStringGetCharacterAtIndex(string, index);
            CFStringAppendCharacters(copy, &unit, 1);
        }
        ck_assert(CFEqual(string, copy) && CFHash(string) == CFHash(copy));
        CFRelease(copy), CFRelease(string);
    }
}

/* Against plain arrays: a thousand keys of few values, added and removed at random. */
RL_TEST(tables_do_what_a_list_does, "S-CF-11", "Dictionaries of colliding keys hold what was added last and nothing that was removed") {
    static int values[64];
    static bool there[64];
    unsigned seed = 3;
    CFMutableDictionaryRef dictionary = CFDictionaryCreateMutable(NULL, 0, NULL, NULL);
    CFIndex count = 0;
    for (int times = 0; times < 50000; times++) {
        long key = rand_r(&seed) % 64;
        if (rand_r(&seed) % 2) {
            values[key] = rand_r(&seed);
            CFDictionarySetValue(dictionary, (void *)(key << 16), (void *)(long)values[key]);
            count += !there[key];
            there[key] = true;
        } else {
            CFDictionaryRemoveValue(dictionary, (void *)(key << 16));
            count -= there[key];
            there[key] = false;
        }
        long other = rand_r(&seed) % 64;
        ck_assert(CFDictionaryContainsKey(dictionary, (void *)(other << 16)) == there[other]);
        if (there[other]) ck_assert(CFDictionaryGetValue(dictionary, (void *)(other << 16)) == (void *)(long)values[other]);
        ck_assert_int_eq(CFDictionaryGetCount(dictionary), count);
    }
    CFRelease(dictionary);
}

static CFMutableArrayRef changed_array;
static CFMutableDictionaryRef changed_dictionary;
static int changes;

static void shorten(CFAllocatorRef allocator, const void *value) {
    (void)allocator, (void)value;
    if (changes-- > 0 && CFArrayGetCount(changed_array) > 0) CFArrayRemoveValueAtIndex(changed_array, 0);
}

static const void *empty(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    if (changes-- > 0) CFArrayRemoveAllValues(changed_array);
    return value;
}

static const void *fill(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    while (changes > 0) {
        const long key = 100 + --changes;
        CFDictionarySetValue(changed_dictionary, (void *)key, "filled");
    }
    return value;
}

static CFMutableArrayRef array_of(long count, const CFArrayCallBacks *callbacks) {
    changes = 0;
    changed_array = CFArrayCreateMutable(NULL, 0, callbacks);
    for (long value = 1; value <= count; value++) CFArrayAppendValue(changed_array, (void *)value);
    return changed_array;
}

RL_TEST(callbacks_may_change_their_collection, "S-CF-11", "Retain and release functions that remove or add values leave a collection that is whole") {
    CFArrayCallBacks releasing = {0, NULL, shorten, NULL, NULL}, retaining = {0, empty, NULL, NULL, NULL};
    const void *some[] = {(void *)7, (void *)8};
    CFMutableArrayRef array = array_of(6, &releasing);
    changes = 3;
    CFArrayReplaceValues(array, CFRangeMake(1, 4), some, 2);
    ck_assert_int_eq(CFArrayGetCount(array), 1);
    ck_assert_int_eq((long)CFArrayGetValueAtIndex(array, 0), 6);
    CFRelease(array);

    array = array_of(20, &retaining);
    changes = 1;
    CFArrayInsertValueAtIndex(array, 15, (void *)7);
    ck_assert_int_eq(CFArrayGetCount(array), 1);
    ck_assert_int_eq((long)CFArrayGetValueAtIndex(array, 0), 7);
    changes = 1;
    CFArrayReplaceValues(array, CFRangeMake(0, 1), some, 2);
    ck_assert_int_eq(CFArrayGetCount(array), 2);
    ck_assert_int_eq((long)CFArrayGetValueAtIndex(array, 1), 8);
    CFRelease(array);

    CFDictionaryValueCallBacks filling = {0, fill, NULL, NULL, NULL};
    changed_dictionary = CFDictionaryCreateMutable(NULL, 0, NULL, &filling);
    changes = 0;
    for (long key = 1; key < 6; key++) CFDictionarySetValue(changed_dictionary, (void *)key, "first");
    changes = 100;
    CFDictionarySetValue(changed_dictionary, (void *)5, "second");
    ck_assert_int_eq(CFDictionaryGetCount(changed_dictionary), 105);
    ck_assert_str_eq((const char *)CFDictionaryGetValue(changed_dictionary, (void *)5), "second");
    CFRelease(changed_dictionary);
}

static CFMutableSetRef changed_set;
static int let_go;
static const void *add_it_too(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    if (changes-- == 1) CFSetAddValue(changed_set, value);
    return value;
}
static void count_let_go(CFAllocatorRef allocator, const void *value) {
    (void)allocator, (void)value;
    let_go++;
}

/* Values whose release uses the collection that ends. */
static CFTypeRef ending;
static int uses_of_ending;
static void use_ending(CFAllocatorRef allocator, const void *value) {
    (void)allocator, (void)value;
    uses_of_ending++;
    CFRelease(CFRetain(ending));
    ck_assert_int_eq(CFGetRetainCount(ending), 0);
    CFArrayRef array = CFArrayCreate(NULL, &ending, 1, &kCFTypeArrayCallBacks);
    ck_assert_int_eq(CFGetRetainCount(ending), 1);
    CFRelease(array);
}
static void use_ending_data(void *bytes, void *info) {
    use_ending(NULL, info);
    free(bytes);
}

RL_TEST(a_collection_that_ends_may_be_used, "S-CF-11", "Functions that the last release of a collection or of data calls may retain and release it, and it ends once") {
    const void *values[] = {"a", "b", "c"};
    CFArrayCallBacks of_array = {0, NULL, use_ending, NULL, NULL};
    CFSetCallBacks of_set = {0, NULL, use_ending, NULL, NULL, NULL};
    CFDictionaryKeyCallBacks of_key = {0, NULL, use_ending, NULL, NULL, NULL};
    CFDictionaryValueCallBacks of_value = {0, NULL, use_ending, NULL, NULL};
    CFAllocatorContext context = {.deallocate = use_ending_data};
    CFAllocatorRef allocator = CFAllocatorCreate(NULL, &context);
    for (int i = 0; i < 5; i++) {
        uses_of_ending = 0;
        ending = i == 0   ? (CFTypeRef)CFArrayCreate(NULL, values, 3, &of_array)
                 : i == 1 ? (CFTypeRef)CFSetCreate(NULL, values, 3, &of_set)
                 : i == 2 ? (CFTypeRef)CFDictionaryCreate(NULL, values, values, 3, &of_key, NULL)
                 : i == 3 ? (CFTypeRef)CFDictionaryCreate(NULL, values, values, 3, NULL, &of_value)
                          : (CFTypeRef)CFDataCreateWithBytesNoCopy(NULL, malloc(100), 100, allocator);
        CFRelease(ending);
        ck_assert_int_eq(uses_of_ending, i == 4 ? 1 : 3);
    }
    CFRelease(allocator);
}

RL_TEST(a_key_that_its_own_retain_adds, "S-CF-11", "A retain function that adds the value that is being added leaves it in the set once") {
    CFSetCallBacks callbacks = {0, add_it_too, count_let_go, NULL, NULL, NULL};
    changed_set = CFSetCreateMutable(NULL, 0, &callbacks);
    changes = 1;
    let_go = 0;
    CFSetAddValue(changed_set, (void *)16);
    ck_assert_int_eq(CFSetGetCount(changed_set), 1);
    ck_assert_int_eq(let_go, 1);
    CFSetRemoveValue(changed_set, (void *)16);
    ck_assert_int_eq(let_go, 2);
    ck_assert(!CFSetContainsValue(changed_set, (void *)16));
    CFRelease(changed_set);
}

static void remove_key(const void *key, const void *value, void *calls) {
    ck_assert_ptr_eq(key, value);
    ++*(long *)calls;
    CFDictionaryRemoveValue(changed_dictionary, key);
}

RL_TEST(applied_functions_may_change_a_dictionary, "S-CF-11", "A function that removes the keys that it gets leaves a dictionary of the others") {
    for (long count = 1; count < 300; count++) {
        long calls = 0, left = 0;
        changed_dictionary = CFDictionaryCreateMutable(NULL, 0, NULL, NULL);
        for (long key = 1; key <= count; key++) CFDictionarySetValue(changed_dictionary, (void *)key, (void *)key);
        CFDictionaryApplyFunction(changed_dictionary, remove_key, &calls);
        for (long key = 1; key <= count; key++)
            if (CFDictionaryContainsKey(changed_dictionary, (void *)key)) left++;
        ck_assert_int_eq(CFDictionaryGetCount(changed_dictionary), left);
        ck_assert_int_eq(calls + left, count);
        CFRelease(changed_dictionary);
    }
}

RL_TEST(appending_a_format_needs_no_default, "S-CF-4", "CFStringAppendFormat takes its memory from the string's allocator alone") {
    CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
    CFAllocatorSetDefault(kCFAllocatorNull);
    CFStringAppendFormat(string, NULL, CFSTR("%d"), 5);
    CFAllocatorSetDefault(kCFAllocatorSystemDefault);
    ck_assert(CFEqual(string, CFSTR("5")));
    CFRelease(string);
}

RL_TEST(constants_are_those_of_their_library, "S-CF-6",
        "Constants of a library that is loaded where another one was have their own text") {
    char place[32];
    CFStringRef constant = (CFStringRef)(const void *)place;
    memcpy(place, CFSTR("erst \303\244"), 4 + sizeof "erst \303\244");
    ck_assert(CFStringHasPrefix(constant, CFSTR("erst")));
    ck_assert_int_eq(CFStringGetLength(constant), 6);
    memcpy(place, CFSTR("dann \303\266\303\266"), 4 + sizeof "dann \303\266\303\266");
    ck_assert(CFStringHasPrefix(constant, CFSTR("dann")));
    ck_assert_int_eq(CFStringGetLength(constant), 7);
}

RL_TEST(arrays_grow_and_shrink_at_any_place, "S-CF-11", "Values that are inserted and removed at the front, at the end and in between stay in their order") {
    enum { MOST = 300, STEPS = 20000 };
    const void *expected[MOST];
    int count = 0;
    unsigned random = 1;
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, NULL);
    for (uintptr_t step = 1; step <= STEPS; step++) {
        random = random * 1664525 + 1013904223;
        int place = random >> 30 == 0 ? 0 : random >> 30 == 1 ? count : (int)((random >> 8) % (unsigned)(count + 1));
        bool grows = step / 700 % 2 == 0 ? random >> 16 & 7 : !(random >> 16 & 7);
        if (count == 0 || (grows && count < MOST)) {
            memmove(expected + place + 1, expected + place, (size_t)(count - place) * sizeof *expected);
            expected[place] = (const void *)step;
            CFArrayInsertValueAtIndex(array, place, (const void *)step);
            count++;
        } else {
            if (place == count) place--;
            memmove(expected + place, expected + place + 1, (size_t)(count - place - 1) * sizeof *expected);
            CFArrayRemoveValueAtIndex(array, place);
            count--;
        }
        ck_assert_int_eq(CFArrayGetCount(array), count);
        for (int i = 0; i < count; i++) ck_assert_ptr_eq(CFArrayGetValueAtIndex(array, i), expected[i]);
    }
    CFArrayRemoveAllValues(array);
    CFArrayAppendValue(array, array);
    ck_assert_int_eq(CFArrayGetCount(array), 1);
    CFRelease(array);
}

RL_TEST(tables_forget_what_they_held, "S-THR-9 S-CF-11", "A dictionary that held many entries has the few that are left, and little memory") {
    enum { MANY = 100000 };
    CFMutableDictionaryRef table = CFDictionaryCreateMutable(NULL, 0, NULL, NULL);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (uintptr_t key = 1; key <= MANY; key++) CFDictionarySetValue(table, (const void *)(key << 32), (const void *)key);
    for (uintptr_t key = 4; key <= MANY; key++) CFDictionaryRemoveValue(table, (const void *)(key << 32));
    ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, before + 16384);
    for (uintptr_t key = 1; key <= 4; key++)
        ck_assert_ptr_eq(CFDictionaryGetValue(table, (const void *)(key << 32)), key < 4 ? (const void *)key : NULL);
    CFDictionaryRemoveAllValues(table);
    CFDictionarySetValue(table, table, table);
    ck_assert_int_eq(CFDictionaryGetCount(table), 1);
    CFRelease(table);
}

/* SPDX-License-Identifier: MIT */
/* Text without a byte order mark, long numbers, widths, zeros and infinities, keys that are replaced: what is rare and must not differ. */
#include "traces.h"

#include <math.h>
#include <string.h>

static void sayUnits(CFStringRef string) {
    if (!string) {
        say("NULL");
        return;
    }
    say("%ld:", (long)CFStringGetLength(string));
    for (CFIndex index = 0; index < CFStringGetLength(string) && index < 40; index++) say("%x", CFStringGetCharacterAtIndex(string, index));
    CFRelease(string);
}

static void sayBytes(const char *bytes, CFIndex count, CFStringEncoding encoding) {
    /* CoreFoundation does not read UTF-32 in the order in which it writes it. */
    for (int external = encoding == kCFStringEncodingUTF32; external < 2; external++)
        sayUnits(CFStringCreateWithBytes(NULL, (const UInt8 *)bytes, count, encoding, external != 0));
    CFDataRef data = CFDataCreate(NULL, (const UInt8 *)bytes, count);
    sayUnits(CFStringCreateFromExternalRepresentation(NULL, data, encoding));
    CFRelease(data);
}

SCENARIO(wide_text_has_an_order_without_a_mark, "S-CF-25") {
    static const CFStringEncoding encodings[] = {kCFStringEncodingUTF16, kCFStringEncodingUTF16BE, kCFStringEncodingUTF16LE,
        kCFStringEncodingUTF32, kCFStringEncodingUTF32BE, kCFStringEncodingUTF32LE};
    for (int index = 0; index < 6; index++) {
        for (CFIndex count = 2; count < 10; count++) sayBytes("\0\0\0a\0\0\0b\0", count, encodings[index]);
        sayBytes("a\0\0\0b\0\0\0", 8, encodings[index]);
    }
    sayBytes("\377\376a\0", 4, kCFStringEncodingUTF16);
    sayBytes("\376\377\0a", 4, kCFStringEncodingUTF16);
    sayBytes("\377\376\0\0a\0\0\0", 8, kCFStringEncodingUTF32);
    sayBytes("\0\0\376\377\0\0\0a", 8, kCFStringEncodingUTF32);
}

SCENARIO(ascii_keeps_bytes_that_are_none, "S-CF-25") {
    sayBytes("a\344z", 3, kCFStringEncodingASCII);
    sayUnits(CFStringCreateWithCString(NULL, "\377", kCFStringEncodingASCII));
}

SCENARIO(marks_of_utf8_are_no_text, "S-CF-25") {
    static const char *const texts[] = {"\357\273\277a", "\357\273\277\303\251", "a\357\273\277", "\357\273\277\357\273\277a", "\357\273\277"};
    for (int index = 0; index < 5; index++) {
        sayBytes(texts[index], (CFIndex)strlen(texts[index]), kCFStringEncodingUTF8);
        sayUnits(CFStringCreateWithCString(NULL, texts[index], kCFStringEncodingUTF8));
        CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
        CFStringAppendCString(string, texts[index], kCFStringEncodingUTF8);
        CFStringAppendCString(string, texts[index], kCFStringEncodingUTF8);
        sayUnits(string);
        sayUnits(CFStringCreateWithFormat(NULL, NULL, CFSTR("%s"), texts[index]));
    }
}

SCENARIO(formats_have_widths, "S-CF-9") {
    static const UniChar units[] = {'a', 0xe4, 0x20ac, 0};
#define UNITS(...) sayUnits(CFStringCreateWithFormat(NULL, NULL, __VA_ARGS__))
    UNITS(CFSTR("%5c|%-5c|%*c|"), 'x', 'y', 3, 'z');
    UNITS(CFSTR("%6S|%-6S|%.2S|%5.1S|%-5.1S|"), units, units, units, units, units);
    UNITS(CFSTR("%12s|%-12s|%2s|"), "gr\303\274n", "gr\303\274n", "gr\303\274n");
    UNITS(CFSTR("%10000d"), 7);
    UNITS(CFSTR("%.10000d|"), 7);
    UNITS(CFSTR("%*s|"), -2147483647 - 1, "abc");
#undef UNITS
}

SCENARIO(formats_are_any_units, "S-CF-9") {
    static const UniChar nul[] = {'a', 0, '%', 'd'}, half[] = {'a', 0xd800, '%', 'd', 0xdc00}, pair[] = {0xd83d, 0xde00, '%', 'd', 0xe4, 0x20ac};
    CFStringRef formats[] = {CFStringCreateWithCharacters(NULL, nul, 4), CFStringCreateWithCharacters(NULL, half, 5),
        CFStringCreateWithCharacters(NULL, pair, 6)};
    for (int index = 0; index < 3; index++) {
        sayUnits(CFStringCreateWithFormat(NULL, NULL, formats[index], 7));
        CFRelease(formats[index]);
    }
}

SCENARIO(numbers_are_printed_as_objects, "S-CF-9") {
    const double doubles[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1e20, 0.1, 1234567.0, -2.5, 1e300, 5e-324};
    for (size_t index = 0; index < sizeof doubles / sizeof *doubles; index++) {
        float single = (float)doubles[index];
        CFNumberRef number = CFNumberCreate(NULL, kCFNumberDoubleType, &doubles[index]);
        CFNumberRef narrow = CFNumberCreate(NULL, kCFNumberFloatType, &single);
        sayNew("double", CFStringCreateWithFormat(NULL, NULL, CFSTR("%@"), number));
        sayNew("float", CFStringCreateWithFormat(NULL, NULL, CFSTR("%@"), narrow));
        CFRelease(number), CFRelease(narrow);
    }
    sayNew("null", CFStringCreateWithFormat(NULL, NULL, CFSTR("%@"), kCFNull));
}

SCENARIO(equal_dates_have_equal_hashes, "S-CF-2") {
    CFDateRef zero = CFDateCreate(NULL, 0.0), negative = CFDateCreate(NULL, -0.0);
    yes("equal", CFEqual(zero, negative));
    yes("hashes", CFHash(zero) == CFHash(negative));
    CFRelease(zero), CFRelease(negative);
}

SCENARIO(numbers_have_any_number_of_digits, "S-CF-8") {
    char digits[700] = "0.";
    memset(digits + 2, '0', 598);
    memcpy(digits + 600, "1e600", 6);
    CFStringRef string = CFStringCreateWithCString(NULL, digits, kCFStringEncodingUTF8);
    say("%.17g", CFStringGetDoubleValue(string));
    CFRelease(string);
}

SCENARIO(empty_strings_have_bytes, "S-CF-8") {
    CFStringRef string = CFStringCreateWithCString(NULL, "", kCFStringEncodingUTF8);
    yes("pointer", CFStringGetCStringPtr(string, kCFStringEncodingUTF8) != NULL);
    CFRelease(string);
}

SCENARIO(only_case_is_ignored, "S-CF-10") {
    static const UniChar dotless[] = {0x131}, dotted[] = {0x130}, plain[] = {'i'}, large[] = {'I'};
    CFStringRef letters[] = {CFStringCreateWithCharacters(NULL, dotless, 1), CFStringCreateWithCharacters(NULL, dotted, 1),
        CFStringCreateWithCharacters(NULL, plain, 1), CFStringCreateWithCharacters(NULL, large, 1)};
    for (int one = 0; one < 4; one++)
        for (int two = 0; two < 4; two++) yes("same", CFStringCompare(letters[one], letters[two], kCFCompareCaseInsensitive) == 0);
    for (int one = 0; one < 4; one++) CFRelease(letters[one]);
}

static Boolean areEqual(const void *one, const void *two) { return (long)one % 10 == (long)two % 10; }
static CFHashCode hashOf(const void *value) { return (CFHashCode)((long)value % 10); }

static int retains, releases;
static const void *retain(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    retains++;
    return value;
}
static void release(CFAllocatorRef allocator, const void *value) {
    (void)allocator, (void)value;
    releases++;
}

SCENARIO(setting_a_value_sets_the_key, "S-CF-11") {
    CFDictionaryKeyCallBacks callbacks = {0, retain, release, NULL, areEqual, hashOf};
    CFMutableDictionaryRef dictionary = CFDictionaryCreateMutable(NULL, 0, &callbacks, NULL);
    const void *key = NULL, *value = NULL;
#define SAY (CFDictionaryGetKeysAndValues(dictionary, &key, &value), say("%ld=%ld %d/%d", (long)key, (long)value, retains, releases))
    CFDictionarySetValue(dictionary, (void *)1, (void *)100);
    SAY;
    CFDictionaryAddValue(dictionary, (void *)11, (void *)101);
    SAY;
    CFDictionarySetValue(dictionary, (void *)21, (void *)102);
    SAY;
    CFDictionaryReplaceValue(dictionary, (void *)31, (void *)103);
    SAY;
    CFDictionaryReplaceValue(dictionary, (void *)32, (void *)104);
    SAY;
#undef SAY
    CFRelease(dictionary);
    say("%d/%d", retains, releases);
}

SCENARIO(anchors_move_on, "S-CF-8") {
    static const CFStringCompareFlags options[] = {kCFCompareAnchored, kCFCompareAnchored | kCFCompareBackwards,
        kCFCompareAnchored | kCFCompareCaseInsensitive, kCFCompareAnchored | kCFCompareBackwards | kCFCompareCaseInsensitive};
    for (int index = 0; index < 4; index++) {
        CFMutableStringRef string = CFStringCreateMutableCopy(NULL, 0, CFSTR("aaAAbaAAaa"));
        number("count", CFStringFindAndReplace(string, CFSTR("a"), CFSTR("xy"), CFRangeMake(0, 10), options[index]));
        sayString("made", string);
        CFRelease(string);
    }
}

SCENARIO(replacing_takes_time_by_length, "S-CF-8") {
    enum { LENGTH = 3000000 };
    CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
    for (int index = 0; index < LENGTH / 10; index++) CFStringAppend(string, CFSTR("aaaaaaaaaa"));
    /* With a move of all the rest for each of them this takes minutes. */
    number("longer", CFStringFindAndReplace(string, CFSTR("a"), CFSTR("bc"), CFRangeMake(1, LENGTH - 2), 0));
    number("length", CFStringGetLength(string));
    number("shorter", CFStringFindAndReplace(string, CFSTR("CB"), CFSTR("d"), CFRangeMake(0, CFStringGetLength(string)), kCFCompareCaseInsensitive));
    number("length", CFStringGetLength(string));
    CFStringDelete(string, CFRangeMake(6, CFStringGetLength(string) - 12));
    sayString("ends", string);
    CFRelease(string);
}

SCENARIO(each_half_of_a_pair_is_lost, "S-CF-8") {
    static const CFStringEncoding encodings[] = {kCFStringEncodingASCII, kCFStringEncodingISOLatin1, kCFStringEncodingMacRoman};
    static const UniChar units[] = {'a', 0xd83d, 0xde00, 0xe4, 0xd83d};
    CFStringRef string = CFStringCreateWithCharacters(NULL, units, 5);
    for (int index = 0; index < 3; index++) {
        /* CoreFoundation does not return for Mac Roman that does not fit. */
        for (CFIndex room = index == 2 ? 8 : 0; room <= 8; room++) {
            UInt8 bytes[8];
            CFIndex used = 0;
            number("count", CFStringGetBytes(string, CFRangeMake(0, 3), encodings[index], '?', false, bytes, room, &used));
            say("%.*s", (int)used, (const char *)bytes);
        }
    }
    CFRelease(string);
}

SCENARIO(blanks_of_every_width_are_trimmed, "S-CF-8") {
    for (unsigned unit = 1; unit < 0x10000; unit++) {
        const UniChar units[] = {(UniChar)unit, '7', (UniChar)unit};
        CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
        CFStringAppendCharacters(string, units, 3);
        /* CoreFoundation skips control characters before a number. */
        bool isNumber = unit > 0xa0 && CFStringGetIntValue(string) == 7 && CFStringGetDoubleValue(string) == 7;
        CFStringTrimWhitespace(string);
        if (CFStringGetLength(string) < 3 || isNumber) say("%x:%ld%s", unit, (long)CFStringGetLength(string), isNumber ? "#" : "");
        CFRelease(string);
    }
}

static const void *sayRetain(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    say("+%ld", (long)value);
    return value;
}
static void sayRelease(CFAllocatorRef allocator, const void *value) {
    (void)allocator;
    say("-%ld", (long)value);
}

SCENARIO(values_are_held_and_let_go_in_order, "S-CF-11") {
    static const CFArrayCallBacks callbacks = {0, sayRetain, sayRelease, NULL, NULL};
    static const void *const values[] = {(void *)1, (void *)2, (void *)3, (void *)4, (void *)5};
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, &callbacks);
    for (int times = 0; times < 2; times++) {
        CFArrayReplaceValues(array, CFRangeMake(0, 0), (const void **)values, 5);
        CFArrayReplaceValues(array, CFRangeMake(1, 2), (const void **)values, 1);
        if (times == 0) CFArrayRemoveAllValues(array);
    }
    CFRelease(array);
    static const CFDictionaryKeyCallBacks keys = {0, sayRetain, sayRelease, NULL, areEqual, hashOf};
    static const CFDictionaryValueCallBacks held = {0, sayRetain, sayRelease, NULL, NULL};
    CFMutableDictionaryRef dictionary = CFDictionaryCreateMutable(NULL, 0, &keys, &held);
    CFDictionaryAddValue(dictionary, (void *)1, (void *)100);
    CFDictionaryAddValue(dictionary, (void *)11, (void *)101);
    CFDictionarySetValue(dictionary, (void *)21, (void *)102);
    CFDictionaryReplaceValue(dictionary, (void *)31, (void *)103);
    CFDictionaryRemoveValue(dictionary, (void *)41);
    CFDictionarySetValue(dictionary, (void *)51, (void *)104);
    CFRelease(dictionary);
}

SCENARIO(arrays_are_queues, "S-CF-11") {
    enum { LENGTH = 1000000 };
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, NULL);
    for (long index = 0; index < LENGTH; index++) CFArrayAppendValue(array, (void *)index);
    /* With a move of all the rest for each of them this takes minutes. */
    long wrong = 0;
    for (long index = 0; index < LENGTH * 2; index++) {
        wrong += CFArrayGetValueAtIndex(array, 0) != (void *)index;
        CFArrayRemoveValueAtIndex(array, 0);
        CFArrayAppendValue(array, (void *)(index + LENGTH));
        if (index % 100000 == 0) CFArrayInsertValueAtIndex(array, 0, (void *)1), CFArrayRemoveValueAtIndex(array, 0);
    }
    while (CFArrayGetCount(array) > 1) CFArrayRemoveValueAtIndex(array, 0);
    number("wrong", wrong);
    number("last", (long)CFArrayGetValueAtIndex(array, 0));
    CFArrayRemoveAllValues(array);
    CFArrayAppendValue(array, (void *)7);
    number("again", (long)CFArrayGetValueAtIndex(array, 0));
    CFRelease(array);
}

SCENARIO(replacing_backwards_takes_no_longer, "S-CF-8") {
    enum { LENGTH = 2000000 };
    CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
    for (int index = 0; index < LENGTH / 10; index++) CFStringAppend(string, CFSTR("aaaaaaaaaa"));
    number("longer", CFStringFindAndReplace(string, CFSTR("a"), CFSTR("bc"), CFRangeMake(1, LENGTH - 2), kCFCompareBackwards));
    number("length", CFStringGetLength(string));
    CFStringDelete(string, CFRangeMake(6, CFStringGetLength(string) - 12));
    sayString("ends", string);
    number("pairs", CFStringFindAndReplace(string, CFSTR("cbc"), CFSTR("-"), CFRangeMake(0, CFStringGetLength(string)), kCFCompareBackwards));
    sayString("made", string);
    CFRelease(string);
}

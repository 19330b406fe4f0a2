/* SPDX-License-Identifier: MIT */
/* Strings: encodings, formats, comparison, change. */
#include "traces.h"

#ifdef OVER_COREFOUNDATION /* whose constants must stand in functions, on Linux */
static CFStringRef fileConstant;
__attribute__((constructor)) static void makeConstant(void) { fileConstant = CFSTR("of the file"); }
#else
static CFStringRef fileConstant = CFSTR("of the file");
#endif
static CFStringRef text(const char *bytes) { return CFStringCreateWithCString(NULL, bytes, kCFStringEncodingUTF8); }

static CFStringRef constantOfAFunction(void) { return CFSTR("of a function"); }

SCENARIO(constants_are_strings, "S-CF-6 S-CF-8") {
    sayString("file", fileConstant);
    sayString("function", constantOfAFunction());
    sayString("joined", CFSTR("a" "b"));
    sayString("empty", CFSTR(""));
    CFStringRef made = text("of the file");
    yes("equal", CFEqual(made, fileConstant));
    yes("hashes", CFHash(made) == CFHash(fileConstant));
    yes("type", CFGetTypeID(fileConstant) == CFStringGetTypeID());
    CFRetain(fileConstant);
    CFRelease(fileConstant);
    CFRelease(made);
    sayString("still", fileConstant);
}

SCENARIO(encodings_are_converted, "S-CF-8") {
    sayNew("ascii", CFStringCreateWithCString(NULL, "abc", kCFStringEncodingASCII));
    sayNew("utf8", text("gr\303\274n \360\237\230\200"));
    sayNew("latin1", CFStringCreateWithCString(NULL, "gr\374n", kCFStringEncodingISOLatin1));
    sayNew("mac", CFStringCreateWithCString(NULL, "gr\237n", kCFStringEncodingMacRoman));
    sayNew("broken utf8", text("a\377b"));
    sayNew("cut utf8", text("a\303"));
    sayNew("long form", text("\300\200"));
    sayNew("surrogate", text("\355\240\200"));
    const UInt8 big[] = {0xfe, 0xff, 0x00, 'a', 0x00, 0xe4}, little[] = {0xff, 0xfe, 'a', 0x00}, plain[] = {'a', 0, 'b', 0};
    sayNew("utf16 mark", CFStringCreateWithBytes(NULL, big, 6, kCFStringEncodingUTF16, true));
    sayNew("utf16 mark", CFStringCreateWithBytes(NULL, little, 4, kCFStringEncodingUTF16, true));
    sayNew("utf16le", CFStringCreateWithBytes(NULL, plain, 4, kCFStringEncodingUTF16LE, false));
    const UniChar units[] = {'x', 0x20ac};
    sayNew("units", CFStringCreateWithCharacters(NULL, units, 2));
    sayNew("part", CFStringCreateWithBytes(NULL, (const UInt8 *)"hello", 3, kCFStringEncodingUTF8, false));
    CFStringRef green = text("gr\303\274n \342\202\254");
    char buffer[64];
    yes("latin1", CFStringGetCString(green, buffer, sizeof buffer, kCFStringEncodingISOLatin1));
    yes("ascii", CFStringGetCString(green, buffer, sizeof buffer, kCFStringEncodingASCII));
    yes("mac", CFStringGetCString(green, buffer, sizeof buffer, kCFStringEncodingMacRoman));
    yes("room", CFStringGetCString(green, buffer, 10, kCFStringEncodingUTF8));
    yes("just enough", CFStringGetCString(green, buffer, 11, kCFStringEncodingUTF8));
    CFIndex used = 0;
    number("bytes", CFStringGetBytes(green, CFRangeMake(0, 6), kCFStringEncodingASCII, '?', false, (UInt8 *)buffer, 64, &used));
    say("%.*s", (int)used, buffer);
    number("bytes", CFStringGetBytes(green, CFRangeMake(0, 6), kCFStringEncodingASCII, 0, false, (UInt8 *)buffer, 64, &used));
    say("%.*s", (int)used, buffer);
    number("bytes", CFStringGetBytes(green, CFRangeMake(0, 6), kCFStringEncodingUTF8, 0, false, (UInt8 *)buffer, 3, &used));
    number("used", used);
    number("count", CFStringGetBytes(green, CFRangeMake(0, 6), kCFStringEncodingUTF8, 0, false, NULL, 0, &used));
    number("used", used);
    CFDataRef data = CFStringCreateExternalRepresentation(NULL, green, kCFStringEncodingUTF8, 0);
    number("data", CFDataGetLength(data));
    CFStringRef back = CFStringCreateFromExternalRepresentation(NULL, data, kCFStringEncodingUTF8);
    yes("equal", CFEqual(back, green));
    yes("none", CFStringCreateExternalRepresentation(NULL, green, kCFStringEncodingASCII, 0) == NULL);
    number("maximum", CFStringGetMaximumSizeForEncoding(10, kCFStringEncodingUTF8));
    number("maximum", CFStringGetMaximumSizeForEncoding(10, kCFStringEncodingASCII));
    CFRelease(green), CFRelease(data), CFRelease(back);
}

SCENARIO(loss_bytes_are_bytes, "S-CF-8") {
    /* Also where the encoding has another character for the byte, or none. */
    static const CFStringEncoding encodings[] = {kCFStringEncodingASCII, kCFStringEncodingMacRoman, kCFStringEncodingISOLatin1};
    CFStringRef greek = text("a\316\261b");
    for (int index = 0; index < 3; index++) {
        UInt8 bytes[8];
        CFIndex used = 0;
        number("count", CFStringGetBytes(greek, CFRangeMake(0, 3), encodings[index], 0xe9, false, bytes, sizeof bytes, &used));
        number("used", used);
        for (CFIndex place = 0; place < used; place++) number("byte", bytes[place]);
        CFDataRef data = CFStringCreateExternalRepresentation(NULL, greek, encodings[index], 0xe9);
        number("data", CFDataGetLength(data));
        CFRelease(data);
    }
    CFRelease(greek);
}

SCENARIO(units_are_read, "S-CF-8") {
    CFStringRef string = text("a\360\237\230\200z");
    number("length", CFStringGetLength(string));
    say("%x %x %x", CFStringGetCharacterAtIndex(string, 0), CFStringGetCharacterAtIndex(string, 1), CFStringGetCharacterAtIndex(string, 2));
    UniChar units[2];
    CFStringGetCharacters(string, CFRangeMake(2, 2), units);
    say("%x %x", units[0], units[1]);
    CFStringRef part = CFStringCreateWithSubstring(NULL, string, CFRangeMake(3, 1));
    sayString("part", part);
    CFStringRef half = CFStringCreateWithSubstring(NULL, string, CFRangeMake(1, 1));
    sayString("half", half);
    CFRelease(part), CFRelease(half), CFRelease(string);
}

SCENARIO(formats_print_as_printf_does, "S-CF-9") {
    char expected[256];
#define CHECK(format, ...)                                                              \
    do {                                                                                \
        snprintf(expected, sizeof expected, format, __VA_ARGS__);                       \
        CFStringRef made = CFStringCreateWithFormat(NULL, NULL, CFSTR(format), __VA_ARGS__); \
        CFStringRef wanted = text(expected);                                            \
        yes(format, CFEqual(made, wanted));                                             \
        CFRelease(made), CFRelease(wanted);                                             \
    } while (0)
    CHECK("%d %i %u", -5, 7, 9u);
    CHECK("%x %X %o %#x", 255, 255, 8, 16);
    CHECK("%5d|%-5d|%05d|%+d", 42, 42, 42, 42);
    CHECK("%ld %lld %lu %llx", -5000000000L, 9000000000000LL, 3ul, 0xffffffffffffull);
    CHECK("%hhd %hd", (signed char)-3, (short)300);
    CHECK("%zu %zd %jd", (size_t)7, (ssize_t)-7, (intmax_t)1);
    CHECK("%f %.2f %8.3f|%e|%g", 1.5, 2.345, 3.14159, 12345.678, 0.0001);
    CHECK("%s and %s", "one", "two");
    CHECK("%.2s|", "text");
    CHECK("%c%c", 'o', 'k');
    CHECK("100%% %d", 1);
    CHECK("%.3d", 5);
    CHECK("%.0f", 2.0);
    CHECK("%u", 4000000000u);
    CHECK("%*d|%-*d|", 6, 1, 4, 2);
#undef CHECK
}

SCENARIO(formats_print_objects, "S-CF-9") {
    int five = 5;
    double half = 0.5;
    CFNumberRef number = CFNumberCreate(NULL, kCFNumberIntType, &five), real = CFNumberCreate(NULL, kCFNumberDoubleType, &half);
    sayNew("string", CFStringCreateWithFormat(NULL, NULL, CFSTR("<%@>"), CFSTR("in")));
    CFStringRef umlaut = text("\303\244");
    sayNew("umlaut", CFStringCreateWithFormat(NULL, NULL, CFSTR("<%@>"), umlaut));
    CFRelease(umlaut);
    sayNew("number", CFStringCreateWithFormat(NULL, NULL, CFSTR("%@ %@"), number, real));
    sayNew("positions", CFStringCreateWithFormat(NULL, NULL, CFSTR("%2$@ %1$d"), 7, CFSTR("second")));
    sayNew("mixed", CFStringCreateWithFormat(NULL, NULL, CFSTR("%@=%d%@"), CFSTR("a"), 1, CFSTR("!")));
    sayNew("unit", CFStringCreateWithFormat(NULL, NULL, CFSTR("%C"), 0x20ac));
    UniChar units[] = {'h', 0xe4, 0};
    sayNew("units", CFStringCreateWithFormat(NULL, NULL, CFSTR("%S"), units));
    sayNew("null", CFStringCreateWithFormat(NULL, NULL, CFSTR("%@"), (CFStringRef)NULL));
    CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
    CFStringAppendFormat(string, NULL, CFSTR("%d,"), 1);
    CFStringAppendFormat(string, NULL, CFSTR("%@"), CFSTR("two"));
    sayString("appended", string);
    CFRelease(string), CFRelease(number), CFRelease(real);
}

static void order(const char *one, const char *two, CFStringCompareFlags options) {
    CFStringRef a = text(one), b = text(two);
    say("%ld", (long)CFStringCompare(a, b, options));
    CFRelease(a), CFRelease(b);
}

SCENARIO(strings_compare, "S-CF-10") {
    order("a", "b", 0);
    order("b", "a", 0);
    order("a", "a", 0);
    order("a", "aa", 0);
    order("", "a", 0);
    order("A", "a", 0);
    order("A", "a", kCFCompareCaseInsensitive);
    order("\303\204pfel", "\303\244PFEL", kCFCompareCaseInsensitive);
    order("Z", "a", kCFCompareCaseInsensitive);
    CFStringRef string = CFSTR("hello world");
    number("range", CFStringCompareWithOptions(string, CFSTR("world"), CFRangeMake(6, 5), 0));
    yes("prefix", CFStringHasPrefix(string, CFSTR("hell")));
    yes("prefix", CFStringHasPrefix(string, CFSTR("world")));
    yes("suffix", CFStringHasSuffix(string, CFSTR("world")));
    yes("suffix", CFStringHasSuffix(string, CFSTR("hello world!")));
}

static void sayRange(CFRange range) { say("%ld,%ld", (long)range.location, (long)range.length); }

SCENARIO(strings_are_found, "S-CF-10") {
    CFStringRef string = CFSTR("one two one");
    sayRange(CFStringFind(string, CFSTR("one"), 0));
    sayRange(CFStringFind(string, CFSTR("one"), kCFCompareBackwards));
    sayRange(CFStringFind(string, CFSTR("ONE"), kCFCompareCaseInsensitive));
    sayRange(CFStringFind(string, CFSTR("three"), 0));
    sayRange(CFStringFind(string, CFSTR("two"), kCFCompareAnchored));
    sayRange(CFStringFind(string, CFSTR("one"), kCFCompareAnchored | kCFCompareBackwards));
    CFRange range = CFRangeMake(0, 0);
    yes("found", CFStringFindWithOptions(string, CFSTR("one"), CFRangeMake(1, 10), 0, &range));
    sayRange(range);
    yes("found", CFStringFindWithOptions(string, CFSTR("one"), CFRangeMake(1, 9), 0, &range));
}

SCENARIO(strings_change, "S-CF-12") {
    CFMutableStringRef string = CFStringCreateMutable(NULL, 0);
    CFStringAppend(string, CFSTR("world"));
    CFStringInsert(string, 0, CFSTR("hello "));
    CFStringAppendCString(string, "!", kCFStringEncodingUTF8);
    const UniChar euro = 0x20ac;
    CFStringAppendCharacters(string, &euro, 1);
    sayString("1", string);
    CFStringDelete(string, CFRangeMake(0, 6));
    CFStringReplace(string, CFRangeMake(0, 1), CFSTR("WW"));
    sayString("2", string);
    number("replaced", CFStringFindAndReplace(string, CFSTR("W"), CFSTR("w-"), CFRangeMake(0, CFStringGetLength(string)), 0));
    sayString("3", string);
    CFStringAppend(string, string);
    sayString("4", string);
    CFStringRef copy = CFStringCreateCopy(NULL, string);
    CFStringReplaceAll(string, CFSTR("  trimmed\t\n"));
    CFStringTrimWhitespace(string);
    sayString("5", string);
    CFStringReplaceAll(string, CFSTR("xxaxbxx"));
    CFStringTrim(string, CFSTR("x"));
    sayString("6", string);
    sayString("copy", copy);
    CFMutableStringRef more = CFStringCreateMutableCopy(NULL, 0, copy);
    CFStringAppend(more, CFSTR("."));
    yes("equal", CFEqual(more, copy));
    CFRelease(more), CFRelease(copy), CFRelease(string);
}

SCENARIO(strings_are_split_and_joined, "S-CF-8") {
    CFArrayRef parts = CFStringCreateArrayBySeparatingStrings(NULL, CFSTR("a,b,,c"), CFSTR(","));
    number("count", CFArrayGetCount(parts));
    for (CFIndex index = 0; index < CFArrayGetCount(parts); index++) sayString("part", (CFStringRef)CFArrayGetValueAtIndex(parts, index));
    CFStringRef joined = CFStringCreateByCombiningStrings(NULL, parts, CFSTR(" + "));
    sayString("joined", joined);
    CFArrayRef one = CFStringCreateArrayBySeparatingStrings(NULL, CFSTR("none"), CFSTR(","));
    number("count", CFArrayGetCount(one));
    CFArrayRef two = CFStringCreateArrayBySeparatingStrings(NULL, CFSTR(","), CFSTR(","));
    number("count", CFArrayGetCount(two));
    CFRelease(parts), CFRelease(joined), CFRelease(one), CFRelease(two);
}

SCENARIO(strings_are_read_as_numbers, "S-CF-8") {
    number("int", CFStringGetIntValue(CFSTR("42")));
    number("int", CFStringGetIntValue(CFSTR("  -7x")));
    number("int", CFStringGetIntValue(CFSTR("x")));
    number("int", CFStringGetIntValue(CFSTR("99999999999")));
    number("int", CFStringGetIntValue(CFSTR("-99999999999")));
    say("%g %g %g", CFStringGetDoubleValue(CFSTR("2.5")), CFStringGetDoubleValue(CFSTR(" -1e3 ")), CFStringGetDoubleValue(CFSTR("none")));
}

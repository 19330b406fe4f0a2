/* SPDX-License-Identifier: MIT */
/* Random calls on strings and collections, the same in both programs; each line of words is a digest of many results. */
#include "traces.h"

static unsigned seed;
static int pick(int count) { return (int)(((seed = seed * 1103515245u + 12345u) >> 16) % (unsigned)count); }

static CFStringRef randomText(int longest) {
    static const UniChar letters[] = {'a', 'b', 'A', 'B', ' ', '1', '9', '-', '.', 0xe4, 0xc4, 0x20ac, 0x3b1, 0x391};
    UniChar units[32];
    int length = pick(longest + 1), kinds = pick(3) ? 9 : 14;
    for (int index = 0; index < length; index++) units[index] = letters[pick(kinds)];
    return CFStringCreateWithCharacters(NULL, units, length);
}

static unsigned long digest;
static void add(long value) { digest = (digest ^ (unsigned long)value) * 0x100000001b3UL; }
static void addText(CFStringRef string) {
    add(CFStringGetLength(string));
    for (CFIndex index = 0; index < CFStringGetLength(string); index++) add(CFStringGetCharacterAtIndex(string, index));
}

/* Runs a call with many seeds and says the digest after each hundred. */
static void repeat(void (*call)(void)) {
    digest = 14695981039346656037UL;
    for (int times = 1; times <= 2000; times++) {
        seed = (unsigned)times * 2654435761u;
        call();
        if (times % 100 == 0) say("%lx", digest);
    }
}

static void compareTexts(void) {
    CFStringRef one = randomText(4), two = randomText(4);
    add(CFStringCompare(one, two, 0));
    add(CFStringCompare(one, two, kCFCompareCaseInsensitive));
    add(CFEqual(one, two));
    if (CFStringGetLength(two) > 0) {
        add(CFStringHasPrefix(one, two));
        add(CFStringHasSuffix(one, two));
    }
    CFRelease(one), CFRelease(two);
}
SCENARIO(random_comparisons, "S-CF-10") { repeat(compareTexts); }

static void findText(void) {
    CFStringRef text = randomText(12), part = randomText(3);
    CFIndex length = CFStringGetLength(text), begin = pick((int)length + 1);
    static const CFStringCompareFlags options[] = {0, 1, 4, 5, 8, 12, 9, 13};
    for (int index = 0; index < 8; index++) {
        if (CFStringGetLength(part) == 0) break;
        CFRange found = CFStringFind(text, part, options[index]);
        add(found.location), add(found.length);
        CFRange range = CFRangeMake(begin, length - begin);
        Boolean there = CFStringFindWithOptions(text, part, range, options[index], &found);
        add(there);
        if (there) add(found.location), add(found.length);
    }
    CFRelease(text), CFRelease(part);
}
SCENARIO(random_searches, "S-CF-10") { repeat(findText); }

static void changeText(void) {
    CFMutableStringRef text = CFStringCreateMutable(NULL, 0);
    for (int steps = 0; steps < 8; steps++) {
        CFStringRef other = randomText(5), third = randomText(2);
        CFIndex length = CFStringGetLength(text), at = pick((int)length + 1), count = pick((int)(length - at) + 1);
        switch (pick(8)) {
        case 0: CFStringAppend(text, other); break;
        case 1: CFStringInsert(text, at, other); break;
        case 2: CFStringDelete(text, CFRangeMake(at, count)); break;
        case 3: CFStringReplace(text, CFRangeMake(at, count), other); break;
        case 4: CFStringTrimWhitespace(text); break;
        case 5: if (CFStringGetLength(third) > 0) CFStringTrim(text, third); break;
        case 6: if (CFStringGetLength(third) > 0) add(CFStringFindAndReplace(text, third, other, CFRangeMake(at, length - at), 0)); break;
        default: CFStringAppendFormat(text, NULL, CFSTR("%@%d"), third, pick(100));
        }
        addText(text);
        CFRelease(other), CFRelease(third);
    }
    CFRelease(text);
}
SCENARIO(random_changes, "S-CF-8") { repeat(changeText); }

static void splitText(void) {
    CFStringRef text = randomText(12), between = randomText(2);
    if (CFStringGetLength(between) > 0) {
        CFArrayRef parts = CFStringCreateArrayBySeparatingStrings(NULL, text, between);
        add(CFArrayGetCount(parts));
        for (CFIndex index = 0; index < CFArrayGetCount(parts); index++) addText((CFStringRef)CFArrayGetValueAtIndex(parts, index));
        CFRelease(parts);
    }
    add(CFStringGetIntValue(text));
    CFRelease(text), CFRelease(between);
}
SCENARIO(random_parts, "S-CF-8") { repeat(splitText); }

static void convertText(void) {
    static const CFStringEncoding encodings[] = {kCFStringEncodingUTF8, kCFStringEncodingASCII, kCFStringEncodingISOLatin1,
        kCFStringEncodingUTF16BE, kCFStringEncodingUTF16LE};
    CFStringRef text = randomText(10);
    CFStringEncoding encoding = encodings[pick(5)];
    UInt8 bytes[64];
    CFIndex used = 0, room = pick(24);
    UInt8 loss = pick(2) ? '?' : 0;
    add(CFStringGetBytes(text, CFRangeMake(0, CFStringGetLength(text)), encoding, loss, false, bytes, room, &used));
    add(used);
    for (CFIndex index = 0; index < used; index++) add(bytes[index]);
    char buffer[16];
    if (encoding != kCFStringEncodingUTF16BE && encoding != kCFStringEncodingUTF16LE) {
        /* CoreFoundation says true for room for the NUL alone. */
        Boolean done = CFStringGetCString(text, buffer, pick(15) + 2, encoding);
        add(done);
        if (done) add((long)strlen(buffer));
    }
    CFRelease(text);
}
SCENARIO(random_conversions, "S-CF-8") { repeat(convertText); }

static void decodeBytes(void) {
    UInt8 bytes[8];
    int length = pick(8);
    for (int index = 0; index < length; index++) {
        int kind = pick(3);
        bytes[index] = (UInt8)(kind == 0 ? pick(0x80) : kind == 1 ? 0x80 + pick(0x40) : 0xc0 + pick(0x40));
    }
    CFStringRef text = CFStringCreateWithBytes(NULL, bytes, length, kCFStringEncodingUTF8, false);
    /* CoreFoundation takes a byte that continues nothing for U+FFFD, where the rule says NULL. */
    static const UniChar unknown = 0xfffd;
    CFStringRef mark = CFStringCreateWithCharacters(NULL, &unknown, 1);
    bool valid = text && CFStringFind(text, mark, 0).location == kCFNotFound;
    add(valid);
    if (valid) addText(text);
    if (text) CFRelease(text);
    CFRelease(mark);
    text = CFStringCreateWithBytes(NULL, bytes, length, kCFStringEncodingISOLatin1, false);
    addText(text);
    CFRelease(text);
}
SCENARIO(random_bytes, "S-CF-8") { repeat(decodeBytes); }

static void useNumbers(void) {
    double real = (pick(2001) - 1000) / (double)(1 + pick(4));
    long long large = (long long)pick(32768) << (pick(45));
    int small = pick(1000) - 500;
    if (pick(2)) large = -large;
    CFNumberRef numbers[] = {CFNumberCreate(NULL, kCFNumberDoubleType, &real), CFNumberCreate(NULL, kCFNumberLongLongType, &large),
                             CFNumberCreate(NULL, kCFNumberIntType, &small)};
    for (int one = 0; one < 3; one++) {
        SInt32 middle = 0;
        SInt64 long64 = 0;
        double back = 0;
        float single = 0;
        add(CFNumberGetValue(numbers[one], kCFNumberSInt32Type, &middle));
        add(CFNumberGetValue(numbers[one], kCFNumberSInt64Type, &long64)), add((long)long64);
        add(CFNumberGetValue(numbers[one], kCFNumberDoubleType, &back)), add((long)back);
        add(CFNumberGetValue(numbers[one], kCFNumberFloat32Type, &single)), add((long)single);
        for (int two = 0; two < 3; two++) add(CFNumberCompare(numbers[one], numbers[two], NULL)), add(CFEqual(numbers[one], numbers[two]));
    }
    for (int one = 0; one < 3; one++) CFRelease(numbers[one]);
}
SCENARIO(random_numbers, "S-CF-13") { repeat(useNumbers); }

static CFComparisonResult byText(const void *one, const void *two, void *context) {
    (void)context;
    return CFStringCompare((CFStringRef)one, (CFStringRef)two, 0);
}

static void changeArray(void) {
    CFMutableArrayRef array = CFArrayCreateMutable(NULL, 0, &kCFTypeArrayCallBacks);
    for (int steps = 0; steps < 10; steps++) {
        CFStringRef text = randomText(1);
        CFIndex count = CFArrayGetCount(array), at = pick((int)count + 1), length = pick((int)(count - at) + 1);
        const void *values[] = {text, CFSTR("fixed")};
        switch (pick(8)) {
        case 0: case 1: CFArrayAppendValue(array, text); break;
        case 2: CFArrayInsertValueAtIndex(array, at, text); break;
        case 3: if (count > 0) CFArrayRemoveValueAtIndex(array, pick((int)count)); break;
        case 4: CFArrayReplaceValues(array, CFRangeMake(at, length), values, 2); break;
        case 5: CFArraySortValues(array, CFRangeMake(at, length), byText, NULL); break;
        case 6: CFArraySetValueAtIndex(array, at, text); break;
        default: CFArrayAppendArray(array, array, CFRangeMake(at, length));
        }
        count = CFArrayGetCount(array);
        add(count);
        for (CFIndex index = 0; index < count; index++) addText((CFStringRef)CFArrayGetValueAtIndex(array, index));
        add(CFArrayGetFirstIndexOfValue(array, CFRangeMake(0, count), text));
        add(CFArrayGetLastIndexOfValue(array, CFRangeMake(0, count), text));
        add(CFArrayGetCountOfValue(array, CFRangeMake(0, count), text));
        CFRelease(text);
    }
    CFRelease(array);
}
SCENARIO(random_arrays, "S-CF-11") { repeat(changeArray); }

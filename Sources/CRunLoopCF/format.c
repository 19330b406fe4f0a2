/* SPDX-License-Identifier: MIT */
/*
 * Formats of strings: those of printf, and %@ for objects, %C for a unit, %S for units.
 *
 * A format is parsed first, because a position (%2$d) may name any argument; the arguments are then read in their order, and
 * each conversion is printed by snprintf with the value that it names.
 */
#include "CRunLoopCF.h"

#include <limits.h>

enum Type { NONE, INT, LONG, LONG_LONG, MAX, SIZE, DIFFERENCE, REAL, LONG_REAL, POINTER };

typedef union Value {
    long long integer;
    double real;
    long double longReal;
    const void *pointer;
} Value;

/* One conversion, or text between conversions (kind 0). */
typedef struct Part {
    const char *begin; /* in the format */
    size_t length;
    char kind;         /* the letter of the conversion */
    enum Type type;
    char flags[8];
    char size[3];      /* hh, h, l, ll, j, z, t, q, L */
    int argument;      /* indexes of arguments; -1: none */
    int widthArgument, precisionArgument;
    int width, precision; /* -1: none */
} Part;

typedef struct Format {
    uint16_t *units; /* the format itself */
    char *text;      /* the same where it is ASCII, and another byte for each other unit and for NUL */
    Part *parts;
    int partCount, partRoom;
    enum Type *types; /* by argument */
    int typeCount;
} Format;

static void *grown(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (!memory) rlcf_trap("CFStringCreateWithFormat", "out of memory");
    return memory;
}

static Part *addPart(Format *format, const char *begin) {
    if (format->partCount == format->partRoom) {
        format->partRoom = format->partRoom * 2 + 8;
        format->parts = grown(format->parts, (size_t)format->partRoom * sizeof(Part));
    }
    Part *part = &format->parts[format->partCount++];
    memset(part, 0, sizeof *part);
    part->begin = begin;
    part->argument = part->widthArgument = part->precisionArgument = part->width = part->precision = -1;
    return part;
}

static void setType(Format *format, int argument, enum Type type) {
    if (argument >= format->typeCount) {
        format->types = grown(format->types, (size_t)(argument + 1) * sizeof(enum Type));
        while (format->typeCount <= argument) format->types[format->typeCount++] = NONE;
    }
    format->types[argument] = type;
}

/* A number, or the greatest that may be; -1 if there is none. */
static int number(const char **text, int greatest) {
    int value = -1;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        int digit = **text - '0';
        if (value < 0) value = digit;
        else value = value > (greatest - digit) / 10 ? greatest : value * 10 + digit;
    }
    return value;
}

/* A position such as "2$"; the index, or -1 and nothing consumed. */
static int position(const char **text) {
    const char *next = *text;
    int value = number(&next, 10000);
    if (value < 1 || value == 10000 || *next != '$') return -1;
    *text = next + 1;
    return value - 1;
}

/* A width or a precision: a number, or the argument that has it. */
static void measure(Format *format, const char **text, int *nextArgument, int *value, int *argument) {
    if (**text != '*') {
        *value = number(text, INT_MAX);
        return;
    }
    (*text)++;
    *argument = position(text);
    if (*argument < 0) *argument = (*nextArgument)++;
    setType(format, *argument, INT);
}

static enum Type typeOfInteger(const char *size) {
    if (strcmp(size, "ll") == 0 || size[0] == 'q') return LONG_LONG;
    switch (size[0]) {
    case 'l': return LONG;
    case 'j': return MAX;
    case 'z': return SIZE;
    case 't': return DIFFERENCE;
    default: return INT;
    }
}

static enum Type typeOf(char kind, const char *size) {
    switch (kind) {
    case 'd': case 'i': case 'o': case 'u': case 'x': case 'X': case 'D': case 'U': case 'O': return typeOfInteger(size);
    case 'c': case 'C': return INT;
    case 'a': case 'A': case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        return size[0] == 'L' ? LONG_REAL : REAL;
    case '@': case 's': case 'S': case 'p': return POINTER;
    default: return NONE;
    }
}

/* Parses what follows a percent sign; false: it is no conversion, and text. */
static bool parseConversion(Format *format, const char **text, int *nextArgument) {
    const char *next = *text + 1;
    int argument = position(&next);
    Part *part = addPart(format, *text);
    size_t flags = 0;
    for (; *next && strchr("-+ #0'", *next); next++)
        if (flags < sizeof part->flags - 1) part->flags[flags++] = *next;
    measure(format, &next, nextArgument, &part->width, &part->widthArgument);
    if (*next == '.') {
        next++;
        measure(format, &next, nextArgument, &part->precision, &part->precisionArgument);
        if (part->precision < 0 && part->precisionArgument < 0) part->precision = 0;
    }
    size_t size = 0;
    for (; *next && strchr("hljztqL", *next); next++)
        if (size < sizeof part->size - 1) part->size[size++] = *next;
    part->kind = *next;
    part->type = typeOf(part->kind, part->size);
    if (part->type == NONE) {
        format->partCount--;
        return false;
    }
    part->argument = argument >= 0 ? argument : (*nextArgument)++;
    setType(format, part->argument, part->type);
    *text = next + 1;
    return true;
}

static void parse(Format *format) {
    const char *text = format->text;
    int nextArgument = 0;
    while (*text) {
        const char *begin = text;
        while (*text && *text != '%') text++;
        if (text > begin) addPart(format, begin)->length = (size_t)(text - begin);
        if (*text != '%') return;
        if (text[1] == '%') {
            addPart(format, text)->length = 1;
            text += 2;
        } else if (!parseConversion(format, &text, &nextArgument)) {
            addPart(format, text)->length = 1;
            text++;
        }
    }
}

static void readArguments(const Format *format, Value *values, va_list arguments) {
    for (int index = 0; index < format->typeCount; index++) {
        Value *value = &values[index];
        switch (format->types[index]) {
        case NONE: /* no conversion names it; it is taken for an int, as printf does */
        case INT: value->integer = va_arg(arguments, int); break;
        case LONG: value->integer = va_arg(arguments, long); break;
        case LONG_LONG: value->integer = va_arg(arguments, long long); break;
        case MAX: value->integer = (long long)va_arg(arguments, intmax_t); break;
        case SIZE: value->integer = (long long)va_arg(arguments, size_t); break;
        case DIFFERENCE: value->integer = (long long)va_arg(arguments, ptrdiff_t); break;
        case REAL: value->real = va_arg(arguments, double); break;
        case LONG_REAL: value->longReal = va_arg(arguments, long double); break;
        case POINTER: value->pointer = va_arg(arguments, const void *); break;
        }
    }
}

/* Spaces, or nothing if the count is not above 0. */
static void pad(void *string, long count) {
    char spaces[256];
    memset(spaces, ' ', sizeof spaces);
    for (; count > 0; count -= (long)sizeof spaces)
        rlcf_append_bytes(string, spaces, count < (long)sizeof spaces ? (size_t)count : sizeof spaces);
}

/* Bytes of text, or units, at the right or left end of a width. */
static void appendPadded(void *string, const Part *part, int width, const char *bytes, const uint16_t *units, size_t length) {
    bool left = strchr(part->flags, '-') != NULL;
    if (!left) pad(string, width - (long)length);
    if (bytes) rlcf_append_bytes(string, bytes, length);
    else rlcf_append_units(string, units, length);
    if (left) pad(string, width - (long)length);
}

static void printValue(void *string, const Part *part, int width, int precision, const Value *value) {
    char kind = part->kind;
    if (kind == 'D') kind = 'd';
    if (kind == 'U') kind = 'u';
    if (kind == 'O') kind = 'o';
    bool integral = part->type != REAL && part->type != LONG_REAL && part->type != POINTER;
    /* hh and h cut the value; the rest is printed as the widest integer. */
    bool narrow = part->size[0] == 'h';
    char print[32];
    snprintf(print, sizeof print, "%%%s*%s%s%c", part->flags, precision >= 0 ? ".*" : "",
             integral ? (narrow ? part->size : "ll") : (part->type == LONG_REAL ? "L" : ""), kind);
    long long integer = value->integer;
    if (integral && !narrow && part->type == INT && strchr("uxXo", kind)) integer = (unsigned)integer;
    char small[128];
    char *buffer = small;
    size_t room = sizeof small;
    for (;;) {
        int length;
#define PRINT(x) (precision >= 0 ? rlcf_print(buffer, room, print, width, precision, x) : rlcf_print(buffer, room, print, width, x))
        if (part->type == POINTER) length = PRINT(value->pointer);
        else if (part->type == LONG_REAL) length = PRINT(value->longReal);
        else if (part->type == REAL) length = PRINT(value->real);
        else if (narrow) length = PRINT((int)integer);
        else length = PRINT(integer);
        if (length < 0) break;
        if ((size_t)length < room) {
            rlcf_append_bytes(string, buffer, (size_t)length);
            break;
        }
        room = (size_t)length + 1;
        buffer = grown(buffer == small ? NULL : buffer, room);
    }
    if (buffer != small) free(buffer);
}

static void append(void *string, const Format *format, const Part *part, const Value *values) {
    if (!part->kind) {
        rlcf_append_units(string, format->units + (part->begin - format->text), part->length);
        return;
    }
    Part padded = *part;
    int width = part->widthArgument >= 0 ? (int)values[part->widthArgument].integer : part->width;
    int precision = part->precisionArgument >= 0 ? (int)values[part->precisionArgument].integer : part->precision;
    if (width < 0) {
        if (part->widthArgument >= 0 && strlen(padded.flags) < sizeof padded.flags - 1) strcat(padded.flags, "-");
        /* The least number has no counterpart: no width. */
        width = part->widthArgument >= 0 && width >= -INT_MAX ? -width : 0;
    }
    const Value *value = &values[part->argument];
    switch (part->kind) {
    case '@': rlcf_append_object(string, value->pointer); break;
    case 'c':
    case 'C': {
        uint16_t unit = part->kind == 'c' ? (uint8_t)value->integer : (uint16_t)value->integer;
        appendPadded(string, &padded, part->kind == 'c' ? width : 0, NULL, &unit, 1);
        break;
    }
    case 's': {
        const char *text = value->pointer ? value->pointer : "(null)";
        size_t length = precision >= 0 ? strnlen(text, (size_t)precision) : strlen(text);
        appendPadded(string, &padded, width, text, NULL, length);
        break;
    }
    case 'S': {
        const uint16_t *units = value->pointer;
        size_t length = 0;
        while (units && units[length] && (precision < 0 || length < (size_t)precision)) length++;
        if (units) appendPadded(string, &padded, width, NULL, units, length);
        else appendPadded(string, &padded, width, "(null)", NULL, 6);
        break;
    }
    default: printValue(string, &padded, width, precision, value);
    }
}

static void appendFormat(void *string, CFStringRef formatString, va_list arguments) {
    CFIndex length = CFStringGetLength(formatString);
    Format format = {0};
    format.units = grown(NULL, (size_t)length * sizeof *format.units + 1);
    format.text = grown(NULL, (size_t)length + 1);
    CFStringGetCharacters(formatString, CFRangeMake(0, length), format.units);
    for (CFIndex index = 0; index < length; index++) {
        uint16_t unit = format.units[index];
        format.text[index] = unit > 0 && unit < 0x80 ? (char)unit : 1;
    }
    format.text[length] = 0;
    parse(&format);
    Value *values = grown(NULL, (size_t)(format.typeCount + 1) * sizeof(Value));
    readArguments(&format, values, arguments);
    for (int index = 0; index < format.partCount; index++) append(string, &format, &format.parts[index], values);
    free(values);
    free(format.parts);
    free(format.types);
    free(format.text);
    free(format.units);
}

/* What is no string, or not one that can be changed, ends the process with the name of the call (S-CF-3). */
static void checkString(const void *string, bool changes, const char *function) {
    if (!string) rlcf_trap(function, "NULL is no object");
    uint32_t kind = rlcf_kind(string);
    if (kind != RLCF_STRING && kind != RLCF_CONSTANT_KIND) rlcf_trap(function, "not a string");
    if (changes && (kind != RLCF_STRING || !(((const RLCFHeader *)string)->flags & RLCF_MUTABLE)))
        rlcf_trap(function, "the object is immutable");
}

static CFMutableStringRef create(CFAllocatorRef alloc, CFStringRef format, va_list arguments, const char *function) {
    checkString(format, false, function);
    if (alloc && rlcf_kind(alloc) != RLCF_ALLOCATOR) rlcf_trap(function, "not an allocator");
    CFMutableStringRef string = CFStringCreateMutable(alloc, 0);
    if (!string) return NULL;
    appendFormat(string, format, arguments);
    rlcf_freeze(string);
    return string;
}

static void add(CFMutableStringRef string, CFStringRef format, va_list arguments, const char *function) {
    checkString(string, true, function);
    CFStringRef text = create(kCFAllocatorSystemDefault, format, arguments, function);
    CFStringAppend(string, text);
    CFRelease(text);
}

CFStringRef CFStringCreateWithFormatAndArguments(CFAllocatorRef alloc, CFDictionaryRef formatOptions, CFStringRef format,
                                                 va_list arguments) {
    (void)formatOptions;
    return create(alloc, format, arguments, "CFStringCreateWithFormatAndArguments");
}

void CFStringAppendFormatAndArguments(CFMutableStringRef theString, CFDictionaryRef formatOptions, CFStringRef format,
                                      va_list arguments) {
    (void)formatOptions;
    add(theString, format, arguments, "CFStringAppendFormatAndArguments");
}

CFStringRef CFStringCreateWithFormat(CFAllocatorRef alloc, CFDictionaryRef formatOptions, CFStringRef format, ...) {
    (void)formatOptions;
    va_list arguments;
    va_start(arguments, format);
    CFStringRef string = create(alloc, format, arguments, "CFStringCreateWithFormat");
    va_end(arguments);
    return string;
}

void CFStringAppendFormat(CFMutableStringRef theString, CFDictionaryRef formatOptions, CFStringRef format, ...) {
    (void)formatOptions;
    va_list arguments;
    va_start(arguments, format);
    add(theString, format, arguments, "CFStringAppendFormat");
    va_end(arguments);
}

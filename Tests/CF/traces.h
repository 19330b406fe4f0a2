/* SPDX-License-Identifier: MIT */
/*
 * Scenarios in CoreFoundation's names, compiled once against the toolchain's CoreFoundation and once against librunloop-cf. Each says
 * what happens by words; the two programs must say the same. A line of the output is a scenario: its name, a tab, its words.
 */
#ifndef TRACES_H
#define TRACES_H

#include <CoreFoundation/CoreFoundation.h>

#define SCENARIO(id, rules)                                                                          \
    static void id##_body(void);                                                                     \
    __attribute__((constructor)) static void id##_register(void) {                                   \
        static Scenario scenario = {#id, id##_body, NULL};                                           \
        scenario_register(&scenario);                                                                \
    }                                                                                                \
    static void id##_body(void)

typedef struct Scenario {
    const char *name;
    void (*body)(void);
    struct Scenario *next;
} Scenario;

#ifdef __cplusplus
extern "C" {
#endif
void scenario_register(Scenario *scenario);
/* Adds a word, or a word and a value, to the trace. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text of a string, in UTF-8, and what else it is. */
void sayString(const char *name, CFStringRef string);
/* The same of a string that this call releases. */
void sayNew(const char *name, CFStringRef string);
#ifdef __cplusplus
}
#endif

#define yes(name, value) say("%s=%s", name, (value) ? "yes" : "no")
#define number(name, value) say("%s=%ld", name, (long)(value))

#endif

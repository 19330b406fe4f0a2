/* SPDX-License-Identifier: MIT */
#include "traces.h"

#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

static Scenario *first, **last = &first;
static char trace[16384];

void scenario_register(Scenario *scenario) {
    *last = scenario;
    last = &scenario->next;
}

void say(const char *format, ...) {
    size_t used = strlen(trace);
    va_list arguments;
    va_start(arguments, format);
    if (used && used < sizeof trace - 1) trace[used++] = ' ';
    vsnprintf(trace + used, sizeof trace - used, format, arguments);
    va_end(arguments);
}

void sayString(const char *name, CFStringRef string) {
    char text[512];
    if (!string) say("%s=NULL", name);
    else if (CFStringGetCString(string, text, sizeof text, kCFStringEncodingUTF8)) say("%s=\"%s\"(%ld)", name, text, (long)CFStringGetLength(string));
    else say("%s=?(%ld)", name, (long)CFStringGetLength(string));
}

void sayNew(const char *name, CFStringRef string) {
    sayString(name, string);
    if (string) CFRelease(string);
}

/* With a name the scenario of that name alone; otherwise each, in a process of its own. */
int main(int count, char **names) {
    int failures = 0;
    for (Scenario *scenario = first; scenario; scenario = scenario->next) {
        if (count > 1 && strcmp(names[1], scenario->name) != 0) continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(30);
            scenario->body();
            printf("%s\t%s\n", scenario->name, trace);
            fflush(stdout);
#if defined(WITH_LEAK_CHECK) /* which is made at exit */
            exit(0);
#else
            _exit(0);
#endif
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0) {
            printf("%s\tended with status %d\n", scenario->name, status);
            failures++;
        }
    }
    return failures > 0;
}

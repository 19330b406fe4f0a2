/* SPDX-License-Identifier: MIT */
/*
 * CoreFoundation's names by dlsym, as a foreign-function interface finds them (S-CF-23).
 * usage: names LIBRUNLOOP-CF-NAMES; it is not linked to any library of the project.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define FIND(result, name) \
    if (!(*(void **)&result = dlsym(library, name))) return printf("%s: %s\n", name, dlerror()), 1

static int fires;
static void fire(void *timer, void *info) {
    (void)timer;
    ++*(int *)info;
}

int main(int count, char **arguments) {
    void *library = dlopen(count > 1 ? arguments[1] : "", RTLD_NOW);
    if (!library) return printf("%s\n", dlerror()), 1;
    void *(*current)(void), *(*timer)(void *, double, double, unsigned long, long, void (*)(void *, void *), void *);
    void (*add)(void *, void *, const void *), (*release)(void *);
    int (*run)(const void *, double, unsigned char);
    double (*now)(void);
    void *(*array)(void *, const void **, long, const void *);
    const void *(*text)(void *, const char *, unsigned);
    const void **defaultMode;
    const void *callbacks;
    unsigned char (*equal)(const void *, const void *);
    long (*retains)(const void *);
    FIND(current, "CFRunLoopGetCurrent");
    FIND(timer, "CFRunLoopTimerCreate");
    FIND(add, "CFRunLoopAddTimer");
    FIND(run, "CFRunLoopRunInMode");
    FIND(now, "CFAbsoluteTimeGetCurrent");
    FIND(release, "CFRelease");
    FIND(array, "CFArrayCreate");
    FIND(text, "CFStringCreateWithCString");
    FIND(equal, "CFEqual");
    FIND(retains, "CFGetRetainCount");
    FIND(defaultMode, "kCFRunLoopDefaultMode");
    FIND(callbacks, "kCFTypeArrayCallBacks");
    struct {
        long version;
        void *info, *retain, *release, *copyDescription;
    } context = {0, &fires, NULL, NULL, NULL};
    void *made = timer(NULL, now(), 0, 0, 0, fire, &context);
    add(current(), made, *defaultMode);
    int result = run(*defaultMode, 10, 0);
    release(made);
    const void *mode = text(NULL, "kCFRunLoopDefaultMode", 0x08000100);
    if (!equal(mode, *defaultMode)) return puts("the constant is another string"), 1;
    void *holder = array(NULL, &mode, 1, callbacks);
    if (retains(mode) != 2) return puts("the array did not retain by the callbacks"), 1;
    release(holder);
    release((void *)mode);
    printf("%d fire, result %d\n", fires, result);
    return fires == 1 && result == 1 ? 0 : 1;
}

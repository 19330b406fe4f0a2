#define _GNU_SOURCE
#include "system_calls.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

SystemCallHook *system_call_hook;

long system_call(long number, const long a[6]) {
    static long (*real)(long, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

long syscall(long number, ...) {
    long argument[6], result;
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) argument[i] = va_arg(list, long);
    va_end(list);
    SystemCallHook *hook = __atomic_load_n(&system_call_hook, __ATOMIC_ACQUIRE);
    return hook && hook(number, argument, &result) ? result : system_call(number, argument);
}

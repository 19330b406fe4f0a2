/* SPDX-License-Identifier: MIT */
/* The word that says whether anything is to be recorded, and the probes: places that a tracer of the system (bpftrace, perf, SystemTap)
 * finds by ELF notes. They are in one function, which is called only while a trace is on or a probe is watched, so that the arguments cost
 * nothing otherwise; all of them have one semaphore, the word's lower half. Without the header of systemtap-sdt-dev there are none. */
#include "CLinux.h"

#if !defined(RL_NO_PROBES) && __has_include(<sys/sdt.h>)
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* Kind, name; the kinds are those of `TraceKind`. */
#define PROBES(PROBE) \
    PROBE(2, run_begin) \
    PROBE(3, run_end) \
    PROBE(4, pass) \
    PROBE(5, sleep_begin) \
    PROBE(6, sleep_end) \
    PROBE(7, callout_begin) \
    PROBE(8, callout_end) \
    PROBE(9, loop_end) \
    PROBE(32, post) \
    PROBE(33, request) \
    PROBE(34, signal) \
    PROBE(35, wake_up) \
    PROBE(36, stop) \
    PROBE(37, message_send) \
    PROBE(38, message_receive)

/* The semaphores' names are made of the probes'. */
struct rl_trace_wanted rl_trace_wanted __attribute__((section(".probes"), visibility("hidden"), used));
#define SEMAPHORE(number, name) \
    extern unsigned short runloop_##name##_semaphore __attribute__((alias("rl_trace_wanted"), visibility("hidden")));
PROBES(SEMAPHORE)

void rl_probe(uint8_t kind, uint8_t detail, uint64_t loop, uint64_t item, uint64_t info, uint64_t caller) {
    switch (kind) {
#define FIRE(number, name) \
    case number: STAP_PROBE5(runloop, name, loop, detail, item, info, caller); break;
        PROBES(FIRE)
    }
}

#else

struct rl_trace_wanted rl_trace_wanted __attribute__((visibility("hidden")));

void rl_probe(uint8_t kind, uint8_t detail, uint64_t loop, uint64_t item, uint64_t info, uint64_t caller) {
    (void)kind;
    (void)detail;
    (void)loop;
    (void)item;
    (void)info;
    (void)caller;
}

#endif

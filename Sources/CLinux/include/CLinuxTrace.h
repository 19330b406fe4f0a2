/* SPDX-License-Identifier: MIT */
/* The trace: its file, which is mapped while it is written, and the probes that a tracer of the system may watch. The file's format is in
 * Docs/trace-format.md. */
#ifndef CLINUX_TRACE_H
#define CLINUX_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not 0: something is to be recorded. The kernel counts in the lower half while a tracer watches a probe; the upper one is 1 while a trace
 * is on. One word, so that a check is one read. */
struct rl_trace_wanted {
    unsigned short probes, trace;
} __attribute__((aligned(4)));
extern struct rl_trace_wanted rl_trace_wanted __attribute__((visibility("hidden")));

/* The value read may be old: a thread that sees a start late misses a record, and a record after the stop is written to memory that is not
 * read. */
static inline __attribute__((always_inline)) uint32_t rl_tracing(void) {
    return __atomic_load_n((const uint32_t *)(const void *)&rl_trace_wanted, __ATOMIC_RELAXED);
}
static inline bool rl_is_probed(void) { return __atomic_load_n(&rl_trace_wanted.probes, __ATOMIC_RELAXED) != 0; }
static inline bool rl_is_traced(void) { return __atomic_load_n(&rl_trace_wanted.trace, __ATOMIC_RELAXED) != 0; }
static inline void rl_set_tracing(bool on) { __atomic_store_n(&rl_trace_wanted.trace, on, __ATOMIC_RELEASE); }

/* Where the function that contains this returns to: in an export, the code that called the library. */
static inline __attribute__((always_inline)) uintptr_t rl_caller(void) { return (uintptr_t)__builtin_return_address(0); }

/* The kernel's number of the calling thread, which is asked for it once. */
extern __thread int rl_thread_number __attribute__((tls_model("initial-exec"), visibility("hidden")));
int rl_get_thread_number(void) __attribute__((visibility("hidden")));
static inline void rl_forget_thread_number(void) { rl_thread_number = 0; }

struct rl_trace_header {
    char magic[8]; /* "RLTRACE1", which rl_trace_create writes */
    uint32_t header_size, process;
    /* Bit 0: stamps are nanoseconds of the monotonic clock, and no counts. */
    uint32_t flags, ring_count;
    uint32_t ring_records, shared_records;
    uint64_t file_size, shared_offset, names_offset, names_size, rings_offset, ring_stride;
    /* Stamp, monotonic and wall clock (since 1970, in nanoseconds) at the beginning. */
    uint64_t start_stamp;
    int64_t start_time, start_wall;
    /* The same at the end; 0 while the trace is on, and after a process that was killed. */
    uint64_t end_stamp;
    int64_t end_time;
    /* Bytes of names; released when they are written. Names and loops for which there was no room. */
    uint64_t names_used;
    uint32_t lost_names, lost_loops;
};

/* Makes a file with room for all of header->file_size, zeroes behind the header, and maps it; at: NULL, or memory of that length to be
 * replaced. The process's number stands for "%p" in the path. NULL, an errno in *error, and no file, if it cannot be made. A trace that
 * a living process writes is not replaced: the file has the process's number behind its name then, and *others is 1, or, if that name has such a trace
 * too, further numbers from 2, and *others is that. With NULL for the path it is memory of the process, and no file. */
void *rl_trace_create(const char *path, const struct rl_trace_header *header, void *at, int *error, int *others)
    __attribute__((visibility("hidden")));

/* The file is no longer written. In the child of `fork`: not by this process. */
void rl_trace_unlock(bool in_child) __attribute__((visibility("hidden")));
/* The child of `fork` knows of the trace in a file from now on, and gets its memory. Until then it does not. */
void rl_trace_known(void *memory, size_t length) __attribute__((visibility("hidden")));

/* Moves the pages of a trace that is in memory to another address; NULL if there is none. rl_trace_free gives them back. */
void *rl_trace_take(void *map, size_t length) __attribute__((visibility("hidden")));
void rl_trace_free(void *taken, size_t length) __attribute__((visibility("hidden")));

/* Replaces the file by memory of the process. A thread that still writes there does no harm. */
void rl_trace_forget(void *map, size_t length) __attribute__((visibility("hidden")));

/* The path of the program and of each file with code that it has loaded: the address that its symbols are relative to, and its end. False: nothing was loaded or unloaded
 * since *loads was set. */
typedef void (*rl_loaded_function)(const char *path, uint64_t base, uint64_t end);
bool rl_for_each_loaded(rl_loaded_function function, uint64_t *loads) __attribute__((visibility("hidden")));

/* A variable of the environment; NULL also if the process has more rights than the user that started it. */
const char *rl_trusted_environment(const char *name) __attribute__((visibility("hidden")));

/* Fires the probe of a kind of record (`TraceKind`). */
void rl_probe(uint8_t kind, uint8_t detail, uint64_t loop, uint64_t item, uint64_t info, uint64_t caller)
    __attribute__((visibility("hidden")));

#endif

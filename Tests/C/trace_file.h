/* SPDX-License-Identifier: MIT */
/* Reading a trace (Docs/trace-format.md), for tests. */
#ifndef RUNLOOP_TESTS_TRACE_FILE_H
#define RUNLOOP_TESTS_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RUN_BEGIN = 2, RUN_END, PASS, SLEEP_BEGIN, SLEEP_END, CALL_BEGIN, CALL_END, LOOP_END,
    POST = 32, REQUEST, SIGNALLED, WOKEN, STOPPED, MESSAGE_SENT, MESSAGE_RECEIVED
};
enum { SOURCE = 1, PORT_SOURCE, WATCH, TIMER, OBSERVER, FUNCTION };
enum { THREAD_NAME = 1, OBJECT_NAME, MODE_NAME, FILE_NAME, PORT_NAME };

typedef struct TraceHeader {
    char magic[8];
    uint32_t header_size, process, flags, ring_count, ring_records, shared_records;
    uint64_t file_size, shared_offset, names_offset, names_size, rings_offset, ring_stride;
    uint64_t start_stamp;
    int64_t start_time, start_wall;
    uint64_t end_stamp;
    int64_t end_time;
    uint64_t names_used;
    uint32_t lost_names, lost_loops;
} TraceHeader;

typedef struct RingHeader {
    uint64_t head, loop, stamp;
    uint32_t thread, unused;
    uint64_t clock_stamp;
    int64_t clock_time;
} RingHeader;

typedef struct RingRecord {
    uint64_t stamp;
    uint8_t kind, detail;
    uint16_t unused;
    uint32_t extra;
    uint64_t item, info;
} RingRecord;

typedef struct SharedRecord {
    uint64_t sequence, stamp;
    uint8_t kind, unused[3];
    uint32_t thread;
    uint64_t loop, item, info, caller, extra;
} SharedRecord;

typedef struct TraceFile {
    char *bytes;
    size_t length;
    TraceHeader header;
} TraceFile;

/* Fails the test if the file is no trace. The bytes are the caller's. */
TraceFile trace_file_read(const char *path);
void trace_file_free(TraceFile *file);
const RingHeader *trace_ring(const TraceFile *file, uint32_t index);
/* The ring of a loop; NULL: it has none. */
const RingHeader *trace_ring_of(const TraceFile *file, const void *loop);
const RingRecord *trace_record(const TraceFile *file, const RingHeader *ring, uint64_t number);
const SharedRecord *trace_shared(const TraceFile *file, uint32_t index);

/* How many records of a kind, of a detail (-1: any) and about an item (NULL: any) are in the ring of a loop. */
int trace_count_records(const TraceFile *file, const void *loop, int kind, int detail, const void *item);
/* The first of a kind in the ring for all with that item; NULL if there is none. */
const SharedRecord *trace_find_shared(const TraceFile *file, int kind, const void *item);
/* Whether a name of a kind is in the file, of any address if that is NULL. */
bool trace_has_name(const TraceFile *file, int kind, const void *address, const char *name);

#endif

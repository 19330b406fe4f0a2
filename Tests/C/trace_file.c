/* SPDX-License-Identifier: MIT */
/* Reading a trace. */
#include "trace_file.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TraceFile trace_file_read(const char *path) {
    TraceFile file = {0};
    FILE *stream = fopen(path, "r");
    ck_assert_msg(stream != NULL, "no trace: %s", path);
    fseek(stream, 0, SEEK_END);
    file.length = (size_t)ftell(stream);
    rewind(stream);
    file.bytes = malloc(file.length + 1);
    ck_assert_uint_eq(fread(file.bytes, 1, file.length, stream), file.length);
    fclose(stream);
    ck_assert_uint_ge(file.length, sizeof file.header);
    memcpy(&file.header, file.bytes, sizeof file.header);
    ck_assert_int_eq(memcmp(file.header.magic, "RLTRACE1", 8), 0);
    ck_assert_uint_eq(file.header.header_size, sizeof file.header);
    ck_assert_uint_eq(file.header.file_size, file.length);
    return file;
}

void trace_file_free(TraceFile *file) {
    free(file->bytes);
    file->bytes = NULL;
}

const RingHeader *trace_ring(const TraceFile *file, uint32_t index) {
    ck_assert_uint_lt(index, file->header.ring_count);
    return (const void *)(file->bytes + file->header.rings_offset + index * file->header.ring_stride);
}

const RingHeader *trace_ring_of(const TraceFile *file, const void *loop) {
    for (uint32_t i = 0; i < file->header.ring_count; i++)
        if (trace_ring(file, i)->loop == (uint64_t)(uintptr_t)loop) return trace_ring(file, i);
    return NULL;
}

const RingRecord *trace_record(const TraceFile *file, const RingHeader *ring, uint64_t number) {
    ck_assert_uint_lt(number, ring->head);
    ck_assert_uint_le(ring->head - number, file->header.ring_records);
    const char *records = (const char *)ring + file->header.ring_stride - sizeof(RingRecord) * (uint64_t)file->header.ring_records;
    return (const RingRecord *)(const void *)records + number % file->header.ring_records;
}

const SharedRecord *trace_shared(const TraceFile *file, uint32_t index) {
    return (const SharedRecord *)(const void *)(file->bytes + file->header.shared_offset) + index;
}

int trace_count_records(const TraceFile *file, const void *loop, int kind, int detail, const void *item) {
    const RingHeader *ring = trace_ring_of(file, loop);
    if (!ring) return 0;
    int count = 0;
    uint64_t first = ring->head > file->header.ring_records ? ring->head - file->header.ring_records : 0;
    for (uint64_t number = first; number < ring->head; number++) {
        const RingRecord *record = trace_record(file, ring, number);
        if (record->kind == kind && (detail < 0 || record->detail == detail) && (!item || record->item == (uint64_t)(uintptr_t)item))
            count++;
    }
    return count;
}

const SharedRecord *trace_find_shared(const TraceFile *file, int kind, const void *item) {
    for (uint32_t i = 0; i < file->header.shared_records; i++) {
        const SharedRecord *record = trace_shared(file, i);
        if (record->sequence != 0 && record->kind == kind && (!item || record->item == (uint64_t)(uintptr_t)item)) return record;
    }
    return NULL;
}

bool trace_has_name(const TraceFile *file, int kind, const void *address, const char *name) {
    const char *at = file->bytes + file->header.names_offset, *end = at + file->header.names_used;
    while (at < end) {
        uint64_t words[5];
        memcpy(words, at, sizeof words);
        uint32_t length = (uint32_t)(words[4] >> 32);
        if ((int)(words[4] & 0xffff) == kind && (!address || words[1] == (uint64_t)(uintptr_t)address) && strlen(name) == length &&
            memcmp(at + sizeof words, name, length) == 0)
            return true;
        at += (sizeof words + length + 7) & ~7u;
    }
    return false;
}

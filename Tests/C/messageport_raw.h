/* SPDX-License-Identifier: MIT */
/*
 * Peers of message ports that are not this library: they write what Docs/wire-format.md says, or
 * something else, to the socket of a port whose name lies in a directory of the test's own.
 */
#ifndef RUNLOOP_TESTS_MESSAGEPORT_RAW_H
#define RUNLOOP_TESTS_MESSAGEPORT_RAW_H

#include "messageport_support.h"

#include <sys/resource.h>

extern char directory[64];
void use_own_directory(void);
/* Fails if something was left in it. */
void remove_own_directory(void);
/* The file of a name with an ending, ".port" or ".lock". */
void path_of(const char *name, const char *ending, char *path, size_t size);

/* What this process has of memory that is nobody else's, in MiB. */
long own_memory(void);

typedef struct Header {
    char magic[4];
    uint16_t version;
    uint8_t kind, flags;
    uint32_t id;
    int32_t number;
    uint64_t length;
    uint32_t descriptors, reserved;
} Header;

#define place_size ((size_t)512 << 10)

/* A right header of a kind: 1 hello, 2 request, 3 reply, 4 part. */
Header header_of(uint8_t kind, uint32_t id, uint64_t length);
/* A part with flag 8 in a place, or with flag 1. */
Header part_of(uint8_t flags, int32_t place, uint64_t length);

int connect_raw(const char *name);
/* The same, with a hello. */
int greet_raw(const char *name);
void send_raw(int fd, Header header, const char *payload);
/* A header with descriptors, 128 at most; what sendmsg returns. */
ssize_t send_descriptors(int fd, Header header, const int *descriptors, int count);
/* A header with a descriptor. */
void send_memory(int fd, Header header, int memory);
/* Begins a message in parts that wants a reply with the id 5. */
void begin_parts(int fd, uint64_t length);
/* A memory file laid out as kept memory, with a text in a place. */
int kept_memory(off_t size, int place, const char *text);
/* The next datagram, which is waited for, and its first descriptor, or -1. The bytes, or what recvmsg(2) returned. */
ssize_t receive_raw(int fd, Header *header, int *descriptor);
/* Gives a place of kept memory back to its sender. */
void give_back_raw(int memory, int32_t place);
/* A socket that listens under a name as a local port does; and its end. */
int listen_raw(const char *name);
void unlisten_raw(int fd, const char *name);
/* Whether the other end closed the connection. */
bool is_closed(int fd);

/* A connected TCP socket with more unsent than its peer ever takes: the last close waits for that so many seconds. */
int lingering_socket(int seconds);
/* From here on no descriptor can be made; the lowest that could is not in use. Returns the limit that there was. */
struct rlimit no_more_descriptors(void);

#endif

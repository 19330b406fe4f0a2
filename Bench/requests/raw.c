/* SPDX-License-Identifier: MIT */
/* A stream socket with blocking calls: a length, then the bytes, into memory that is used again. */
#include "requests.h"

#include <stdlib.h>
#include <unistd.h>

static void write_all(int descriptor, const void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = write(descriptor, (const char *)bytes + done, length - done);
        bench_require(count > 0, "no write");
        done += (size_t)count;
    }
}

static bool read_all(int descriptor, void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = read(descriptor, (char *)bytes + done, length - done);
        if (count <= 0) return false;
        done += (size_t)count;
    }
    return true;
}

static char *memory;
static size_t room;

/* A message of any length; false at the end. */
static bool receive(int descriptor, size_t *length) {
    if (!read_all(descriptor, length, sizeof *length)) return false;
    if (*length > room) {
        free(memory);
        memory = bench_allocate(room = *length);
    }
    return read_all(descriptor, memory, *length);
}

static void send_message(int descriptor, const char *bytes, size_t length) {
    write_all(descriptor, &length, sizeof length);
    write_all(descriptor, bytes, length);
}

void serve_requests(int socket, int ready, const char *name) {
    size_t length;
    (void)name;
    write_all(ready, "", 1);
    while (receive(socket, &length)) send_message(socket, memory, length);
}

static int server;

void open_requests(int socket, const char *name) {
    (void)name;
    server = socket;
}

bool make_request(const char *bytes, size_t length) {
    size_t got;
    send_message(server, bytes, length);
    return receive(server, &got) && got == length &&
           (length == 0 || (memory[0] == bytes[0] && memory[length - 1] == bytes[length - 1]));
}

/* SPDX-License-Identifier: MIT */
/* What a server's sockets need from the kernel: sends that never wait, options, and the end of a connection. Nothing here is a
 * cancellation point, blocks, or raises SIGPIPE. */
#ifndef CLINUX_SOCKETS_H
#define CLINUX_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One send of what the kernel has room for: how many bytes, or a negative errno. address may be NULL. */
ssize_t rl_send_now(int descriptor, const void *bytes, size_t length, const void *address, size_t address_length)
    __attribute__((visibility("hidden")));

/* Whether bytes may be sent in any portions: a stream, and not datagrams or records. */
bool rl_is_byte_stream(int descriptor) __attribute__((visibility("hidden")));

/* Switches the options of `RLSocketOption`. 0, or the errno of the first that the kernel refuses. */
int rl_set_socket_options(int descriptor, unsigned long options, bool on) __attribute__((visibility("hidden")));

/* Takes what has arrived, or a portion of it, and discards it. True at the end of the stream and after an error. */
bool rl_discard_input(int descriptor) __attribute__((visibility("hidden")));

/* Makes the close of the descriptor reset the connection. */
void rl_reset_at_close(int descriptor) __attribute__((visibility("hidden")));

/* What came with the bytes of rl_receive_with_descriptors. */
typedef struct rl_received {
    size_t count;
    bool lost_descriptors;
    bool has_credentials;
    int32_t process;
    uint32_t user;
    uint32_t group;
} rl_received;

/* Reads what is there: how many bytes, or a negative errno. All descriptors that came are put into the array, or, if one could
 * not be received or the array is too small, all are closed. received may be NULL: then the kernel drops them. */
ssize_t rl_receive_with_descriptors(int descriptor, void *bytes, size_t capacity, int *descriptors, size_t room,
                                    rl_received *received) __attribute__((visibility("hidden")));

#endif

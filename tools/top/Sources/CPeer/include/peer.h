/* SPDX-License-Identifier: MIT */
/* Connections to processes that may mean harm. A datagram can bring descriptors whose last close waits for what is unsent (SO_LINGER), and that
 * close happens within the call that receives the datagram, or within the close of a connection in which it is queued. Such calls are therefore made by
 * threads that nothing waits for beyond a time: one that stays behind ends with the program, whose end does not wait for what lingers (socket(7)). */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>

typedef struct peer_connection peer_connection;

/* Owns the descriptor of a connected socket of kind SOCK_SEQPACKET. Each number of a process has a number of threads at most. NULL: no memory, and
 * the descriptor stays the caller's. */
peer_connection *peer_connection_make(int descriptor, int process);
int peer_connection_descriptor(const peer_connection *connection);
/* Closes it as soon as nothing is received from it, and does not wait for that. No thread is needed where nothing has come. */
void peer_connection_release(peer_connection *connection);
/* How many threads are with a process, and connections to it wait to be closed. Who keeps many so is better not connected to. */
int peer_connections_kept(int process);

/* An answer: datagrams of which the first byte is '+', or '.' in the last one. */
typedef struct peer_answer peer_answer;

/* Begins to receive one, until an instant in seconds of the monotonic clock, and up to a number of bytes and a part. NULL: it is not received. Only one is
 * received from a connection at a time. */
peer_answer *peer_answer_begin(peer_connection *connection, double end, size_t limit);
/* Waits for it until that instant. What has come, which the caller frees, or NULL if that is not all of it. The answer is gone afterwards. */
void *peer_answer_finish(peer_answer *answer, size_t *length);

#endif

/* SPDX-License-Identifier: MIT */
/* The library's objects that stand for those of a program. */
#ifndef DESCRIPTORS_HANDLES_H
#define DESCRIPTORS_HANDLES_H

#include <runloop/runloop.h>
#include <stdbool.h>

#include "connections.h"

/* What a callback is told of the object it is for. False: it is hidden. */
bool callback_begins(int index, int generation, int types);
/* The script of the object. */
void callback_acts(int index);
void callback_ends(int index, int generation, int types);
void socket_has_ended(int index, int generation);

/* Makes the object; false if another socket has its number. */
bool handle_make(int index, int generation);
void handle_add(int index, RLRunLoopRef loop, RLMode mode);
void handle_remove(int index, RLRunLoopRef loop, RLMode mode);
void handle_invalidate(int index);
void handle_invalidate_source(int index);
void handle_enable(int index, int types, bool persistently);
void handle_disable(int index, int types);
void handle_set_flags(int index, int flags);
/* One send that does not wait: how many of the bytes are sent. */
long handle_send(int index, const char *bytes, int count);
/* A send of one byte that may wait for a moment. */
bool handle_send_data(int index, const char *byte);
/* Sends or queues bytes. How many are queued then; -1: it takes no more. */
long handle_write(int index, const char *bytes, int count);
/* -1: that cannot be known. */
long handle_queued(int index);
void handle_end(int index, int how);
/* Only begins it, or waits for a moment. */
RLSocketError handle_connect(int index, enum target target, bool waits);
/* What the library says; a socket looks at its number. */
bool handle_is_valid(int index);
bool handle_has_source(int index);
/* Releases the references to an object that goes on to be used, as long as the rules say that it lives. */
void handle_let_go(int index);
/* Forgets the object, which is invalid. */
void handle_release(int index);

#endif

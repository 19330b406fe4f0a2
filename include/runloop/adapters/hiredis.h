/* SPDX-License-Identifier: MIT */
/*
 * hiredis, the client library of Redis: its asynchronous connections on a run loop.
 *
 *   redisAsyncContext *context = redisAsyncConnect("127.0.0.1", 6379);
 *   RLHiredisAttach(context, RLGetCurrent(), kRLDefaultMode);
 *
 * From then on hiredis is used as its own manual says. The connection keeps the mode alive, and
 * leaves it when hiredis frees the connection: after redisAsyncDisconnect, redisAsyncFree, or an
 * error.
 * hiredis reports a server that vanishes in its own way: each open command is answered by NULL, the
 * disconnect callback gets REDIS_ERR. The program ignores SIGPIPE, which hiredis's write to such a
 * server raises. From one that sends without end a pass reads one portion.
 * Limits set by redisAsyncSetTimeout and connect_timeout (hiredis 1.0 or later) are kept; an older
 * hiredis has none, so a program that needs one has to set a timer and call redisAsyncFree.
 * A callback of hiredis may run the loop; in that run this connection sends nothing and gets no
 * answers.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_HIREDIS_H
#define RUNLOOP_ADAPTERS_HIREDIS_H

#include "adapter.h"
#include <hiredis/async.h>
#include <hiredis/hiredis.h>

RL_HEADER_BEGIN

/* A connection. hiredis's functions get it as their argument. */
typedef struct RLHiredis_ {
    RLAdapter_ adapter;
    redisAsyncContext *context;
    RLAdapterFile_ *file;
    bool reads, writes; /* what hiredis wants */
} RLHiredis_;

/* Within hiredis's own calls nothing is changed yet: most commands are written at the end of the call, without a wait. */
static inline void RLHiredisUpdate_(RLHiredis_ *self) {
    if (!self->adapter.isBusy) RLAdapterWant_(self->file, RLAdapterTypes_(self->reads, self->writes));
}

/* Outside the adapter's calls hiredis calls back only while it frees the connection, of which it must hear nothing then. */
static inline bool RLHiredisIsFreed_(const RLHiredis_ *self) {
    return !self->adapter.isBusy && (self->context->c.flags & REDIS_IN_CALLBACK) != 0;
}

static inline void RLHiredisReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info) {
    RLAdapterFile_ *file = (RLAdapterFile_ *)info;
    RLHiredis_ *self = (RLHiredis_ *)file->owner;
    if (RLHiredisIsFreed_(self)) {
        RLAdapterWant_(file, 0);
        return;
    }
    if (!RLAdapterEnter_(&self->adapter, file)) return;
    if (types & kRLFileDescriptorReadCallBack) redisAsyncHandleRead(self->context);
    /* Each may have freed the connection. */
    if (RLFileDescriptorIsValid(object) && self->writes) redisAsyncHandleWrite(self->context);
    bool goesOn = RLFileDescriptorIsValid(object);
    RLAdapterLeave_(&self->adapter);
    if (goesOn) RLHiredisUpdate_(self);
}

static inline void RLHiredisAddRead_(void *info) { ((RLHiredis_ *)info)->reads = true, RLHiredisUpdate_((RLHiredis_ *)info); }
static inline void RLHiredisDelRead_(void *info) { ((RLHiredis_ *)info)->reads = false, RLHiredisUpdate_((RLHiredis_ *)info); }
static inline void RLHiredisAddWrite_(void *info) { ((RLHiredis_ *)info)->writes = true, RLHiredisUpdate_((RLHiredis_ *)info); }
static inline void RLHiredisDelWrite_(void *info) { ((RLHiredis_ *)info)->writes = false, RLHiredisUpdate_((RLHiredis_ *)info); }

/* The last of hiredis's calls, before it closes the descriptor. */
static inline void RLHiredisCleanup_(void *info) { RLAdapterEnd_(&((RLHiredis_ *)info)->adapter); }

static inline void RLHiredisDue_(RLAdapter_ *adapter) {
    if (RLHiredisIsFreed_((RLHiredis_ *)adapter) || !RLAdapterEnter_(adapter, NULL)) return;
#if HIREDIS_MAJOR >= 1
    redisAsyncHandleTimeout(((RLHiredis_ *)adapter)->context);
#endif
    RLAdapterLeave_(adapter);
}

#if HIREDIS_MAJOR >= 1
static inline void RLHiredisSchedule_(void *info, struct timeval limit) {
    RLAdapterArm_(&((RLHiredis_ *)info)->adapter, (double)limit.tv_sec + (double)limit.tv_usec / 1e6);
}
#endif

/**
 * Puts a connection into a mode of a loop.
 *
 * context: from redisAsyncConnect or its like, attached to no loop yet. NULL, or one with an error:
 *     REDIS_ERR. loop, mode: NULL: REDIS_ERR. With kRLCommonModes it is in all common modes.
 * Returns: REDIS_OK, or REDIS_ERR, also if there is no memory; then nothing has changed.
 * Threads: the loop's own, which alone may call hiredis for this connection.
 * Ownership: hiredis frees what the adapter has, with the connection.
 * Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline int RLHiredisAttach(redisAsyncContext *context, RLRunLoopRef loop, RLMode mode) {
    if (!context || context->err || context->ev.data) return REDIS_ERR;
    RLHiredis_ *self = (RLHiredis_ *)RLAdapterCreate_(sizeof *self, loop, mode, RLHiredisDue_, NULL);
    if (!self) return REDIS_ERR;
    self->context = context;
    self->file = RLAdapterWatch_(&self->adapter, context->c.fd, RLHiredisReady_);
    if (!self->file) {
        RLAdapterEnd_(&self->adapter);
        return REDIS_ERR;
    }
    context->ev.addRead = RLHiredisAddRead_;
    context->ev.delRead = RLHiredisDelRead_;
    context->ev.addWrite = RLHiredisAddWrite_;
    context->ev.delWrite = RLHiredisDelWrite_;
    context->ev.cleanup = RLHiredisCleanup_;
#if HIREDIS_MAJOR >= 1
    context->ev.scheduleTimer = RLHiredisSchedule_;
#endif
    context->ev.data = self;
    /* When the descriptor is writable, the connect has succeeded or failed. */
    RLHiredisAddWrite_(self);
    return REDIS_OK;
}

RL_HEADER_END
#endif

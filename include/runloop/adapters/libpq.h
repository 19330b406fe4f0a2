/* SPDX-License-Identifier: MIT */
/*
 * libpq, the client library of PostgreSQL: a connection on a run loop.
 *
 *   static const RLPostgresCallbacks callbacks = {connected, result, notified, lost};
 *   place = RLPostgresAttach(PQconnectStart("dbname=test"), RLGetCurrent(), kRLDefaultMode, 10, &callbacks, info);
 *
 * The adapter connects; then the program sends with libpq's PQsendQuery, PQsendQueryParams and their
 * like, calls RLPostgresSent after each, and gets results and notifications as they come. Nothing
 * waits (but PQexec, if a program calls it, and RLPostgresSent after it): what the server does not take yet is sent when it does.
 * If a server vanishes, the open query gets libpq's error as its result, then lost is called. If it
 * does not answer while connecting, the adapter gives up after the limit; for a slow query a program
 * sets a timer and calls PQcancel. From one that sends without end each pass reads one portion.
 * libpq's own call-outs, such as a notice processor, may run the loop and detach; in such a run this
 * connection is not read.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_LIBPQ_H
#define RUNLOOP_ADAPTERS_LIBPQ_H
#include "adapter.h"
#include <libpq-fe.h>

RL_HEADER_BEGIN

/**
 * What a connection calls, on the loop's thread. Each may be NULL, and may do anything: send, detach, run the loop.
 *
 * connected: once, when the adapter has connected; queries can be sent from then on. result: a result, to be cleared with
 *     PQclear; NULL: that was the last of its query. While a COPY is under way it is called with such a result whenever there
 *     may be data, which it takes until PQgetCopyData has no more.
 * notified: a notification, which is freed after the call. lost: the last call; PQerrorMessage says why. The
 *     connection has left the loop then, and the place is freed; PQfinish is the program's to call. Since 0.2.
 */
typedef struct RLPostgresCallbacks {
    void (*connected)(PGconn *connection, void *info);
    void (*result)(PGconn *connection, PGresult *result, void *info);
    void (*notified)(PGconn *connection, PGnotify *notification, void *info);
    void (*lost)(PGconn *connection, void *info);
} RLPostgresCallbacks;

/** A connection in a loop. */
typedef struct RLPostgres {
    RLAdapter_ adapter;
    PGconn *connection;
    RLPostgresCallbacks callbacks;
    void *info;
    RLAdapterFile_ *file;
    bool isConnecting, isIdle; /* the last result's end was told */
    int telling;               /* calls of RLPostgresTell_, each in a run that a callback makes */
} *RLPostgresRef;

/**
 * Takes a connection out of its loop; call it before PQfinish.
 *
 * self: NULL does nothing. Not to be called when lost was called, and not in lost.
 * Threads: the loop's own. Ownership: frees self. Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline void RLPostgresDetach(RLPostgresRef self) { self ? RLAdapterEnd_(&self->adapter) : (void)0; }

static inline void RLPostgresFlush_(RLPostgresRef self) {
    if (self->adapter.isEnded || self->isConnecting) return;
    int left = PQflush(self->connection);
    if (left < 0) RLAdapterArm_(&self->adapter, 0); /* an error, which reading finds */
    RLAdapterWant_(self->file, RLAdapterTypes_(true, left > 0));
}

/**
 * Sends what PQsendQuery and its like have queued; to be called after each of them.
 *
 * It is to be called after PQexec and its like too: notifications that came while these waited are told then, in a run.
 *
 * self: NULL does nothing. Threads: the loop's own. Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline void RLPostgresSent(RLPostgresRef self) {
    if (!self || self->isConnecting) return;
    RLPostgresFlush_(self);
    /* Of what libpq has read already the descriptor tells nothing; while a query is under way its answer will. */
    if (PQtransactionStatus(self->connection) != PQTRANS_ACTIVE) RLAdapterArm_(&self->adapter, 0);
}

static inline void RLPostgresLose_(RLPostgresRef self) {
    if (self->adapter.isEnded) return;
    RLAdapterEnd_(&self->adapter);
    if (self->callbacks.lost) self->callbacks.lost(self->connection, self->info);
}

/* Gets the next result, or the end of a query's; false if libpq waits for more, or the program has detached. libpq may call the
   program's notice processor, as in all calls between Enter and Leave. */
static inline bool RLPostgresNext_(RLPostgresRef self, bool isOver, PGresult **result) {
    if (self->adapter.isEnded || !RLAdapterEnter_(&self->adapter, self->file)) return false;
    bool isThere = isOver || !PQisBusy(self->connection);
    /* PQisBusy may have called the notice processor, and that may have detached. */
    *result = isThere && !self->adapter.isEnded ? PQgetResult(self->connection) : NULL;
    bool isEnded = self->adapter.isEnded;
    RLAdapterLeave_(&self->adapter);
    if (isEnded) PQclear(*result);
    return isThere && !isEnded;
}

static inline PGnotify *RLPostgresNotification_(RLPostgresRef self) {
    if (self->adapter.isEnded || !RLAdapterEnter_(&self->adapter, self->file)) return NULL;
    PGnotify *notification = PQnotifies(self->connection);
    RLAdapterLeave_(&self->adapter);
    return notification;
}

/* Hands over what has arrived; the timer has runs that a callback makes do so too, for which nothing else is ready. With isOver no
   more can come, and libpq gives an error for what is missing. */
static inline void RLPostgresTell_(RLPostgresRef self, bool isOver) {
    PGnotify *notification;
    PGresult *result;
    bool copied = false, isOutermost = self->telling == 0, arms = self->telling++ < 100;
    while (RLPostgresNext_(self, isOver, &result)) {
        ExecStatusType status = PQresultStatus(result);
        bool copies = status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
        /* A pipeline has ends in between: the second in succession is that of everything. */
        if (!result && self->isIdle) break;
        /* The callback has taken what there was, and the COPY goes on; else what follows it may be here already. */
        if (copies && copied) {
            PQclear(result);
            break;
        }
        copied = copies, self->isIdle = !result;
        /* libpq says of a COPY again and again that it is under way; and runs in runs would be as deep as there are results. */
        if (arms && !copies) RLAdapterArm_(&self->adapter, 0);
        if (self->callbacks.result) self->callbacks.result(self->connection, result, self->info);
        else PQclear(result);
    }
    while ((notification = RLPostgresNotification_(self)) != NULL) {
        if (arms) RLAdapterArm_(&self->adapter, 0);
        if (self->callbacks.notified && !self->adapter.isEnded) self->callbacks.notified(self->connection, notification, self->info);
        PQfreemem(notification);
    }
    self->telling--;
    if (isOutermost) RLAdapterDisarm_(&self->adapter);
}

static inline void RLPostgresReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info);

/* Takes the next step of connecting; false: there is none. */
static inline bool RLPostgresConnect_(RLPostgresRef self) {
    /* The step may open another socket with the same number. */
    RLAdapterUnwatch_(self->file);
    PostgresPollingStatusType next = PQconnectPoll(self->connection);
    if (self->adapter.isEnded) return true;
    int fd = next == PGRES_POLLING_FAILED ? -1 : PQsocket(self->connection);
    self->file = RLAdapterWatch_(&self->adapter, fd, RLPostgresReady_);
    if (self->file) RLAdapterWant_(self->file, RLAdapterTypes_(next != PGRES_POLLING_WRITING, next == PGRES_POLLING_WRITING));
    self->isConnecting = next != PGRES_POLLING_OK;
    if (!self->isConnecting) RLAdapterDisarm_(&self->adapter), PQsetnonblocking(self->connection, 1);
    return self->file != NULL;
}

/* Goes on for the descriptor, or for the timer (NULL). */
static inline void RLPostgresWork_(RLPostgresRef self, RLAdapterFile_ *file) {
    if (!RLAdapterEnter_(&self->adapter, file)) return;
    bool connects = self->isConnecting;
    bool isOver = connects ? !RLPostgresConnect_(self)
                           : !PQconsumeInput(self->connection) || PQstatus(self->connection) == CONNECTION_BAD;
    self->adapter.uses++;
    RLAdapterLeave_(&self->adapter);
    if (!connects) {
        if (!isOver) RLPostgresFlush_(self);
        RLPostgresTell_(self, isOver);
        /* What libpq cannot understand ends the connection where it is looked at. */
        isOver = isOver || (!self->adapter.isEnded && PQstatus(self->connection) == CONNECTION_BAD);
    } else if (!self->isConnecting && !self->adapter.isEnded && !isOver && self->callbacks.connected) {
        self->callbacks.connected(self->connection, self->info);
    }
    if (isOver) RLPostgresLose_(self);
    RLAdapterDrop_(&self->adapter);
}

static inline void RLPostgresReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info) {
    (void)object, (void)types;
    RLPostgresWork_((RLPostgresRef)((RLAdapterFile_ *)info)->owner, (RLAdapterFile_ *)info);
}

/* Connecting has taken too long, sending has failed, or something may have come before the adapter. */
static inline void RLPostgresDue_(RLAdapter_ *adapter) {
    RLPostgresRef self = (RLPostgresRef)adapter;
    adapter->uses++;
    if (adapter->isBusy || !self->isConnecting) RLPostgresWork_(self, NULL);
    else RLPostgresLose_(self);
    RLAdapterDrop_(adapter);
}

/**
 * Puts a connection into a mode of a loop, and connects it.
 *
 * connection: from PQconnectStart, or one that is connected. NULL, CONNECTION_BAD, or one that is attached already: NULL is
 *     returned.
 * loop, mode: NULL: the same. limit: seconds for connecting; 0: no limit. callbacks: copied. info: for them.
 * Returns: the place; NULL also if there is no memory. The connection stays the program's.
 * Threads: the loop's own. Ownership: freed by RLPostgresDetach, or before lost is called.
 * Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline RLPostgresRef RLPostgresAttach(PGconn *connection, RLRunLoopRef loop, RLMode mode, double limit,
                                             const RLPostgresCallbacks *callbacks, void *info) {
    if (PQstatus(connection) == CONNECTION_BAD || !callbacks) return NULL;
    RLPostgresRef self = (RLPostgresRef)RLAdapterCreate_(sizeof *self, loop, mode, RLPostgresDue_, connection);
    if (!self) return NULL;
    self->connection = connection, self->callbacks = *callbacks, self->info = info;
    /* A query of which the last result was not taken yet has an end to tell. */
    self->isIdle = PQtransactionStatus(connection) != PQTRANS_ACTIVE;
#ifdef LIBPQ_HAS_PIPELINING
    if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF) self->isIdle = true;
#endif
    self->isConnecting = PQstatus(connection) != CONNECTION_OK;
    self->file = RLAdapterWatch_(&self->adapter, PQsocket(connection), RLPostgresReady_);
    if (!self->file) return RLAdapterEnd_(&self->adapter), (RLPostgresRef)NULL;
    /* libpq begins as if it had asked for writing. */
    RLAdapterWant_(self->file, RLAdapterTypes_(!self->isConnecting, self->isConnecting));
    if (!self->isConnecting) PQsetnonblocking(connection, 1), limit = 0;
    if (!self->isConnecting || limit > 0) RLAdapterArm_(&self->adapter, limit);
    return self;
}

RL_HEADER_END
#endif

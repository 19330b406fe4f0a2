/* SPDX-License-Identifier: MIT */
/*
 * sd-bus, systemd's client library of D-Bus: a bus on a run loop.
 *
 *   sd_bus_open_user(&bus);
 *   RLSDBusRef place = RLSDBusAttach(bus, RLGetCurrent(), kRLDefaultMode, lost, info);
 *
 * From then on the loop does what sd_bus_process and sd_bus_wait do: it reads and writes, hands
 * messages to their handlers, and keeps the limits of calls. Before each wait it asks sd-bus
 * what to wait for, by an observer of the order LONG_MAX, after which nothing may be asked of the bus.
 * sd-bus reports a bus that vanishes, or sends what is no message: open calls are answered by an
 * error; then lost is called. From one that sends without end a pass takes at most two messages.
 * A handler of a message may run the loop; in that run the bus dispatches no other.
 * In a foreign run (foreign.h) the host's code is called during the wait: when it has used the bus it
 * calls RLWakeUp, so that sd-bus is asked anew.
 * In strict C99 the program has to define _POSIX_C_SOURCE as 199309L or later.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_SD_BUS_H
#define RUNLOOP_ADAPTERS_SD_BUS_H
#include "adapter.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>
#include <time.h>

RL_HEADER_BEGIN

/**
 * What is called once when a bus is over, on the loop's thread.
 *
 * bus: it has left its loop, and the program still has to release it. error: why, a negative errno. info: that of
 * RLSDBusAttach, whose result is freed by now. It may do anything. Since 0.2.
 */
typedef void (*RLSDBusLost)(sd_bus *bus, int error, void * info);

/** A bus in a loop. */
typedef struct RLSDBus {
    RLAdapter_ adapter;
    sd_bus *bus;
    RLSDBusLost lost;
    void *info;
    RLSourceRef source; /* signalled while sd-bus has something to do */
    RLObserverRef observer;
    RLAdapterFile_ *file;
    int error;     /* for which the bus is closed */
    uint64_t date; /* for which the timer is set; in sd-bus's microseconds */
} *RLSDBusRef;

static inline void RLSDBusRouse_(RLSDBusRef self) {
    RLSourceSignal(self->source), RLWakeUp(self->adapter.loop);
}

/**
 * Takes a bus out of its loop; call it before the bus is closed.
 *
 * self: NULL does nothing. Not to be called when lost was called, and not in lost.
 * Threads: the loop's own. Ownership: frees self and drops its reference to the bus.
 * Reentrancy: call-outs too, handlers of messages included; calls no call-out. Since 0.2.
 */
static inline void RLSDBusDetach(RLSDBusRef self) {
    if (!self || self->adapter.isEnded) return;
    RLSourceInvalidate(self->source), RLRelease(self->source);
    RLObserverInvalidate(self->observer), RLRelease(self->observer);
    sd_bus_unref(self->bus);
    RLAdapterEnd_(&self->adapter);
}

/* The other end sends what is no message. Only for a bus that vanishes sd-bus answers open calls, and it notices that where it writes.
   False: it has vanished, or has been closed so already; or this is the child of fork, whose parent goes on with the bus. */
static inline bool RLSDBusClose_(RLSDBusRef self, int error) {
    if (self->error || error == -ECHILD || sd_bus_is_ready(self->bus) <= 0) return false;
    self->error = error;
    shutdown(sd_bus_get_fd(self->bus), SHUT_RDWR);
    (void)sd_bus_emit_signal(self->bus, "/", "org.example.Lost", "Lost", NULL);
    return true;
}

/* Lets sd-bus read, write and dispatch one message. */
static inline void RLSDBusWork_(RLSDBusRef self, RLAdapterFile_ *file) {
    if (!RLAdapterEnter_(&self->adapter, file)) return;
    sd_bus *bus = sd_bus_ref(self->bus);
    int result = sd_bus_process(bus, NULL);
    if (!self->adapter.isEnded && result < 0 && RLSDBusClose_(self, result)) result = 1;
    if (!self->adapter.isEnded && result > 0) RLSDBusRouse_(self);
    if (!self->adapter.isEnded && result < 0) {
        RLSDBusLost lost = self->lost;
        void *info = self->info;
        if (self->error) result = self->error;
        RLSDBusDetach(self);
        RLAdapterLeave_(&self->adapter);
        if (lost) lost(bus, result, info);
    } else {
        RLAdapterLeave_(&self->adapter);
    }
    sd_bus_unref(bus);
}

static inline void RLSDBusReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info) {
    (void)object, (void)types;
    RLSDBusWork_((RLSDBusRef)((RLAdapterFile_ *)info)->owner, (RLAdapterFile_ *)info);
}

static inline void RLSDBusPerform_(void *info) { RLSDBusWork_((RLSDBusRef)info, NULL); }

static inline void RLSDBusDue_(RLAdapter_ *adapter) {
    ((RLSDBusRef)adapter)->date = UINT64_MAX;
    RLSDBusWork_((RLSDBusRef)adapter, NULL);
}

/* Asks sd-bus what it waits for. */
static inline void RLSDBusPrepare_(RLObserverRef observer, RLActivity activity, void *info) {
    RLSDBusRef self = (RLSDBusRef)info;
    struct timespec now;
    uint64_t date;
    (void)observer, (void)activity;
    if (self->adapter.isBusy) return;
    int fd = sd_bus_get_fd(self->bus), events = sd_bus_get_events(self->bus);
    /* Until sd-bus is connected it tries addresses: the same number may be another socket. */
    if (self->file && sd_bus_is_ready(self->bus) <= 0) {
        RLAdapterUnwatch_(self->file);
        self->file = NULL;
    }
    if (!self->file && fd >= 0) self->file = RLAdapterWatch_(&self->adapter, fd, RLSDBusReady_);
    if (fd < 0 || events < 0 || !self->file || sd_bus_get_timeout(self->bus, &date) < 0) {
        RLSDBusRouse_(self); /* which tells the error */
        return;
    }
    RLAdapterWant_(self->file, RLAdapterTypes_(events & POLLIN, events & POLLOUT));
    if (date == self->date && date > 0) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)date / 1e6 - (double)now.tv_sec - (double)now.tv_nsec / 1e9;
    self->date = seconds > 0 ? date : UINT64_MAX;
    if (seconds <= 0) RLSDBusRouse_(self);
    else if (date == UINT64_MAX) RLAdapterDisarm_(&self->adapter);
    else RLAdapterArm_(&self->adapter, seconds);
}

/**
 * Puts a bus into a mode of a loop.
 *
 * bus: a started one that is attached to no sd-event loop. NULL, one that is attached already, or one with two
 *     descriptors (sd_bus_set_fd), of which sd-bus does not tell: NULL is returned. loop, mode: NULL: the same.
 * lost, info: see RLSDBusLost; lost may be NULL.
 * Returns: what RLSDBusDetach takes; NULL if there is no memory.
 * Threads: the loop's own, which alone may use the bus. Ownership: freed by RLSDBusDetach, or before
 * lost is called; it retains the bus.
 * Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline RLSDBusRef RLSDBusAttach(sd_bus *bus, RLRunLoopRef loop, RLMode mode, RLSDBusLost lost, void *info) {
    bool isWhole = bus && sd_bus_get_fd(bus) != -EPERM;
    RLSDBusRef self = isWhole ? (RLSDBusRef)RLAdapterCreate_(sizeof *self, loop, mode, RLSDBusDue_, bus) : NULL;
    if (!self) return NULL;
    RLSourceContext source = {0, self, NULL, NULL, NULL, NULL, NULL, NULL, NULL, RLSDBusPerform_};
    RLObserverContext observer = {0, self, NULL, NULL, NULL};
    self->bus = sd_bus_ref(bus), self->lost = lost, self->info = info, self->date = UINT64_MAX, self->adapter.measures = true;
    self->source = RLSourceCreate(0, &source);
    self->observer = RLObserverCreate(kRLBeforeSources | kRLBeforeWaiting, true, LONG_MAX, RLSDBusPrepare_, &observer);
    RLAddSource(loop, self->source, mode);
    RLAddObserver(loop, self->observer, mode);
    /* Messages that have been read already. */
    RLSDBusRouse_(self);
    return self;
}

RL_HEADER_END
#endif

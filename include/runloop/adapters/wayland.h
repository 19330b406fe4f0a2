/* SPDX-License-Identifier: MIT */
/*
 * Wayland's client library: a display's events on a run loop.
 *
 *   RLWaylandRef place = RLWaylandAttach(wl_display_connect(NULL), RLGetCurrent(), kRLDefaultMode, lost, info);
 *
 * From then on requests are sent before the loop waits, and events of the display's default queue
 * are dispatched as they come. While the loop waits it is prepared to read (wl_display_prepare_read),
 * so that other threads may read the display too, with queues of their own. In between a callback
 * may do anything with the display, including a round trip; but not an observer of BeforeWaiting
 * of the order LONG_MAX, nor one of AfterWaiting of LONG_MIN, which are the adapter's own. In a foreign run (foreign.h) the host's
 * code is called during the wait: it calls RLWaylandWakeUp before it uses the display.
 * If the compositor vanishes, or after a protocol error, lost is called once. If it reads nothing,
 * requests stay in libwayland's buffer until it does.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_WAYLAND_H
#define RUNLOOP_ADAPTERS_WAYLAND_H
#include "adapter.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <wayland-client-core.h>

RL_HEADER_BEGIN

/**
 * What is called once when a display is over, on the loop's thread.
 *
 * display: it has left its loop; wl_display_disconnect is the program's to call. error: as from
 * wl_display_get_error. info: that of RLWaylandAttach, whose result is freed by now. Since 0.2.
 */
typedef void (*RLWaylandLost)(struct wl_display *display, int error, void * info);

/** A display in a loop. */
typedef struct RLWayland {
    RLAdapter_ adapter;
    struct wl_display *display;
    RLWaylandLost lost;
    void *info;
    RLObserverRef before, after;
    RLAdapterFile_ *file;
    bool isPrepared; /* the next read is this thread's too */
} *RLWaylandRef;

/**
 * Takes a display out of its loop; call it before wl_display_disconnect.
 *
 * self: NULL does nothing. Not to be called when lost was called, and not in lost.
 * Threads: the loop's own. Ownership: frees self.
 * Reentrancy: call-outs too, listeners included; calls no call-out. Since 0.2.
 */
static inline void RLWaylandDetach(RLWaylandRef self) {
    if (!self || self->adapter.isEnded) return;
    if (self->isPrepared) wl_display_cancel_read(self->display);
    RLObserverInvalidate(self->before), RLRelease(self->before);
    RLObserverInvalidate(self->after), RLRelease(self->after);
    RLAdapterEnd_(&self->adapter);
}

static inline void RLWaylandLose_(RLWaylandRef self) {
    if (self->adapter.isEnded) return;
    struct wl_display *display = self->display;
    RLWaylandLost lost = self->lost;
    void *info = self->info;
    RLWaylandDetach(self);
    if (lost) lost(display, wl_display_get_error(display), info);
}

/* Prepares to read, and sends. False: listeners are to be called, or the display is over. */
static inline bool RLWaylandSend_(RLWaylandRef self) {
    if (!self->isPrepared && wl_display_prepare_read(self->display) != 0) return false;
    self->isPrepared = true;
    bool isFull = wl_display_flush(self->display) < 0 && errno == EAGAIN;
    RLAdapterWant_(self->file, RLAdapterTypes_(true, isFull));
    /* A round trip in a callback may have met the error. */
    return wl_display_get_error(self->display) == 0;
}

/* Calls listeners until their queue is empty, prepares to read, and sends. False: the display is over. */
static inline bool RLWaylandPrepare_(RLWaylandRef self) {
    while (!self->adapter.isEnded) {
        if (RLWaylandSend_(self)) return true;
        if (self->isPrepared || wl_display_dispatch_pending(self->display) < 0) RLWaylandLose_(self);
    }
    return false;
}

static inline void RLWaylandCancel_(RLWaylandRef self) {
    if (self->isPrepared) wl_display_cancel_read(self->display);
    self->isPrepared = false;
}

/**
 * Ends the adapter's part in a wait that a foreign run's host makes; the host's code calls it before it uses the display.
 *
 * self: NULL does nothing. Afterwards, until it returns, that code may make requests, which the next pass sends, and round trips.
 * Threads: the loop's own. Reentrancy: call-outs too, where nothing needs it; calls no call-out. Since 0.2.
 */
static inline void RLWaylandWakeUp(RLWaylandRef self) {
    if (!self || self->adapter.isEnded) return;
    RLWaylandCancel_(self);
    RLWakeUp(self->adapter.loop);
}

static inline void RLWaylandBefore_(RLObserverRef observer, RLActivity activity, void *info) {
    RLWaylandRef self = (RLWaylandRef)info;
    (void)observer;
    self->adapter.uses++;
    if (activity == kRLBeforeWaiting) {
        /* The next pass calls what is to be called: for another display this thread may be prepared, and a round trip with that
           would wait for this thread itself. */
        if (!RLWaylandSend_(self)) RLWakeUp(self->adapter.loop);
    } else if (RLWaylandPrepare_(self)) {
        /* Only the wait may hold up other threads that read. */
        RLWaylandCancel_(self);
    } else {
        RLWakeUp(self->adapter.loop); /* the mode may be empty now */
    }
    RLAdapterDrop_(&self->adapter);
}

/* The first thing after the wait, or a round trip in a callback would wait for this thread itself. */
static inline void RLWaylandAfter_(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)activity;
    RLWaylandCancel_((RLWaylandRef)info);
}

static inline void RLWaylandReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info) {
    RLWaylandRef self = (RLWaylandRef)((RLAdapterFile_ *)info)->owner;
    struct pollfd ready = {RLFileDescriptorGetNativeDescriptor(object), POLLIN, 0};
    (void)types;
    self->adapter.uses++;
    if (RLWaylandPrepare_(self)) {
        /* Another thread may have read meanwhile, and reading would wait for more. */
        int result = 0;
        if (poll(&ready, 1, 0) <= 0) RLWaylandCancel_(self);
        else self->isPrepared = false, result = wl_display_read_events(self->display);
        if (result < 0 || wl_display_dispatch_pending(self->display) < 0) RLWaylandLose_(self);
    }
    RLAdapterDrop_(&self->adapter);
}

/* The adapter's timer is not used. */
static inline void RLWaylandDue_(RLAdapter_ *adapter) { (void)adapter; }

/**
 * Puts a display into a mode of a loop.
 *
 * display: NULL, or one that is attached already: NULL is returned. loop, mode: NULL: the same. lost, info: see RLWaylandLost; lost may be NULL.
 * Returns: what RLWaylandDetach takes; NULL if there is no memory.
 * Threads: the loop's own, which alone dispatches the default queue; others may have queues of their own.
 * Ownership: the display stays the program's; the result is freed by RLWaylandDetach, or before lost is called.
 * Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline RLWaylandRef RLWaylandAttach(struct wl_display *display, RLRunLoopRef loop, RLMode mode, RLWaylandLost lost,
                                           void *info) {
    RLWaylandRef self = display ? (RLWaylandRef)RLAdapterCreate_(sizeof *self, loop, mode, RLWaylandDue_, display) : NULL;
    if (!self) return NULL;
    RLObserverContext context = {0, self, NULL, NULL, NULL};
    self->display = display, self->lost = lost, self->info = info;
    self->before = RLObserverCreate(kRLBeforeSources | kRLBeforeWaiting, true, LONG_MAX, RLWaylandBefore_, &context);
    self->after = RLObserverCreate(kRLAfterWaiting, true, LONG_MIN, RLWaylandAfter_, &context);
    self->file = RLAdapterWatch_(&self->adapter, wl_display_get_fd(display), RLWaylandReady_);
    if (!self->file) {
        RLWaylandDetach(self);
        return NULL;
    }
    RLAdapterWant_(self->file, RLAdapterTypes_(true, false));
    RLAddObserver(loop, self->before, mode);
    RLAddObserver(loop, self->after, mode);
    /* Where the loop waits already, or is about to, for what was asked before. */
    RLWakeUp(loop);
    return self;
}

RL_HEADER_END
#endif

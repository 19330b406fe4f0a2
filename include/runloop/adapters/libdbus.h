/* SPDX-License-Identifier: MIT */
/*
 * libdbus: connections of D-Bus on a run loop.
 *
 *   DBusConnection *connection = dbus_bus_get_private(DBUS_BUS_SESSION, &error);
 *   RLDBusRef dbus = RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode);
 *
 * From then on the loop does what dbus_connection_read_write_dispatch does: it reads and writes,
 * hands one message in a pass to filters, objects and pending calls, and keeps their time limits.
 * libdbus reports a bus that vanishes: filters get org.freedesktop.DBus.Local.Disconnected, and
 * before it an error for each open call (libdbus 1.14 does not complete the calls themselves). From
 * one that sends without end each pass takes one message.
 * A handler of a message may run the loop; in that run the connection dispatches no other. Other
 * threads may send over the connection (dbus_threads_init_default), also while it is detached, and
 * wait for answers without a limit (DBUS_TIMEOUT_INFINITE): two threads that meet the end of one
 * limit are not safe in libdbus.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_LIBDBUS_H
#define RUNLOOP_ADAPTERS_LIBDBUS_H
#include "adapter.h"
#include <dbus/dbus.h>
#include <math.h>

RL_HEADER_BEGIN

/** A connection in a loop. */
typedef struct RLDBus {
    RLAdapter_ adapter;
    DBusConnection *connection;
    RLSourceRef source; /* signalled while there are messages to dispatch */
} *RLDBusRef;

/* Where a connection has its RLDBusRef: one place for all files of the program. */
__attribute__((weak, visibility("default"))) dbus_int32_t RLDBusSlot_ = -1;

/* Messages wait, or another thread has changed something. libdbus calls it under its lock, so that no thread is here after Detach; what
   it calls without one (the status function) is not used. */
static inline void RLDBusRouse_(void *info) {
    RLSourceSignal(((RLDBusRef)info)->source), RLWakeUp(((RLDBusRef)info)->adapter.loop);
}

static inline void RLDBusReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info) {
    DBusConnection *connection = ((RLDBusRef)info)->connection;
    /* Not dbus_watch_handle: another thread that meets the bus's end frees the watch. Without memory the descriptor is reported again. */
    (void)object, (void)types, (void)dbus_connection_read_write(connection, 0);
    if (dbus_connection_get_dispatch_status(connection) != DBUS_DISPATCH_COMPLETE) RLDBusRouse_(info);
}

/* libdbus has one watch for reading and one for writing; threads that send switch the latter. */
static inline void RLDBusToggleWatch_(DBusWatch *watch, void *info) {
    RLFileDescriptorRef object = (RLFileDescriptorRef)dbus_watch_get_data(watch);
    unsigned flags = dbus_watch_get_enabled(watch) ? dbus_watch_get_flags(watch) : 0;
    RLOptionFlags types = RLAdapterTypes_(flags & DBUS_WATCH_READABLE, flags & DBUS_WATCH_WRITABLE);
    if ((void)info, types) RLFileDescriptorEnablePersistentCallBacks(object, types);
    else RLFileDescriptorDisableCallBacks(object, RLAdapterTypes_(true, true));
}

static inline dbus_bool_t RLDBusAddWatch_(DBusWatch *watch, void *info) {
    RLAdapter_ *self = (RLAdapter_ *)info;
    RLFileDescriptorContext context = {0, info, NULL, NULL, NULL};
    RLFileDescriptorRef object = RLFileDescriptorCreate(dbus_watch_get_unix_fd(watch), false, RLDBusReady_, &context);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(object, 0);
    RLAddSource(self->loop, source, self->mode), RLRelease(source);
    dbus_watch_set_data(watch, object, NULL);
    return RLDBusToggleWatch_(watch, info), TRUE;
}

static inline void RLDBusRemoveWatch_(DBusWatch *watch, void *info) {
    RLFileDescriptorRef object = (RLFileDescriptorRef)dbus_watch_get_data(watch);
    (void)info, dbus_watch_set_data(watch, NULL, NULL);
    RLFileDescriptorInvalidate(object), RLRelease(object);
}

static inline void RLDBusDue_(RLTimerRef timer, void *info) { (void)timer, (void)dbus_timeout_handle((DBusTimeout *)info); }

static inline void RLDBusRemoveTimeout_(DBusTimeout *timeout, void *info) {
    RLTimerRef timer = (RLTimerRef)dbus_timeout_get_data(timeout);
    (void)info, dbus_timeout_set_data(timeout, NULL, NULL);
    RLTimerInvalidate(timer), RLRelease(timer);
}

static inline void RLDBusToggleTimeout_(DBusTimeout *timeout, void *info) {
    RLAdapter_ *self = (RLAdapter_ *)info;
    double interval = dbus_timeout_get_interval(timeout) / 1000.0 + 1e-6; /* 0 would fire once only */
    RLTimerContext context = {0, timeout, NULL, NULL, NULL};
    RLDBusRemoveTimeout_(timeout, info);
    if (!dbus_timeout_get_enabled(timeout)) return;
    /* Its date is set in the loop: the thread that sends may have another clock. */
    RLTimerRef timer = RLTimerCreate(NAN, interval, 0, 0, RLDBusDue_, &context);
    dbus_timeout_set_data(timeout, timer, NULL);
    RLAddTimer(self->loop, timer, self->mode);
    RLTimerSetNextFireDelay(timer, interval);
}

static inline dbus_bool_t RLDBusAddTimeout_(DBusTimeout *timeout, void *info) { return RLDBusToggleTimeout_(timeout, info), TRUE; }

static inline void RLDBusDispatch_(RLAdapter_ *adapter) {
    RLDBusRef self = (RLDBusRef)adapter;
    if (!RLAdapterEnter_(adapter, NULL)) return;
    DBusDispatchStatus status = dbus_connection_dispatch(self->connection);
    if (!adapter->isEnded && status == DBUS_DISPATCH_DATA_REMAINS) RLDBusRouse_(self);
    if (status == DBUS_DISPATCH_NEED_MEMORY) RLAdapterArm_(adapter, 0.1);
    RLAdapterLeave_(adapter);
}

static inline void RLDBusPerform_(void *info) { RLDBusDispatch_((RLAdapter_ *)info); }

/**
 * Takes a connection out of its loop; call it before the connection's last reference is released.
 *
 * dbus: NULL does nothing. Messages that were read and not dispatched stay in the connection.
 * Threads: the loop's own. Ownership: frees dbus and drops its reference to the connection.
 * Reentrancy: call-outs too, handlers of messages included; calls no call-out. Since 0.2.
 */
static inline void RLDBusDetach(RLDBusRef dbus) {
    if (!dbus || dbus->adapter.isEnded) return;
    dbus_connection_set_wakeup_main_function(dbus->connection, NULL, NULL, NULL);
    (void)dbus_connection_set_watch_functions(dbus->connection, NULL, NULL, NULL, NULL, NULL);
    (void)dbus_connection_set_timeout_functions(dbus->connection, NULL, NULL, NULL, NULL, NULL);
    RLSourceInvalidate(dbus->source), RLRelease(dbus->source);
    (void)dbus_connection_set_data(dbus->connection, RLDBusSlot_, NULL, NULL);
    dbus_connection_free_data_slot(&RLDBusSlot_);
    dbus_connection_unref(dbus->connection);
    RLAdapterEnd_(&dbus->adapter);
}

/**
 * Puts a connection into a mode of a loop.
 *
 * connection, loop, mode: NULL, or a connection that is attached already: NULL is returned. One from
 *     dbus_bus_get ends the process when the bus vanishes, unless
 *     dbus_connection_set_exit_on_disconnect says otherwise.
 * Returns: what RLDBusDetach takes; NULL if there is no memory.
 * Threads: the loop's own. Ownership: RLDBusDetach frees the result, which retains the connection.
 * Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline RLDBusRef RLDBusAttach(DBusConnection *connection, RLRunLoopRef loop, RLMode mode) {
    if (!connection || !dbus_connection_allocate_data_slot(&RLDBusSlot_)) return NULL;
    bool isAttached = dbus_connection_get_data(connection, RLDBusSlot_) != NULL;
    RLDBusRef self = isAttached ? NULL : (RLDBusRef)RLAdapterCreate_(sizeof *self, loop, mode, RLDBusDispatch_, connection);
    if (!self) return dbus_connection_free_data_slot(&RLDBusSlot_), (RLDBusRef)NULL;
    (void)dbus_connection_set_data(connection, RLDBusSlot_, self, NULL);
    RLSourceContext context = {0, self, NULL, NULL, NULL, NULL, NULL, NULL, NULL, RLDBusPerform_};
    self->source = RLSourceCreate(0, &context);
    self->connection = dbus_connection_ref(connection);
    RLAddSource(loop, self->source, mode);
    dbus_connection_set_wakeup_main_function(connection, RLDBusRouse_, self, NULL);
    if (!dbus_connection_set_watch_functions(connection, RLDBusAddWatch_, RLDBusRemoveWatch_, RLDBusToggleWatch_, self, NULL) ||
        !dbus_connection_set_timeout_functions(connection, RLDBusAddTimeout_, RLDBusRemoveTimeout_, RLDBusToggleTimeout_, self,
                                               NULL))
        return RLDBusDetach(self), (RLDBusRef)NULL;
    /* What had come before. */
    if (dbus_connection_get_dispatch_status(connection) != DBUS_DISPATCH_COMPLETE) RLDBusRouse_(self);
    return self;
}

RL_HEADER_END
#endif

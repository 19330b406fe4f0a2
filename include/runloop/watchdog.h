/* SPDX-License-Identifier: MIT */
/*
 * Watchdogs: who blocks a loop, told while it is blocked.
 *
 * A callback that computes for a second, or waits for a disk, a lock or another machine, keeps its
 * loop from everything else. A loop that is watched tells who it is before it returns:
 *
 *     RLSetSlowCalloutHandler(RLGetMain(), 0.1, NULL, NULL, NULL);
 *
 * and the log (RLSetLogHandler) has one line for each callback that takes longer than 0.1 s:
 *
 *   RunLoop: for 0.1 s the loop 0x55d0c8a1b2c0 "main" (thread 4711) is in timer "cleaner",
 *       remove_old_files, in mode "kCFRunLoopDefaultMode": clock_nanosleep < usleep < remove_old_files
 *
 * again after twice that time, and so on. Programs that cannot be compiled anew get the same by the
 * environment variable RUNLOOP_SLOW=0.1.
 * What a loop that is watched pays is a reading of the clock for each callback. The thread that
 * watches all loops of the process is made for the first callback, and sleeps when none is running.
 *
 * The other direction is a service manager that watches the process: RLServiceNotify says what
 * sd_notify(3) says, without its library, and RLServiceWatchdogCreate gives a timer that tells it
 * that the loop still turns.
 * Rules: Docs/semantics.md, sections 42 and 44.
 */
#ifndef RUNLOOP_WATCHDOG_H
#define RUNLOOP_WATCHDOG_H

#include "base.h"

RL_HEADER_BEGIN

/** What a callback is called for. Later versions may have more kinds. CF: none. */
RL_ENUM(int32_t, RLCalloutKind) {
    /** A source of either version, also one of a socket, a port, a descriptor or a kernel event. */
    kRLCalloutSource = 1,
    kRLCalloutTimer = 2,
    kRLCalloutObserver = 3,
    /** A function of RLPerformFunction or of the perform family. */
    kRLCalloutFunction = 4,
    /** The main dispatch queue. */
    kRLCalloutMainQueue = 5
};

/** A callback that takes long. All of it is the library's, and there for the length of the call. CF: none. */
typedef struct RLSlowCallout {
    /** 0. Later versions have more fields. */
    RLIndex version;
    RLRunLoopRef RL_NONNULL loop;
    /** The mode in which it is called. */
    RLMode RL_NONNULL mode;
    RLCalloutKind kind;
    /** The kernel's number of the loop's thread. */
    int32_t thread;
    /** The source, timer or observer; NULL for a function and for the main queue. */
    RLTypeRef RL_NULLABLE item;
    /** The item's name, if it has one. */
    const char *RL_NULLABLE name;
    /** The function that is called; NULL if it is known by the backtrace alone. */
    const void *RL_NULLABLE function;
    /** Its name, or the place in its file where it begins; "?" if neither is known. */
    const char *RL_NONNULL symbol;
    /** Since when it runs, and for how many seconds, both without the runs of the loop inside it. */
    RLAbsoluteTime since;
    RLTimeInterval time;
    /** 1 when it is told of this callback for the first time, 2 for the second. */
    uint32_t count;
    /** How many frames the backtrace has; 0 if the thread computes and is not blocked in the kernel. */
    uint32_t frameCount;
    /** Where the thread is blocked, then return addresses, the innermost first. */
    const void *RL_NULLABLE const *RL_NONNULL frames;
    /** The same in words: the names of the functions with " < " between them; "" if there is none. */
    const char *RL_NONNULL trace;
} RLSlowCallout;

/** What is called for a callback that takes long. CF: none. */
typedef void (*RLSlowCalloutHandler)(const RLSlowCallout *RL_NONNULL callout, void *RL_NULLABLE info);

/**
 * Has callbacks told that take longer than a time, while they run, in place of what was set before.
 *
 * rl: any loop; NULL does nothing but to call release.
 * seconds: from 0.001 to 504911232; what is beyond counts as these. 0, less and NaN: nothing is told.
 *     By the loop's clock (clock.h).
 * handler: is called on a thread of the library, with all signals blocked; other callbacks that are
 *     slow are told after it. NULL: a line of the log for each.
 * info: passed to both functions as it is; NULL is allowed.
 * release: called once, when the handler is not called any more: another one was set or the loop
 *     was freed, and the last call has returned. It may be NULL.
 * Threads: any; it holds for callbacks that begin after it. Ownership: info is the library's until
 * release. Reentrancy: call-outs and the handler too; may call release of the former handler.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLSetSlowCalloutHandler(RLRunLoopRef RL_NULLABLE rl, RLTimeInterval seconds,
                                       RLSlowCalloutHandler RL_NULLABLE handler, void *RL_NULLABLE info,
                                       void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Tells after how many seconds callbacks of a loop are told; 0: they are not.
 *
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLTimeInterval RLGetSlowCalloutTime(RLRunLoopRef RL_NULLABLE rl);

/**
 * Tells the service manager something, as sd_notify(3) does: "READY=1", "STATUS=...", "STOPPING=1".
 *
 * state: one or more assignments with newlines between them, as sd_notify(3) lists them; NULL and ""
 *     are not sent.
 * Returns: true if it was sent to the socket that the environment variable NOTIFY_SOCKET names, a
 * path or "@" and an abstract name. False if there is none or it does not take the text within a
 * second; a program that is no service may disregard that.
 * Threads: any; it reads the environment. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLServiceNotify(const char *RL_NULLABLE state);

/**
 * Makes a timer that tells the service manager "WATCHDOG=1" twice in the time that this has set.
 *
 * Added to a loop in a mode (RLAddTimer), it does so only while the loop runs in that mode and
 * comes to its timers: systemd restarts the service if a callback blocks it for longer than
 * WatchdogSec=. It fires at once, then again and again, keeps its mode from being finished, and goes
 * by the loop's clock, like every timer. In the child of fork it says nothing.
 * Returns: the timer; NULL if the service manager does not ask for it: the environment variable
 * WATCHDOG_USEC is not there or no number above 0, or WATCHDOG_PID names another process.
 * Threads: any; it reads the environment. Ownership: the caller's to release.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLTimerRef RL_NULLABLE RLServiceWatchdogCreate(void) RL_WARN_UNUSED_RESULT;

RL_HEADER_END

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Watchdogs: which callback blocks a loop, reported while the loop is blocked.
 *
 * A callback that computes for a second, or waits for a disk, a lock or another machine, keeps its
 * loop from everything else. The library reports such a callback of a watched loop before it
 * returns:
 *
 *     RLSetSlowCalloutHandler(RLGetMain(), 0.1, NULL, NULL, NULL);
 *
 * and the log (RLSetLogHandler) has one line for each callback that takes longer than 0.1 s:
 *
 *   RunLoop: for 0.100000 s the loop 0x55d0c8a1b2c0 "main" (thread 4711) is in timer "cleaner",
 *       remove_old_files, in mode "kCFRunLoopDefaultMode": clock_nanosleep < usleep < remove_old_files
 *
 * again after twice that time, and so on. Programs that cannot be recompiled get the same with the
 * environment variable RUNLOOP_SLOW=0.1.
 * A watched loop pays a reading of the clock for each callback. The thread that watches all loops of
 * the process is made for the first callback, and sleeps when none is running.
 *
 * In the other direction, a service manager watches the process: RLServiceNotify sends what
 * sd_notify(3) sends, without its library, and RLServiceWatchdogCreate makes a timer that reports to
 * the service manager that the loop still runs.
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
    /** Also what RLPerformAfterDelay calls. */
    kRLCalloutTimer = 2,
    kRLCalloutObserver = 3,
    /** A function of RLPerformFunction or of the perform family, except RLPerformAfterDelay. */
    kRLCalloutFunction = 4,
    /** The main dispatch queue. */
    kRLCalloutMainQueue = 5
};

/** A callback that takes long. All of it is the library's, and valid during the call. CF: none. */
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
    /** When it began, and for how many seconds it has run, without the runs of the loop inside it. */
    RLAbsoluteTime since;
    RLTimeInterval time;
    /** 1 in the first report of this callback, 2 in the second, and so on. */
    uint32_t count;
    /**
     * How many frames the backtrace has; 0 if there is none. A thread that computes is asked for its own by
     * the signal SIGURG, unless the program has set an action for that, the thread blocks it, or its signal
     * stack is small; one that is blocked in the kernel is sent nothing. A thread that takes a SIGURG of its
     * own (sigwait(3), signalfd(2)) has to block the signal before its loop runs: if it blocks it just when it
     * is asked, one that came for it at that moment may be lost.
     */
    uint32_t frameCount;
    /** Where the thread is blocked or computes, then return addresses, the innermost first. */
    const void *RL_NULLABLE const *RL_NONNULL frames;
    /** The same in words: the names of the functions with " < " between them; "" if there is none. */
    const char *RL_NONNULL trace;
} RLSlowCallout;

/** What is called for a callback that takes long. CF: none. */
typedef void (*RLSlowCalloutHandler)(const RLSlowCallout *RL_NONNULL callout, void *RL_NULLABLE info);

/**
 * Reports callbacks that take longer than a time, while they run; replaces what was set before.
 *
 * rl: any loop; with NULL the call only calls release.
 * seconds: from 0.001 to 504911232, by the loop's clock (clock.h); values beyond count as these. 0,
 *     less and NaN: no reports.
 * handler: called on a thread of the library, with all signals blocked; other slow callbacks are
 *     reported after it returns. NULL: a line of the log for each.
 * info: passed to both functions as it is; NULL is allowed.
 * release: called once, when the handler will not be called again: another one was set or the loop
 *     was freed, and the last call has returned. It may be NULL.
 * Threads: any; applies to callbacks that begin after it, and takes over the reports of one that was
 * being watched. Ownership: info is the library's until release. Reentrancy: call-outs and the
 * handler too; may call release of the former handler.
 * CF: none. Since 0.2.
 */
RL_EXPORT void RLSetSlowCalloutHandler(RLRunLoopRef RL_NULLABLE rl, RLTimeInterval seconds,
                                       RLSlowCalloutHandler RL_NULLABLE handler, void *RL_NULLABLE info,
                                       void (*RL_NULLABLE release)(void *RL_NULLABLE info));

/**
 * Returns the seconds after which callbacks of a loop are reported; 0: they are not.
 *
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.2.
 */
RL_EXPORT RLTimeInterval RLGetSlowCalloutTime(RLRunLoopRef RL_NULLABLE rl);

/**
 * Sends the service manager a state, as sd_notify(3) does: "READY=1", "STATUS=...", "STOPPING=1".
 *
 * state: one or more assignments with newlines between them, as sd_notify(3) lists them; NULL and ""
 *     are not sent.
 * Returns: true if it was sent to the socket that the environment variable NOTIFY_SOCKET names, a
 * path or "@" and an abstract name. False if there is none or it does not take the text within a
 * second; a program that is not a service may ignore that.
 * Threads: any; it reads the environment. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT bool RLServiceNotify(const char *RL_NULLABLE state);

/**
 * Makes a timer that sends the service manager "WATCHDOG=1" twice in the time that the manager set.
 *
 * Once added to a loop in a mode (RLAddTimer), it sends only while the loop runs in that mode and
 * reaches its timers: systemd restarts the service if a callback blocks the loop for longer than
 * WatchdogSec=. It fires at once, then repeatedly, keeps its mode from being finished, and uses the
 * loop's clock, like every timer. In the child of fork it sends nothing.
 * Returns: the timer; NULL if the service manager does not ask for it: the environment variable
 * WATCHDOG_USEC is missing or not a number above 0, or WATCHDOG_PID names another process.
 * Threads: any; it reads the environment. Ownership: the caller's to release.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
RL_EXPORT RLTimerRef RL_NULLABLE RLServiceWatchdogCreate(void) RL_WARN_UNUSED_RESULT;

RL_HEADER_END

#endif

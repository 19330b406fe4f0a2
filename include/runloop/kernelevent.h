/* SPDX-License-Identifier: MIT */
/*
 * Kernel events: signals, the end of processes, changes of files, clocks and the program's own
 * events as sources of a run loop, in the shape of BSD's kqueue.
 *
 * RLKernelEventSourceCreate takes an RLKernelEvent that says what to wait for: a filter, its
 * subject (ident or path), the events of interest (fflags) and how to report them (flags). It
 * returns an ordinary version 1 source: RLAddSource, RLRemoveSource, RLSourceInvalidate and
 * RLRelease work as for any source. The kernel watches from the creation on. What happens before a
 * mode with the source runs is reported when the mode runs; what happens several times before the
 * report is reported once.
 * The callback runs on the loop's thread, as a handled source, with another RLKernelEvent that
 * says what happened.
 *
 *   filter   ident              fflags                     reported
 *   Signal   the number         none                       data: how often since the last report
 *   Process  a process id       kRLNoteExit                data: the status, as wait(2) gives it
 *   Vnode    a descriptor, or   kRLNoteWrite and so on     fflags: which of them happened
 *            path               kRLNoteReplace for a path
 *   Timer    any                unit, kRLNoteAbsolute,     data: expirations since the last report
 *                               kRLNoteBoot, ClockSet      fflags: kRLNoteClockSet
 *   User     any                24 bits of the program     fflags and data given to the trigger
 *   Thread   an RLThreadRef     kRLNoteExit                data: the result
 *   Lock     a lock object      none                       that a distributed lock is free
 *
 * Differences from kqueue: Docs/deviations.md.
 * fork: the child's sources have kernel objects of their own; events of files that were pending at
 * the fork are reported in the parent only, and timers go on with the time that they have left (ticks
 * of a repeating one that were pending are the parent's only). A source for which no kernel object can be
 * made in the child, as where the hard limit of descriptors is lower than its number by then, is invalid there.
 * Files: sources share one inotify instance, so the limits are the kernel's max_user_watches and
 * the number of descriptors: one for each file named by descriptor and one for each directory. The
 * file systems of these cannot be unmounted (EBUSY) while the source is valid. The call that makes a source
 * on a file system that does not answer (NFS, FUSE) waits alone; while a source looks for its file there
 * after an event, fork and the other loops with sources of files wait with it. If
 * more than max_queued_events are pending, a source reports all that may have happened (S-KEV-17). So
 * it does where a file that has taken the name could not be watched for a while (S-KEV-19).
 * Rules: Docs/semantics.md, section 27.
 */
#ifndef RUNLOOP_KERNELEVENT_H
#define RUNLOOP_KERNELEVENT_H

#include "base.h"

RL_HEADER_BEGIN

/** The kind of event that a source waits for. */
RL_ENUM(int32_t, RLKernelFilter) {
    /**
     * A file was changed, by any process. ident is an open descriptor, which may be closed once the
     * source is made: the source watches the file itself, whatever its name becomes. Or path names a
     * file: then the source watches that name, even when another file takes its place, as when an
     * editor saves. The file need not exist; its directory must.
     */
    kRLKernelFilterVnode = -4,
    /**
     * A process ended. One report, always with kRLKernelEventOneShot. The program still has to
     * wait(2) for its child, unless fflags has kRLNoteReap. ident is resolved at the creation: a
     * process that gets the same number later is never reported.
     */
    kRLKernelFilterProcess = -5,
    /**
     * A signal was delivered to the process. While such a source is valid the library's handler is
     * installed, so the signal's default action does not happen; a handler that the program had
     * installed before is called as well, with its sa_mask and sa_flags, and once if it has
     * SA_RESETHAND. SA_NOCLDWAIT and SA_NOCLDSTOP hold without a handler too. It may leave by siglongjmp(3). The signal need not be blocked, and should not be.
     * SIGKILL, SIGSTOP and the signals of faulty instructions are refused.
     */
    kRLKernelFilterSignal = -6,
    /** A span of data units has passed; reported repeatedly unless the source is one-shot. */
    kRLKernelFilterTimer = -7,
    /** RLKernelEventSourceTrigger was called. */
    kRLKernelFilterUser = -10,
    /**
     * A thread of RLThreadStart has finished. ident is the RLThreadRef, which the source retains. One
     * report, always with kRLKernelEventOneShot; data is the thread's result, a pointer. Not in kqueue.
     */
    kRLKernelFilterThread = -100,
    /**
     * A distributed lock is free. ident is an RLDistributedLockRef, which the source retains. A report
     * does not take the lock: the callback tries to lock it, and others may be faster. The first look
     * comes when the source's mode runs. On the file systems of one machine (distributedlock.h) the
     * kernel reports each unlock, break and end of a holder. Elsewhere the source looks every data
     * milliseconds, 1000 for 0, and does not notice a lock that was free only in between; each look
     * that finds it free is a report, and the loop's thread waits for the file server. Not in kqueue.
     */
    kRLKernelFilterDistributedLock = -101
};

/** How a source reports. The state is always reset by a report, as EV_CLEAR says. */
RL_OPTIONS(uint32_t, RLKernelEventFlags) {
    /** Made disabled: nothing is reported before RLKernelEventSourceSetEnabled. */
    kRLKernelEventDisable = 0x0008,
    /** Invalidated after its first report. */
    kRLKernelEventOneShot = 0x0010,
    /** Disabled by each report, before its callback. */
    kRLKernelEventDispatch = 0x0080,
    /** In reports only: no further report can come, because the process or thread has ended. */
    kRLKernelEventEOF = 0x8000
};

/** Events of interest, and events that happened. Each filter has its own bits. */
RL_OPTIONS(uint32_t, RLKernelNotes) {
    /**
     * Vnode: the file's last name was removed; for a path, its name was. By descriptor the removal of a
     * directory is reported only if the directory it is in may be read, which takes a watch of its own.
     */
    kRLNoteDelete = 0x0001,
    /** Vnode: contents were written or truncated; of a directory, its list of names changed. */
    kRLNoteWrite = 0x0002,
    /** Vnode: the file is longer than at the last event of interest. */
    kRLNoteExtend = 0x0004,
    /** Vnode: mode, owner, times or the like were changed. */
    kRLNoteAttrib = 0x0008,
    /** Vnode: the number of its names changed; of a directory, to 0. */
    kRLNoteLink = 0x0010,
    /** Vnode: it was renamed; for a path, the name was and stands for no file. */
    kRLNoteRename = 0x0020,
    /** Vnode with a path: the file's system was unmounted, where the directory is on another one. */
    kRLNoteRevoke = 0x0040,
    /** Vnode: a descriptor that was open for writing was closed. FreeBSD's NOTE_CLOSE_WRITE. */
    kRLNoteCloseWrite = 0x0200,
    /** Vnode with a path: the name now means another file, or a file was created. Not in kqueue. */
    kRLNoteReplace = 0x10000,

    /** Process and Thread: it ended. */
    kRLNoteExit = 0x20000000,
    /** Process, reported: data is the status. Without this bit it is unknown: not a child. */
    kRLNoteExitStatus = 0x04000000,
    /** Process: the library reaps the child, so that no zombie is left. Not in kqueue. */
    kRLNoteReap = 0x10000000,

    /** Timer: data are seconds; the unit is milliseconds if none of these is given. */
    kRLNoteSeconds = 0x0001,
    /** Timer: data are microseconds. */
    kRLNoteMicroseconds = 0x0002,
    /** Timer: data are nanoseconds. */
    kRLNoteNanoseconds = 0x0004,
    /** Timer: data is a date of the wall clock since 1970, which moves with the clock; one-shot. */
    kRLNoteAbsolute = 0x0008,
    /** Timer: time in suspend counts too; not with kRLNoteAbsolute. */
    kRLNoteBoot = 0x0100,
    /**
     * Timer: by the wall clock; also reports that the clock was set, after which a timer that is not
     * absolute starts anew. With data 0 it reports only that. Not in kqueue.
     */
    kRLNoteClockSet = 0x10000,

    /** User, for the trigger: the bits of fflags that belong to the program. */
    kRLNoteUserMask = 0x00ffffff,
    /** User, for the trigger: report. Without it the bits are only kept for the next report. */
    kRLNoteTrigger = 0x01000000,
    /** User, for the trigger: leave the source's bits as they are; this is 0. */
    kRLNoteKeep = 0x00000000,
    /** User, for the trigger: keep those of the source's bits that are in fflags as well. */
    kRLNoteAnd = 0x10000000,
    /** User, for the trigger: add the bits of fflags to the source's. */
    kRLNoteOr = 0x20000000,
    /** User, for the trigger: replace the source's bits by those of fflags. */
    kRLNoteCopy = 0x30000000
};

/**
 * What to wait for, and what happened. Like struct kevent.
 *
 * ident: see RLKernelFilter. filter. flags: RLKernelEventFlags. fflags: RLKernelNotes.
 * data: for a timer, its time. path: for Vnode instead of ident; else NULL. It is copied; in a
 *     report it is the source's own copy.
 */
typedef struct RLKernelEvent {
    uintptr_t ident;
    RLKernelFilter filter;
    uint32_t flags;
    uint32_t fflags;
    int64_t data;
    const char *RL_NULLABLE path;
} RLKernelEvent;

/**
 * The data of a kernel event source; copied by RLKernelEventSourceCreate. Functions may be NULL.
 *
 * version: 0. info: passed to the callback; if there is a retain, its result takes info's place.
 * retain: once, when the source is made. release: once, when the source is freed.
 * copyDescription: on RLCopyDescription only; returns a malloc'ed string, freed by the library.
 * CF: none. Since 0.1.
 */
typedef struct RLKernelEventContext {
    RLIndex version;
    void *RL_NULLABLE info;
    const void *RL_NULLABLE (*RL_NULLABLE retain)(const void *RL_NULLABLE info);
    void (*RL_NULLABLE release)(const void *RL_NULLABLE info);
    char *RL_NULLABLE (*RL_NULLABLE copyDescription)(const void *RL_NULLABLE info);
} RLKernelEventContext;

/**
 * What a kernel event source calls, on the loop's thread, with no lock held.
 *
 * source: stays alive during the call; a one-shot is still valid and does not report again during
 *     it.
 * event: what happened, valid during the call only; ident, filter and path are as at creation.
 * info: that of its context. CF: none. Since 0.1.
 */
typedef void (*RLKernelEventCallBack)(RLSourceRef RL_NULLABLE source, const RLKernelEvent *RL_NONNULL event,
                                      void *RL_NULLABLE info);

/**
 * Makes a source that reports a signal, the end of a process, changes of a file, a time, or a
 * trigger.
 *
 * event: what to wait for; copied. NULL: NULL is returned. callout: NULL: reports only count as
 *     handled. context: copied; NULL: info is NULL.
 * Returns: the source; NULL with errno if that is impossible: EINVAL for values without a meaning,
 *     ESRCH for no such process, ENOENT for no such directory, EBADF for no such descriptor, EOPNOTSUPP
 *     for the descriptor of a file that is no directory where /proc is missing, EMFILE or
 *     ENFILE if no descriptor is free, ENOSPC if no file watch is free, ENOMEM if the kernel has no
 *     memory for one, EBUSY for a signal for which the program has replaced the library's handler
 *     with its own eight times.
 * Threads: any. Ownership: the caller's to release; ident stays the caller's.
 * Reentrancy: call-outs too; calls retain. CF: none; kqueue's EV_ADD. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLKernelEventSourceCreate(const RLKernelEvent *RL_NULLABLE event,
                                                            RLKernelEventCallBack RL_NULLABLE callout,
                                                            RLKernelEventContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Returns the event that a source was made for.
 *
 * source: for NULL and other sources the result is false, and event is unchanged. event: receives a
 *     copy, whose path belongs to the source; kRLKernelEventDisable is as it is now. May be NULL.
 * Returns: true if it is a kernel event source.
 * Threads: any. Reentrancy: call-outs too; calls no call-out. CF: none. Since 0.1.
 */
RL_EXPORT bool RLKernelEventSourceGetEvent(RLSourceRef RL_NULLABLE source, RLKernelEvent *RL_NULLABLE event);

/**
 * Enables or disables the reports of a source; what happens while disabled is reported afterwards.
 *
 * source: NULL and other sources: nothing happens.
 * Threads: any; a report that has begun is completed.
 * Reentrancy: call-outs too; calls no call-out.
 * CF: none; kqueue's EV_ENABLE and EV_DISABLE. Since 0.1.
 */
RL_EXPORT void RLKernelEventSourceSetEnabled(RLSourceRef RL_NULLABLE source, bool enabled);

/**
 * Makes a User source report, and wakes the loop it is in.
 *
 * source: NULL, an invalid source and other sources: nothing happens.
 * fflags: kRLNoteTrigger, what to do with the source's bits, and the bits. Reporting clears them.
 * data: passed to the report; of several triggers before a report, the last one's. Kept only with
 *     kRLNoteTrigger.
 * Threads: any, and async-signal-safe as long as a reference to the source is held.
 * Reentrancy: call-outs too; calls no call-out. CF: none; kqueue's NOTE_TRIGGER. Since 0.1.
 */
RL_EXPORT void RLKernelEventSourceTrigger(RLSourceRef RL_NULLABLE source, uint32_t fflags, int64_t data);

RL_HEADER_END

#endif

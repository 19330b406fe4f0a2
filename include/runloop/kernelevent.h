/*
 * Kernel events: signals, the end of processes, changes of files, clocks and the program's own
 * events as sources of a run loop, in the shape of BSD's kqueue.
 *
 * RLKernelEventSourceCreate takes an RLKernelEvent that says what to wait for: a filter, what it is
 * about (ident or path), which happenings (fflags) and how to report (flags). It gives an ordinary
 * version 1 source: RLAddSource, RLRemoveSource, RLSourceInvalidate and RLRelease do what they
 * always do. The kernel is asked from the creation on; what happens before the source is in a
 * running mode is reported then, and what happens several times before it is reported counts once.
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
 *
 * Where this differs from kqueue: Docs/deviations.md.
 * fork: the child's sources have kernel objects of their own; files and timers that were about to
 * be reported when it forked are reported in the parent alone. A source for which the child gets
 * none is invalid there.
 * Files: sources share one inotify instance, so the limits are the kernel's max_user_watches and
 * the descriptors: one for each file that is meant by descriptor and each folder. After more than
 * max_queued_events that no loop took, a source reports all that may have happened (S-KEV-17).
 * Rules: Docs/semantics.md, section 27.
 */
#ifndef RUNLOOP_KERNELEVENT_H
#define RUNLOOP_KERNELEVENT_H

#include "base.h"

RL_HEADER_BEGIN

/** What kind of thing is waited for. */
RL_ENUM(int32_t, RLKernelFilter) {
    /**
     * A file was changed, by whomever. ident is an open descriptor, which may be closed once the
     * source is made: the file itself is meant, whatever it is called later. Or path names a file:
     * then that name is meant, also when another file takes its place, as editors do it; the file
     * may be missing, its folder may not.
     */
    kRLKernelFilterVnode = -4,
    /**
     * A process ended. One report, always with kRLKernelEventOneShot. The program still has to
     * wait(2) for its child, unless fflags has kRLNoteReap. ident is looked at once: no other process
     * that gets the number later is ever meant.
     */
    kRLKernelFilterProcess = -5,
    /**
     * A signal was delivered to the process. While such a source is valid the library's handler is
     * installed, so the signal's default action does not happen; a handler that the program had
     * installed before is called as well, with its sa_mask and sa_flags, and once if it has
     * SA_RESETHAND. It may leave by siglongjmp(3). The signal need not be blocked, and should not be.
     * SIGKILL, SIGSTOP and the signals of faulty instructions are refused.
     */
    kRLKernelFilterSignal = -6,
    /** A time has come: after data units, and again and again unless it is one-shot. */
    kRLKernelFilterTimer = -7,
    /** RLKernelEventSourceTrigger was called. */
    kRLKernelFilterUser = -10
};

/** How a source reports. The state is always reset by a report, as EV_CLEAR says. */
RL_OPTIONS(uint32_t, RLKernelEventFlags) {
    /** Made disabled: nothing is reported before RLKernelEventSourceSetEnabled. */
    kRLKernelEventDisable = 0x0008,
    /** Invalidated after its first report. */
    kRLKernelEventOneShot = 0x0010,
    /** Disabled by each report, before its callback. */
    kRLKernelEventDispatch = 0x0080,
    /** Reported: it cannot happen again. */
    kRLKernelEventEOF = 0x8000
};

/** What is of interest, and what happened. Each filter has its own. */
RL_OPTIONS(uint32_t, RLKernelNotes) {
    /** Vnode: the file's last name was removed; for a path, its name was. */
    kRLNoteDelete = 0x0001,
    /** Vnode: contents were written or cut; of a folder, its list of names. */
    kRLNoteWrite = 0x0002,
    /** Vnode: the file grew. */
    kRLNoteExtend = 0x0004,
    /** Vnode: mode, owner, times or the like were changed. */
    kRLNoteAttrib = 0x0008,
    /** Vnode: the number of its names changed. */
    kRLNoteLink = 0x0010,
    /** Vnode: it was renamed. */
    kRLNoteRename = 0x0020,
    /** Vnode: its file system was unmounted. */
    kRLNoteRevoke = 0x0040,
    /** Vnode: somebody who could write it closed it. FreeBSD's NOTE_CLOSE_WRITE. */
    kRLNoteCloseWrite = 0x0200,
    /** Vnode with a path: the name means another file now, or one at last. Not in kqueue. */
    kRLNoteReplace = 0x10000,

    /** Process: the end of it. */
    kRLNoteExit = 0x20000000,
    /** Process, reported: data is the status; else it is not known, being no child's. */
    kRLNoteExitStatus = 0x04000000,
    /** Process: the library waits for the child, so that no zombie is left. Not in kqueue. */
    kRLNoteReap = 0x10000000,

    /** Timer: data are seconds; the unit is milliseconds if none of these is given. */
    kRLNoteSeconds = 0x0001,
    /** Timer: data are microseconds. */
    kRLNoteMicroseconds = 0x0002,
    /** Timer: data are nanoseconds. */
    kRLNoteNanoseconds = 0x0004,
    /** Timer: data is a date of the wall clock since 1970, which moves with the clock; one-shot. */
    kRLNoteAbsolute = 0x0008,
    /** Timer: time counts also while the system is suspended; not with kRLNoteAbsolute. */
    kRLNoteBoot = 0x0100,
    /**
     * Timer: by the wall clock; reports also that somebody set the clock, after which a timer that
     * is not absolute starts anew. With data 0 it reports that alone. Not in kqueue.
     */
    kRLNoteClockSet = 0x10000,

    /** User, for the trigger: what of fflags is the program's own. */
    kRLNoteUserMask = 0x00ffffff,
    /** User, for the trigger: report. Without it the bits are only kept for the next report. */
    kRLNoteTrigger = 0x01000000,
    /** User, for the trigger: leave the bits as they are (this is 0), */
    kRLNoteKeep = 0x00000000,
    /** or keep those that are in fflags, */
    kRLNoteAnd = 0x10000000,
    /** or add those of fflags, */
    kRLNoteOr = 0x20000000,
    /** or take those of fflags in their place. */
    kRLNoteCopy = 0x30000000
};

/**
 * What to wait for, and what happened. Like struct kevent.
 *
 * ident: see RLKernelFilter. filter. flags: RLKernelEventFlags. fflags: RLKernelNotes.
 * data: in a timer its time. path: for Vnode instead of ident; else NULL. It is copied; in a report
 *     it is the source's own copy.
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
 * version: 0. info: handed to the callback, after retain, if there is one, has exchanged it.
 * retain: once, when the source is made. release: once, when the source dies.
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
 * source: alive during the call; a one-shot is still valid and does not report again in it.
 * event: what happened, good during the call only; ident, filter and path are as at creation.
 * info: that of its context. CF: none. Since 0.1.
 */
typedef void (*RLKernelEventCallBack)(RLSourceRef RL_NULLABLE source, const RLKernelEvent *RL_NONNULL event,
                                      void *RL_NULLABLE info);

/**
 * Makes a source that reports what the kernel says of a signal, process, file, or clock, or a call.
 *
 * event: what to wait for; copied. NULL: NULL is returned. callout: NULL: reports only count as
 *     handled. context: copied; NULL: info is NULL.
 * Returns: the source; NULL with errno if the kernel refuses: EINVAL for values that mean nothing
 *     here, ESRCH for no such process, ENOENT for no such folder, EBADF for no such descriptor,
 *     EMFILE or ENFILE for want of descriptors, ENOSPC for want of file watches, EBUSY for a signal
 *     over whose handlers the program installed its own eight times.
 * Threads: any. Ownership: the caller's to release; ident stays the caller's.
 * Reentrancy: call-outs too; calls retain. CF: none; kqueue's EV_ADD. Since 0.1.
 */
RL_EXPORT RLSourceRef RL_NULLABLE RLKernelEventSourceCreate(const RLKernelEvent *RL_NULLABLE event,
                                                            RLKernelEventCallBack RL_NULLABLE callout,
                                                            RLKernelEventContext *RL_NULLABLE context)
    RL_WARN_UNUSED_RESULT;

/**
 * Tells what a source was made to wait for.
 *
 * source: NULL and other sources: false, and event is left as it is. event: receives a copy, whose
 *     path is the source's; flags tell kRLKernelEventDisable as it is now. NULL only asks.
 * Returns: whether it is a kernel event source.
 * Threads: any. Reentrancy: call-outs too; calls nothing out. CF: none. Since 0.1.
 */
RL_EXPORT bool RLKernelEventSourceGetEvent(RLSourceRef RL_NULLABLE source, RLKernelEvent *RL_NULLABLE event);

/**
 * Switches the reports of a source on or off; what happens meanwhile is reported afterwards.
 *
 * source: NULL and other sources: nothing happens.
 * Threads: any; a report that is under way is not taken back.
 * Reentrancy: call-outs too; calls nothing out.
 * CF: none; kqueue's EV_ENABLE and EV_DISABLE. Since 0.1.
 */
RL_EXPORT void RLKernelEventSourceSetEnabled(RLSourceRef RL_NULLABLE source, bool enabled);

/**
 * Makes a User source report, and wakes the loop it is in.
 *
 * source: NULL, an invalid source and other sources: nothing happens.
 * fflags: kRLNoteTrigger, what to do with the source's bits, and the bits. Reporting clears them.
 * data: handed to the report; of several triggers before it, the last one's. Kept only with
 *     kRLNoteTrigger.
 * Threads: any, and async-signal-safe while somebody holds a reference.
 * Reentrancy: call-outs too; calls nothing out. CF: none; kqueue's NOTE_TRIGGER. Since 0.1.
 */
RL_EXPORT void RLKernelEventSourceTrigger(RLSourceRef RL_NULLABLE source, uint32_t fflags, int64_t data);

RL_HEADER_END

#endif

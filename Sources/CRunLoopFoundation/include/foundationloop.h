/* SPDX-License-Identifier: MIT */
/*
 * Foundation's run loop of the calling thread, as Sources/RunLoopKitFoundation/Hosting needs it.
 *
 * Foundation's library has the functions of CFRunLoop.h but gives Swift programs no module for them, so they are declared here
 * under names of this project's, which are bound to Foundation's symbols. All references are plain pointers.
 */
#ifndef RUNLOOP_FOUNDATIONLOOP_H
#define RUNLOOP_FOUNDATIONLOOP_H

#include <stdbool.h>
#include <stddef.h>

#pragma clang assume_nonnull begin

/* What Foundation's runs return. */
enum { rlf_finished = 1, rlf_stopped = 2, rlf_timed_out = 3, rlf_handled_source = 4 };

/* The stages of Foundation's runs. */
enum {
    rlf_entry = 1 << 0,
    rlf_before_timers = 1 << 1,
    rlf_before_waiting = 1 << 5,
    rlf_after_waiting = 1 << 6,
    rlf_exit = 1 << 7
};

void *rlf_current(void) __asm__("CFRunLoopGetCurrent");
int rlf_run(void *mode, double seconds, unsigned char returns_after_source) __asm__("CFRunLoopRunInMode");
void rlf_stop(void *loop) __asm__("CFRunLoopStop");
void rlf_wake_up(void *loop) __asm__("CFRunLoopWakeUp");
double rlf_next_timer_date(void *loop, void *mode) __asm__("CFRunLoopGetNextTimerFireDate");
void *_Nullable rlf_copy_current_mode(void *loop) __asm__("CFRunLoopCopyCurrentMode");
void rlf_add_source(void *loop, void *source, void *mode) __asm__("CFRunLoopAddSource");
void rlf_remove_source(void *loop, void *source, void *mode) __asm__("CFRunLoopRemoveSource");
void rlf_invalidate_source(void *source) __asm__("CFRunLoopSourceInvalidate");
void rlf_add_observer(void *loop, void *observer, void *mode) __asm__("CFRunLoopAddObserver");
void rlf_invalidate_observer(void *observer) __asm__("CFRunLoopObserverInvalidate");
void *rlf_retain(void *object) __asm__("CFRetain");
void rlf_release(void *object) __asm__("CFRelease");
unsigned char rlf_equal(void *one, void *other) __asm__("CFEqual");

/* Whether a mode has neither sources nor timers nor queued blocks, or is missing. */
bool rlf_is_mode_empty(void *loop, void *mode);

/* The name of a mode as Foundation's string, to be released; NULL if the bytes are no UTF-8. */
void *_Nullable rlf_make_mode(const char *name);
/* The text of such a string, for the caller to free; NULL if there is no memory. */
char *_Nullable rlf_copy_text(void *string);

/* An observer of Foundation's for the stages above, to be released. It calls `retain` now and `release` when it is invalid. */
void *_Nullable rlf_make_observer(
    unsigned long stages, void (*call)(void *observer, unsigned long stage, void *info), void *info,
    const void *_Nonnull (*_Nonnull retain)(const void *info), void (*release)(const void *info));

/* A port source of Foundation's whose descriptor is what `get` says, to be released. */
void *_Nullable rlf_make_source(int (*get)(void *info), void (*perform)(void *info), void *info);

/*
 * A descriptor of its own, for the caller to close, of the epoll set in which Foundation's loop waits when it runs a mode. The mode
 * is made if it is missing. -1 if there is none to be had, or this Foundation waits in another way.
 */
int rlf_copy_port_set(void *loop, void *mode);

/* Takes the events of a port set whose mode is empty, which no run of Foundation's takes. */
void rlf_discard_events(int port_set, void *loop, void *mode);

/* An eventfd, -1 if there is none to be had. */
int rlf_make_event(void);

/* Whether a descriptor can be read now. */
bool rlf_is_readable(int descriptor);

#pragma clang assume_nonnull end

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the adapters of this folder share; it is internal to them.
 *
 * An adapter puts another library's descriptors and timeouts into a run loop. The names here end in
 * an underscore and may change with any version: an adapter is compiled into the program, and the
 * program needs only the run loop's functions.
 *
 * An adapter begins with an RLAdapter_. All of it belongs to the thread of its loop. While a call
 * into the library is under way the adapter makes no second one, because most libraries forbid it:
 * what a nested run finds ready is postponed until the call has returned.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_ADAPTER_H
#define RUNLOOP_ADAPTERS_ADAPTER_H

#include "../runloop.h"
#include <stdlib.h>
#include <string.h>

RL_HEADER_BEGIN

/** Where an adapter's items are, and which it has. */
typedef struct RLAdapter_ {
    RLRunLoopRef loop;
    char *mode;
    struct RLAdapterFile_ *files;         /* all that are watched */
    RLTimerRef timer;                     /* in the mode while something is to happen at a date */
    void (*due)(struct RLAdapter_ *self); /* what happens then */
    int uses;                             /* one until RLAdapterEnd_, and one for each function that goes on using it */
    bool isBusy, isEnded;                 /* a call into the library is under way; RLAdapterEnd_ was called */
    bool hasPutOff, isDue;                /* files wait, or the timer waits, for the end of that call */
    const void *subject;                  /* what is attached, if the other library does not say whether it is */
    struct RLAdapter_ *next;              /* of the thread's others with a subject; an ended one stays while it is busy */
    struct RLAdapter_ *heir;              /* of an ended one: the subject's next adapter, which is busy until this call is over; a use */
    RLSourceRef alarm;                    /* in the timer's place, where that would be by another clock than the library's */
    bool measures;                        /* the library has a date in mind, of the system's clock, and looks at that clock itself */
} RLAdapter_;

/** A descriptor of the library. */
typedef struct RLAdapterFile_ {
    RLAdapter_ *owner;
    struct RLAdapterFile_ *next, **link;
    RLFileDescriptorRef object;
    RLOptionFlags wanted; /* the types that the library asks for */
    bool isPutOff;
} RLAdapterFile_;

/* The calling thread's adapters with a subject; one list for all files of the program. */
__attribute__((weak, visibility("default"))) __thread RLAdapter_ *RLAdapterFirst_;

/* Drops a use; the last one frees the adapter. */
static inline void RLAdapterDrop_(RLAdapter_ *self) {
    if (--self->uses > 0) return;
    RLRelease(self->loop);
    free(self->mode);
    free(self);
}

static inline void RLAdapterEndAlarm_(RLAdapter_ *self) {
    if (self->alarm) RLSourceInvalidate(self->alarm), RLRelease(self->alarm);
    self->alarm = NULL;
}

static inline void RLAdapterRing_(RLSourceRef source, const RLKernelEvent *event, void *info) {
    RLAdapter_ *self = (RLAdapter_ *)info;
    (void)source, (void)event;
    RLAdapterEndAlarm_(self);
    self->due(self);
}

/* Sets the timer to fire once, so many seconds from now. */
static inline void RLAdapterArm_(RLAdapter_ *self, double seconds) {
    if (self->isEnded) return;
    RLAdapterEndAlarm_(self);
    /* A clock that the program moves is early or late for the library, which would say the same date again and again. */
    if (self->measures && seconds > 0 && RLGetClock(self->loop)) {
        RLKernelEvent event = {0, kRLKernelFilterTimer, kRLKernelEventOneShot, kRLNoteMicroseconds, 0, NULL};
        event.data = (int64_t)((seconds < 1e9 ? seconds : 1e9) * 1e6) + 1;
        RLKernelEventContext context = {0, self, NULL, NULL, NULL};
        self->alarm = RLKernelEventSourceCreate(&event, RLAdapterRing_, &context);
        RLAddSource(self->loop, self->alarm, self->mode);
    }
    if (self->alarm) {
        RLRemoveTimer(self->loop, self->timer, self->mode);
        return;
    }
    RLTimerSetNextFireDate(self->timer, RLAbsoluteTimeGetCurrent() + seconds);
    RLAddTimer(self->loop, self->timer, self->mode);
}

static inline void RLAdapterDisarm_(RLAdapter_ *self) {
    self->isDue = false;
    RLAdapterEndAlarm_(self);
    if (!self->isEnded) RLRemoveTimer(self->loop, self->timer, self->mode);
}

/* Begins a call into the library for a file, or for the timer (NULL). False: one is under way, and the file waits for its end. */
static inline bool RLAdapterEnter_(RLAdapter_ *self, RLAdapterFile_ *file) {
    if (!self->isBusy) return self->uses++, self->isBusy = true;
    if (!file) return !(self->isDue = true);
    RLFileDescriptorDisableCallBacks(file->object, file->wanted);
    return !(file->isPutOff = self->hasPutOff = true);
}

/* Takes an adapter out of the thread's list. */
static inline void RLAdapterUnlist_(RLAdapter_ *self) {
    RLAdapter_ **link = &RLAdapterFirst_;
    while (*link && *link != self) link = &(*link)->next;
    if (*link) *link = self->next;
}

/* Ends the call: what was put off has its turn. The adapter may be gone then. */
static inline void RLAdapterLeave_(RLAdapter_ *self) {
    RLAdapter_ *heir = self->heir;
    self->isBusy = false, self->heir = NULL;
    if (self->isEnded) RLAdapterUnlist_(self);
    if (self->isDue) RLAdapterArm_(self, 0);
    for (RLAdapterFile_ *file = self->hasPutOff ? self->files : NULL; file; file = file->next) {
        if (file->isPutOff) RLFileDescriptorEnablePersistentCallBacks(file->object, file->wanted);
        file->isPutOff = false;
    }
    self->isDue = self->hasPutOff = false;
    RLAdapterDrop_(self);
    if (heir) RLAdapterLeave_(heir);
}

static inline void RLAdapterFire_(RLTimerRef timer, void *info);

static inline void RLAdapterMakeTimer_(RLAdapter_ *self) {
    /* One that repeats can be set again; by itself it would next fire in many years. */
    RLTimerContext context = {0, self, NULL, NULL, NULL};
    self->timer = RLTimerCreate(1e9, 1e9, 0, 0, RLAdapterFire_, &context);
}

static inline void RLAdapterFire_(RLTimerRef timer, void *info) {
    RLAdapter_ *self = (RLAdapter_ *)info;
    /* A timer does not fire in its own callback, where the program may run the loop: another one does. */
    RLTimerInvalidate(timer), RLRelease(timer);
    RLAdapterMakeTimer_(self);
    self->due(self);
}

/* Makes an adapter of so many bytes, with a timer that is not set; NULL without a loop, a mode or memory, and if the subject has one. In a call of
   the library that an ended adapter of the subject makes it is busy until the end of that. */
static inline void *RLAdapterCreate_(size_t size, RLRunLoopRef loop, RLMode mode, void (*due)(RLAdapter_ *self), const void *subject) {
    RLAdapter_ *other = NULL, *busy = NULL;
    for (RLAdapter_ *one = subject ? RLAdapterFirst_ : NULL; one; one = one->next) {
        if (one->subject != subject) continue;
        if (!one->isEnded) other = one;
        else if (!one->heir) busy = one;
    }
    RLAdapter_ *self = loop && mode && !other ? (RLAdapter_ *)calloc(1, size) : NULL;
    if (self) self->mode = (char *)malloc(strlen(mode) + 1);
    if (!self || !self->mode) return free(self), (void *)NULL;
    memcpy(self->mode, mode, strlen(mode) + 1);
    RLRetain(self->loop = loop);
    self->due = due, self->uses = 1, self->subject = subject;
    if (subject) self->next = RLAdapterFirst_, RLAdapterFirst_ = self;
    if (busy) self->isBusy = true, self->uses++, busy->heir = self;
    RLAdapterMakeTimer_(self);
    return self;
}

/* Watches a descriptor for nothing yet; NULL if there is no memory. The descriptor stays the library's. */
static inline RLAdapterFile_ *RLAdapterWatch_(RLAdapter_ *self, int fd, RLFileDescriptorCallBack callback) {
    RLAdapterFile_ *file = (RLAdapterFile_ *)calloc(1, sizeof *file);
    RLFileDescriptorContext context = {0, file, NULL, free, NULL};
    RLFileDescriptorRef object = file ? RLFileDescriptorCreate(fd, false, callback, &context) : NULL;
    if (!object) return free(file), (RLAdapterFile_ *)NULL;
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(object, 0);
    RLAddSource(self->loop, source, self->mode);
    RLRelease(source);
    file->owner = self, file->object = object;
    file->next = self->files, file->link = &self->files;
    if (file->next) file->next->link = &file->next;
    return self->files = file;
}

/* kRLFileDescriptorReadCallBack and WriteCallBack. */
static inline RLOptionFlags RLAdapterTypes_(bool reads, bool writes) { return (reads ? 1u : 0u) | (writes ? 2u : 0u); }

/* Asks for exactly these types. */
static inline void RLAdapterWant_(RLAdapterFile_ *file, RLOptionFlags types) {
    RLOptionFlags former = file->wanted;
    file->wanted = types;
    if (file->isPutOff || former == types) return;
    RLFileDescriptorDisableCallBacks(file->object, former & ~types);
    RLFileDescriptorEnablePersistentCallBacks(file->object, types & ~former);
}

/* Ends the watch and frees the file; to be called before the library closes the descriptor. */
static inline void RLAdapterUnwatch_(RLAdapterFile_ *file) {
    RLFileDescriptorRef object = file->object;
    *file->link = file->next;
    if (file->next) file->next->link = file->link;
    RLFileDescriptorInvalidate(object);
    RLRelease(object);
}

/* Takes everything out of the loop. The adapter is freed with its last use. */
static inline void RLAdapterEnd_(RLAdapter_ *self) {
    if (self->isEnded) return;
    self->isEnded = true;
    if (!self->isBusy) RLAdapterUnlist_(self);
    while (self->files) RLAdapterUnwatch_(self->files);
    RLAdapterEndAlarm_(self);
    RLTimerInvalidate(self->timer);
    RLRelease(self->timer);
    RLAdapterDrop_(self);
}
RL_HEADER_END
#endif

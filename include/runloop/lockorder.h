/* SPDX-License-Identifier: MIT */
/*
 * The order in which threads take the locks of lock.h and sync.h, in files that are compiled with
 * -DRL_CHECKS=2.
 *
 * Two locks that are taken in two orders can block two threads for ever. With RL_CHECKS=2 each
 * thread records which locks it holds when it waits for another one; so the program has a graph of
 * "held while waiting for". An order that closes a cycle in it is written to standard error when it
 * first occurs, with the stacks of all its orders, even if nothing blocked in this run:
 *
 *     RunLoop: lock order: 0x4040a0 was held before 0x4040a8
 *     program(+0x1299)[0x401299]
 *     RunLoop: ... and 0x4040a8 before 0x4040a0 here
 *     program(+0x12f1)[0x4012f1]
 *
 * addr2line(1) and the debugger convert the addresses to lines, -rdynamic shows functions. Nothing
 * of this is in the library: lock.h includes this header then, and the compiler puts the functions
 * into the program. It is for debugging, since each lock then costs a walk of the stack. Attempts
 * (TryLock, and waits with a time limit) begin no order, because they end by themselves; the locks
 * that they took count as held like the rest. There is room for 4,096 orders, and a line is written
 * when there is none for another one.
 * The program and the libraries that it is linked with have one graph; what dlopen loads has its own,
 * unless the program is linked with -rdynamic, and knows nothing of locks that others take. A lock
 * that such a file takes, and one that is not compiled so gives back, counts as held.
 * Call RLLockOrderForget before memory with a lock is freed and used for another one.
 * RLSynchronized is not watched. Rules: Docs/semantics.md, section 31.
 */
#ifndef RUNLOOP_LOCKORDER_H
#define RUNLOOP_LOCKORDER_H

#include "base.h"

#if defined(RL_CHECKS) && RL_CHECKS >= 2

#include <errno.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

RL_HEADER_BEGIN

/* One of these in the program, whichever files have it, and libraries too. */
#define RL_ORDER_SHARED_ __attribute__((weak, visibility("default")))

enum { RL_ORDER_EDGES_ = 4096, RL_ORDER_LISTS_ = 1024, RL_ORDER_HELD_ = 32, RL_ORDER_FRAMES_ = 16 };

/* `first` was held by a thread that waited for `second`. */
struct RLLockOrderEdge_ {
    const void *RL_NULLABLE first, *RL_NULLABLE second;
    void *RL_NULLABLE stack[RL_ORDER_FRAMES_];
    int depth;
    bool seen; /* by the search that is under way; that has set the next two, each a number of an edge or -1 */
    int before, waiting;
    int nextOfFirst, nextOfPair; /* in the two lists that have it: the number of the next edge and 1, or 0 */
};

/* All edges, guarded by `word`: the number of the process that looks at them, so that the child of
   fork takes over from a thread that it does not have. */
struct RLLockOrderEdges_ {
    struct RLLockOrderEdge_ edges[RL_ORDER_EDGES_];
    /* Of lists of edges, by their first lock and by both: the number of the first one and 1, or 0. */
    int ofFirst[RL_ORDER_LISTS_], ofPair[RL_ORDER_LISTS_];
    int count;
    int word;
    bool isFull; /* and the line is written */
};
RL_ORDER_SHARED_ struct RLLockOrderEdges_ RLLockOrder_;

/* What the thread holds, in the order of taking. */
RL_ORDER_SHARED_ __thread const void *RL_NULLABLE RLLockOrderHeld_[RL_ORDER_HELD_];
RL_ORDER_SHARED_ __thread int RLLockOrderCount_;

static inline void RLLockOrderLeave_(void) { __atomic_store_n(&RLLockOrder_.word, 0, __ATOMIC_RELEASE); }

static inline unsigned RLLockOrderList_(const void *RL_NULLABLE lock) {
    return (unsigned)((uint64_t)(uintptr_t)lock * 0x9e3779b97f4a7c15u >> 54);
}
static inline unsigned RLLockOrderPairList_(const void *RL_NULLABLE first, const void *RL_NULLABLE second) {
    return (RLLockOrderList_(first) * 31 + RLLockOrderList_(second)) % RL_ORDER_LISTS_;
}
static inline void RLLockOrderLink_(int place) {
    struct RLLockOrderEdge_ *edge = &RLLockOrder_.edges[place];
    int *ofFirst = &RLLockOrder_.ofFirst[RLLockOrderList_(edge->first)];
    int *ofPair = &RLLockOrder_.ofPair[RLLockOrderPairList_(edge->first, edge->second)];
    edge->nextOfFirst = *ofFirst;
    edge->nextOfPair = *ofPair;
    *ofFirst = *ofPair = place + 1;
}
static inline void RLLockOrderLinkAll_(void) {
    for (int i = 0; i < RL_ORDER_LISTS_; i++) RLLockOrder_.ofFirst[i] = RLLockOrder_.ofPair[i] = 0;
    for (int i = 0; i < RLLockOrder_.count; i++) RLLockOrderLink_(i);
}
static inline void RLLockOrderEnter_(void) {
    int own = (int)getpid(), found = 0, tries = 0, cancellation, error = errno;
    while (!__atomic_compare_exchange_n(&RLLockOrder_.word, &found, own, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (found == own) {
            if (++tries < 16) {
                sched_yield();
            } else {
                /* The thread that looks may have a lower priority, which sched_yield lets run for nobody. */
                pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
                poll(NULL, 0, 1);
                pthread_setcancelstate(cancellation, NULL);
                errno = error;
            }
            found = 0;
        }
    }
    /* A thread that is not in this process may have left the lists as they were in the middle of a change. */
    if (found != 0) RLLockOrderLinkAll_();
}
static inline bool RLLockOrderHas_(const void *RL_NULLABLE first, const void *RL_NULLABLE second) {
    int place = RLLockOrder_.ofPair[RLLockOrderPairList_(first, second)];
    while (place > 0 && (RLLockOrder_.edges[place - 1].first != first || RLLockOrder_.edges[place - 1].second != second))
        place = RLLockOrder_.edges[place - 1].nextOfPair;
    return place > 0;
}

/* Each has a prototype too, for programs that ask for them. */

/* Whether there is a way from one lock to another: the number of its last edge, and how many it has; or -1. The edges that are still to
   be followed are linked: a way may be too long for the thread's stack. */
RL_ORDER_SHARED_ int RLLockOrderFind_(const void *RL_NULLABLE from, const void *RL_NULLABLE to, int *RL_NONNULL length);
RL_ORDER_SHARED_ int RLLockOrderFind_(const void *RL_NULLABLE from, const void *RL_NULLABLE to, int *RL_NONNULL length) {
    for (int i = 0; i < RLLockOrder_.count; i++) RLLockOrder_.edges[i].seen = false;
    for (int before = -1, waiting = -1;;) {
        for (int i = RLLockOrder_.ofFirst[RLLockOrderList_(from)] - 1; i >= 0; i = RLLockOrder_.edges[i].nextOfFirst - 1) {
            struct RLLockOrderEdge_ *edge = &RLLockOrder_.edges[i];
            if (edge->first != from) continue;
            if (edge->seen) break; /* and so are all others of that lock */
            edge->seen = true;
            edge->before = before;
            if (edge->second == to) {
                *length = 1;
                for (int place = before; place >= 0; place = RLLockOrder_.edges[place].before) ++*length;
                return i;
            }
            edge->waiting = waiting;
            waiting = i;
        }
        if (waiting < 0) return -1;
        before = waiting;
        from = RLLockOrder_.edges[before].second;
        waiting = RLLockOrder_.edges[before].waiting;
    }
}

/* Adds an edge unless it is known. Returns how many edges contradict it, and copies as many of them as there is room for, the last first. */
RL_ORDER_SHARED_ int RLLockOrderEnterEdge_(const struct RLLockOrderEdge_ *RL_NONNULL edge, bool adds,
                                           struct RLLockOrderEdge_ *RL_NULLABLE copies, int room);
RL_ORDER_SHARED_ int RLLockOrderEnterEdge_(const struct RLLockOrderEdge_ *RL_NONNULL edge, bool adds,
                                           struct RLLockOrderEdge_ *RL_NULLABLE copies, int room) {
    int length = 0;
    RLLockOrderEnter_();
    if (!adds || (RLLockOrder_.count < RL_ORDER_EDGES_ && !RLLockOrderHas_(edge->first, edge->second))) {
        int place = RLLockOrderFind_(edge->second, edge->first, &length);
        for (int i = 0; i < room && place >= 0; i++, place = RLLockOrder_.edges[place].before) copies[i] = RLLockOrder_.edges[place];
        if (adds) {
            RLLockOrder_.edges[RLLockOrder_.count] = *edge;
            RLLockOrderLink_(RLLockOrder_.count++);
        }
    }
    RLLockOrderLeave_();
    return length;
}

static inline void RLLockOrderWrite_(const char *RL_NONNULL line, size_t length) {
    int cancellation, error = errno;
    /* Writing is a cancellation point, which no function of a lock is. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    if (write(2, line, length) < 0) errno = error; /* Nothing else can be done with it. */
    pthread_setcancelstate(cancellation, NULL);
    errno = error;
}

RL_ORDER_SHARED_ bool RLLockOrderIsKnown_(const void *RL_NULLABLE first, const void *RL_NULLABLE second);
RL_ORDER_SHARED_ bool RLLockOrderIsKnown_(const void *RL_NULLABLE first, const void *RL_NULLABLE second) {
    static const char line[] = "RunLoop: lock order: there is no room for more than 4096 orders\n";
    bool known, isFull, tells;
    RLLockOrderEnter_();
    known = RLLockOrderHas_(first, second);
    isFull = !known && RLLockOrder_.count == RL_ORDER_EDGES_;
    tells = isFull && !RLLockOrder_.isFull;
    if (tells) RLLockOrder_.isFull = true;
    RLLockOrderLeave_();
    if (tells) RLLockOrderWrite_(line, sizeof line - 1);
    return known || isFull;
}

/* Stacks are walked and written while `word` is not held: that waits for a thread that loads a library, whose constructor may lock. */
RL_ORDER_SHARED_ void RLLockOrderAdd_(const void *RL_NULLABLE first, const void *RL_NULLABLE second);
RL_ORDER_SHARED_ void RLLockOrderAdd_(const void *RL_NULLABLE first, const void *RL_NULLABLE second) {
    int cancellation, length, error = errno;
    struct RLLockOrderEdge_ edge, *others;
    if (RLLockOrderIsKnown_(first, second)) return;
    /* Writing is a cancellation point, which no function of a lock is. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    edge.first = first;
    edge.second = second;
    edge.depth = backtrace(edge.stack, RL_ORDER_FRAMES_);
    length = RLLockOrderEnterEdge_(&edge, true, NULL, 0);
    others = length > 0 ? (struct RLLockOrderEdge_ *)malloc((size_t)length * sizeof edge) : NULL;
    if (others) {
        int found = RLLockOrderEnterEdge_(&edge, false, others, length);
        if (found < length) length = found; /* Others may have been forgotten meanwhile. */
        for (int i = 0; i < length; i++) {
            fprintf(stderr, "RunLoop: lock order: %p was held before %p\n", others[i].first, others[i].second);
            backtrace_symbols_fd(others[i].stack, others[i].depth, 2);
        }
        fprintf(stderr, "RunLoop: ... and %p before %p here\n", first, second);
        backtrace_symbols_fd(edge.stack, edge.depth, 2);
        free(others);
    }
    pthread_setcancelstate(cancellation, NULL);
    errno = error;
}

/* flags: those of RL_WILL_LOCK_; the calling thread waits for the lock without a limit. */
static inline void RLLockOrderWillLock_(const void *RL_NONNULL lock, unsigned flags) {
    if (flags & 16u) return;
    for (int i = 0; i < RLLockOrderCount_; i++) {
        if (RLLockOrderHeld_[i] != lock) RLLockOrderAdd_(RLLockOrderHeld_[i], lock);
    }
}
static inline void RLLockOrderDidLock_(const void *RL_NONNULL lock, unsigned flags) {
    if (!(flags & 32u) && RLLockOrderCount_ < RL_ORDER_HELD_) RLLockOrderHeld_[RLLockOrderCount_++] = lock;
}
static inline void RLLockOrderWillUnlock_(const void *RL_NONNULL lock) {
    int place = RLLockOrderCount_;
    while (place > 0 && RLLockOrderHeld_[place - 1] != lock) place--;
    if (place == 0) return; /* Another thread locked it. */
    for (RLLockOrderCount_--; place <= RLLockOrderCount_; place++) RLLockOrderHeld_[place - 1] = RLLockOrderHeld_[place];
}

/**
 * Forgets the orders of locks whose memory is about to be freed. Only with RL_CHECKS=2.
 *
 * memory, size: where the locks were.
 * Threads: any. Reentrancy: call-outs too; calls no call-out.
 * CF: none. Since 0.2.
 */
static inline void RLLockOrderForget(const void *RL_NONNULL memory, size_t size) {
    const char *start = (const char *)memory;
    RLLockOrderEnter_();
    for (int i = 0; i < RLLockOrder_.count;) {
        const char *first = (const char *)RLLockOrder_.edges[i].first, *second = (const char *)RLLockOrder_.edges[i].second;
        bool isThere = (first >= start && first < start + size) || (second >= start && second < start + size);
        if (isThere) RLLockOrder_.edges[i] = RLLockOrder_.edges[--RLLockOrder_.count]; else i++;
    }
    RLLockOrderLinkAll_();
    RLLockOrderLeave_();
}

RL_HEADER_END

#endif

#endif

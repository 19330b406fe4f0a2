/* SPDX-License-Identifier: MIT */
/* The wake word: RunLoop+Wake.swift, which has its table, RunLoop+BusyPolling.swift, RunLoop+Wait.swift.
 *
 * A loop, two threads that post and wake it, and one that stops it, or, in the place of the second post, makes an inbox ready. A post is made ready by a
 * store that its processor may keep back in its store buffer: it becomes visible at any later time, at the latest with the next
 * read-modify-write or system call of that thread, or by the barrier that the loop puts into every thread (membarrier(2)).
 *
 * Shown for all interleavings: when the loop sleeps and all are done, it has performed every post, has seen the stop, and has
 * served the inbox.
 *
 * INBOX   one thread posts, one makes an inbox ready
 * EPOLL   the loop sleeps in epoll: what rouses it is kept for the next sleep. Else it sleeps in the futex of the word.
 *
 * Bugs to be put in, each of which must be found:
 * BUG_NO_BARRIER        the loop leaves the state "busy polling" without the barrier
 * BUG_NO_LAST_PASS      it makes no pass after that
 * BUG_LOOKS_FIRST       who wakes a loop only looks where a wake-up is pending
 * BUG_SLEEPS_BLINDLY    the loop says that it sleeps without a look at what was said before
 * BUG_LOOK_AGAIN_WINS   "look again" takes the place of a wake-up
 * BUG_NO_LOOK_AT_STACK  the loop does not look at the stack after it said that it sleeps
 */

#ifdef INBOX
#define POSTERS 1
#else
#define POSTERS 2
#endif

mtype = { awake, lookAgain, wakeUp, busyPolling, asleep }; /* WakeState */

mtype wake = awake;      /* RunLoop.wake */
bool isPolling;        /* RunLoop.busyPolling.isOn */
bool kept[2];            /* the post is in its processor's store buffer */
bool posted[2];          /* the post is visible */
bool performed[2];
bool stop, stopSeen;     /* RunLoop.stop */
bool signalled;          /* RunLoop.signalled: the inbox's link is on the stack */
bool inKernel;           /* the loop's thread sleeps */
bool event;              /* a rousing that nobody has fetched yet */

/* The processor makes its stores visible when it likes. */
active [POSTERS] proctype buffer() {
end: kept[_pid] -> atomic { kept[_pid] = false; posted[_pid] = true }
}

#define SEEN(i) if :: kept[i] -> kept[i] = false; posted[i] = true :: else fi

inline rouse() {
#ifdef EPOLL
    event = true
#else
    inKernel = false
#endif
}

/* RLPerformFunction, RLWakeUp */
active [POSTERS] proctype poster() {
    byte me = _pid - POSTERS;
    mtype was;
    kept[me] = true;
    if
    :: wake == busyPolling -> goto end
#ifdef BUG_LOOKS_FIRST
    :: wake == wakeUp -> goto end
    :: wake != busyPolling && wake != wakeUp
#else
    :: wake != busyPolling
#endif
    fi;
    atomic { SEEN(me); was = wake; wake = wakeUp };
    if
    :: was == asleep -> rouse()
    :: else
    fi;
end:
}

#ifndef INBOX

/* RunLoop.lookAgain */
active proctype stopper() {
    mtype was;
    stop = true;
    do
    :: was = wake;
        if
#ifdef BUG_LOOK_AGAIN_WINS
        :: was == lookAgain || was == busyPolling -> break
#else
        :: was == wakeUp || was == lookAgain || was == busyPolling -> break
#endif
        :: else
        fi;
        atomic { if :: wake == was -> wake = lookAgain; goto told :: else fi }
    od;
    goto end;
told:
    if
    :: was == asleep -> rouse()
    :: else
    fi;
end:
}

#else

/* An inbox: push, RunLoop.lookAgainIfAsleep */
active proctype marker() {
    mtype was;
    signalled = true;
    was = wake;
    do
    :: was == asleep ->
        atomic { if :: wake == was -> wake = lookAgain; goto told :: else -> was = wake fi }
    :: else -> goto end
    od;
told:
    rouse();
end:
}

#endif

/* What the loop does in a pass; the posts are looked at one by one. */
inline pass() {
    /* P1 */
    if
    :: wake == wakeUp -> wake = awake
    :: else
    fi;
    took = false;
    if :: posted[0] && !performed[0] -> performed[0] = true; took = true :: else fi;
#ifndef INBOX
    if :: posted[1] && !performed[1] -> performed[1] = true; took = true :: else fi
#endif
}

/* endWait: whether posts come fast enough to poll is left open. */
inline endWait() {
    word = wake;
    if
    :: isPolling
    :: !isPolling && (word == wakeUp || wasWoken) -> isPolling = true
    :: !isPolling ->
        if
        :: word == wakeUp -> wake = awake
        :: else
        fi
    fi;
    if
    :: isPolling && word != busyPolling -> wake = busyPolling
    :: else
    fi
}

active proctype runLoop() {
    mtype word;
    bool isWoken, wasWoken, took;
    do
    :: pass();
        do
        :: word = wake;
            if
            :: word == lookAgain -> atomic { if :: wake == lookAgain -> wake = awake :: else fi }
            :: else
            fi;
            isWoken = isPolling;
            if
            :: isPolling && took /* goesOnPolling */
            :: isPolling ->
                /* endBusyPolling */
                isPolling = false;
                atomic { if :: wake == busyPolling -> wake = awake :: else fi };
#ifndef BUG_NO_BARRIER
                atomic { SEEN(0); SEEN(1) };
#endif
#ifdef BUG_NO_LAST_PASS
                isWoken = false
#endif
            :: else
            fi;
            isWoken = isWoken || word == wakeUp;
#ifdef INBOX
            signalled = false;
#else
            if :: stop -> stopSeen = true :: else fi;
#endif
            if
            :: isWoken -> endWait(); wasWoken = true; break
            :: else
            fi;
            /* Nothing yet: sleep. */
#ifdef BUG_SLEEPS_BLINDLY
            wake = asleep;
#else
            atomic { if :: wake == awake -> wake = asleep; word = asleep :: else -> word = awake fi };
            if
            :: word == asleep
            :: else -> goto again
            fi;
#endif
#if defined(INBOX) && !defined(BUG_NO_LOOK_AT_STACK)
            if
            :: signalled -> goto roused
            :: else
            fi;
#endif
#ifdef EPOLL
end:        atomic { event -> event = false };
#else
            atomic { if :: wake == asleep -> inKernel = true :: else fi };
end:        !inKernel;
#endif
roused:
            atomic { if :: wake == asleep -> wake = awake :: else fi };
again:
        od
    od
}

active proctype judge() {
    timeout;
#ifdef INBOX
    assert(performed[0] && !signalled)
#else
    assert(performed[0] && performed[1] && stopSeen)
#endif
}

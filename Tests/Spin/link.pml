/* SPDX-License-Identifier: MIT */
/* The link of a source over two loops: Source+Signal.swift, Source+Inbox.swift, RunLoop+SourceMembership.swift.
 *
 * A thread removes the source from loop 1, another one adds it to loop 2, two threads signal it, of which one wakes the loops
 * afterwards, and the loops run. Each shared access of the code is one step here; a read-modify-write is atomic.
 *
 * Shown for all interleavings: a link is queued by one thread at a time and lies on one stack or in one list; when all are done
 * and the loops sleep, no signal is left whose signaller woke the loops, and no link is queued that lies nowhere.
 *
 * Scenarios:
 * INBOX        the source is an inbox: two calls of markReady, which tell a loop only if it sleeps
 * SIGNAL_FIRST one signaller, which wakes no loop; the addition begins after it set the flag and has to wake (S-WAKE-15)
 * FURTHER      the link is a further one, whose mark is a word of its own and not a bit beside the flag
 * RETURNS      the remover adds the source to loop 1 again, if the other has not added it to loop 2 yet
 * IDLE         loop 1 does not run
 * BYSTANDER    in the place of the second signaller, one of another source, which stays in loop 1: whoever comes too late takes
 *              its link, too, with the stack
 *
 * Bugs to be put in, each of which must be found:
 * BUG_LEAVE_FIRST         the remover gives the link away (`loop` = nil) before it drains and unlists
 * BUG_NO_SECOND_DRAIN     it does not look at the stack again after that
 * BUG_NO_FORWARD          it takes the mark off the link without a look for a new loop
 * BUG_NO_LOOK_AFTER_PUSH  a signaller does not look at the link's loop again after its push
 * BUG_NO_MARK             a second signaller leaves no mark for the first
 * BUG_ADDS_WITHOUT_MARK   an addition that finds the link in the hands of a signaller leaves no mark for it
 * BUG_TELLS_BY_FLAG       who brings an inbox's link to a loop tells that loop only if it set the flag, too
 */

#define LINKS 2     /* 0: the source's, 1: the bystander's */
#define NOBODY 0    /* no loop; loops are 1 and 2 */
#define BIT(l) (1 << (l))

byte loop[LINKS];       /* SourceLink.loop */
bool signalled[LINKS];  /* SourceState.signalled */
bool marked[LINKS];     /* SourceState.marked */
byte generation[LINKS]; /* SourceState.generation */
bool queued[LINKS];     /* SourceState.queued, or SourceLink.isQueued */
byte stack[3];          /* RunLoop.signalled, as a set of links */
byte listed[3];         /* RunLoop.pending or RunLoop.inboxes.ready, as a set of links */
bool lock[3];           /* RunLoop.lock */
bool woken[3];          /* RunLoop.wake says "wake-up", or "look again" */
bool asleep[3];         /* RunLoop.wake says "asleep" */
bool owed[LINKS];       /* a signal was not performed yet whose signaller, or else the addition, has to wake the loop */

/* A link lies in one place only. */
#define LIES(l) (((stack[1] >> (l)) & 1) + ((stack[2] >> (l)) & 1) + ((listed[1] >> (l)) & 1) + ((listed[2] >> (l)) & 1))

inline acquire(p) { atomic { !lock[p] -> lock[p] = true } }
inline release(p) { lock[p] = false }
inline wakeUp(p) { woken[p] = true }
inline lookAgainIfAsleep(p) { if :: asleep[p] -> woken[p] = true :: else fi }

#ifdef INBOX
#define tell(p) lookAgainIfAsleep(p)
#else
#define tell(p) wakeUp(p)
#endif

inline push(p, l) { atomic { assert(queued[l] && LIES(l) == 0); stack[p] = stack[p] | BIT(l) } }
inline take(p, mine) { atomic { mine = mine | stack[p]; stack[p] = 0 } }
inline enlist(p, l) { atomic { assert(queued[l] && LIES(l) == 0); listed[p] = listed[p] | BIT(l) } }
inline unlist(p, l) { atomic { assert(listed[p] & BIT(l)); listed[p] = listed[p] & ~BIT(l) } }

/* True in `won` if the caller queued the link. */
inline tryQueue(l, won) { atomic { won = !queued[l]; queued[l] = true } }
inline unqueue(l) { atomic { assert(queued[l] && LIES(l) == 0); queued[l] = false } }

/* SourceLink.forward: `mine` are queued links that lie nowhere. */
inline forward(mine) {
    do
    :: mine == 0 -> break
    :: else ->
        atomic { l = (mine & 1 -> 0 : 1); mine = mine & ~BIT(l) }
        do
        :: p = loop[l];
            if
            :: p != NOBODY && signalled[l] ->
                push(p, l);
                tell(p);
                if
                :: loop[l] != p -> take(p, mine)
                :: else
                fi;
                break
            :: else ->
                unqueue(l);
                if
                :: signalled[l] && loop[l] != NOBODY -> tryQueue(l, won); if :: won :: else -> break fi
                :: else -> break
                fi
            fi
        od
    od
}

/* SourceLink.deliver */
inline deliver(l0) {
    do
    :: p = loop[l0];
        if
        :: p == NOBODY ->
            unqueue(l0);
            if
            :: loop[l0] == NOBODY -> break
            :: else -> tryQueue(l0, won); if :: won :: else -> break fi
            fi
        :: else ->
            push(p, l0);
#ifndef BUG_NO_LOOK_AFTER_PUSH
            if
            :: loop[l0] != p -> take(p, work); forward(work)
            :: else
            fi;
#endif
            break
        fi
    od
}

/* RunLoop.drainLocked */
inline drainLocked(me) {
    take(me, work);
    do
    :: work == 0 -> break
    :: else ->
        atomic { l = (work & 1 -> 0 : 1); work = work & ~BIT(l) }
        if
        :: loop[l] == me -> enlist(me, l)
        :: else -> late = BIT(l); forward(late)
        fi
    od
}

#define LOCALS byte p, l, work, late, mine; bool won; byte before

inline wakeLoops(l0) { before = loop[l0]; if :: before != NOBODY -> tell(before) :: else fi }

/* RLSourceSignal, or markReady. The caller does not know in which loop the source is. */
proctype signaller(byte l0; bool wakes) {
    LOCALS; bool wasQueued, wasSignalled; byte mySignal;
    atomic {
        owed[l0] = owed[l0] || wakes;
        wasSignalled = signalled[l0];
#ifdef INBOX
        wasQueued = queued[l0]; signalled[l0] = true; queued[l0] = true
#else
        if
        :: wasSignalled ->
#ifndef BUG_NO_MARK
            marked[l0] = true
#else
            skip
#endif
        :: else ->
            generation[l0]++; mySignal = generation[l0]; signalled[l0] = true; marked[l0] = false;
#ifndef FURTHER
            wasQueued = queued[l0]; queued[l0] = true
#endif
        fi
#endif
    }
#ifdef INBOX
    if
    :: !wasQueued -> deliver(l0)
    :: else
    fi;
#ifdef BUG_TELLS_BY_FLAG
    if :: !wasSignalled -> wakeLoops(l0) :: else fi;
#else
    if :: !wasSignalled || !wasQueued -> wakeLoops(l0) :: else fi;
#endif
#else
    if
    :: !wasSignalled ->
#ifdef FURTHER
        wasQueued = true;
        if
        :: loop[l0] != NOBODY -> tryQueue(l0, won); wasQueued = !won
        :: else
        fi;
#endif
        if
        :: !wasQueued -> deliver(l0)
        :: else
        fi;
        atomic { won = signalled[l0] && (marked[l0] || generation[l0] != mySignal) };
        if :: won -> wakeLoops(l0) :: else fi
    :: else
    fi;
#ifndef SIGNAL_FIRST
    if :: wakes -> wakeUp(1); wakeUp(2) :: else fi
#endif
#endif
}

inline leaveLocked(me, l0) {
    mine = 0;
#ifdef BUG_LEAVE_FIRST
    loop[l0] = NOBODY;
    drainLocked(me);
    if
    :: LIES(l0) && (listed[1] | listed[2]) & BIT(l0) -> unlist(me, l0); unqueue(l0)
    :: else
    fi
#else
    drainLocked(me);
    if
    :: listed[me] & BIT(l0) -> unlist(me, l0); mine = BIT(l0)
    :: else
    fi;
    loop[l0] = NOBODY;
#ifndef BUG_NO_SECOND_DRAIN
    drainLocked(me);
#endif
    if
    :: mine ->
#ifdef BUG_NO_FORWARD
        unqueue(l0)
#else
        forward(mine)
#endif
    :: else
    fi
#endif
}

inline addLocked(me, l0) {
    /* takeSignalOfNewMemberLocked */
    if
    :: !(listed[me] & BIT(l0)) && signalled[l0] ->
        tryQueue(l0, won);
        if
        :: won -> enlist(me, l0)
        :: else
#if !defined(BUG_ADDS_WITHOUT_MARK) && !defined(INBOX)
            -> marked[l0] = true
#endif
        fi
    :: else
    fi
}

/* RLRemoveSource(loop 1) */
proctype remover() {
    LOCALS;
    acquire(1);
    leaveLocked(1, 0);
    release(1);
#ifdef RETURNS
    acquire(1);
    atomic { won = loop[0] == NOBODY; if :: won -> loop[0] = 1 :: else fi };
    if :: won -> addLocked(1, 0) :: else fi;
    release(1);
    wakeUp(1);
#endif
}

/* RLAddSource(loop 2), once the link is free: else the source would get a further one. */
proctype adder() {
    LOCALS;
#ifdef SIGNAL_FIRST
    generation[0] > 0;
#endif
    acquire(2);
    atomic { loop[0] == NOBODY -> loop[0] = 2 }
    addLocked(2, 0);
    release(2);
    wakeUp(2);
}

/* A pass: the stack is taken, the list is performed; then the loop sleeps. */
proctype runLoop(byte me) {
    LOCALS; byte l1;
end:
    do
    :: atomic { woken[me] -> woken[me] = false };
        acquire(me);
        drainLocked(me);
        do
        :: listed[me] != 0 ->
            l1 = (listed[me] & 1 -> 0 : 1);
            atomic { won = signalled[l1]; signalled[l1] = false; marked[l1] = false; owed[l1] = false; listed[me] = listed[me] & ~BIT(l1) };
            /* giveBackLocked; takeSignalLocked does it together with the flag, if it is set. */
            unqueue(l1);
            if
            :: signalled[l1] -> tryQueue(l1, won); if :: won -> enlist(me, l1) :: else fi
            :: else
            fi
        :: else -> break
        od;
        release(me);
#ifdef INBOX
        /* The wait: a loop that says that it sleeps looks at its stack once more. */
        asleep[me] = true;
        if
        :: stack[me] != 0 -> woken[me] = true
        :: else -> woken[me]
        fi;
        asleep[me] = false
#endif
    od
}

init {
    atomic {
        loop[0] = 1;
        loop[1] = 1;
#ifndef IDLE
        run runLoop(1);
#endif
        run runLoop(2);
        run signaller(0, true);
#ifdef BYSTANDER
        run signaller(1, true);
#elif defined(INBOX)
        run signaller(0, true);
#elif !defined(SIGNAL_FIRST)
        run signaller(0, false);
#endif
        run remover();
        run adder()
    }
    timeout;
    assert(!(owed[0] && loop[0] == 2));
#ifndef SIGNAL_FIRST
#ifndef IDLE
    assert(!(owed[0] && loop[0] == 1) && !owed[1]);
#endif
#endif
    assert(queued[0] == LIES(0) && queued[1] == LIES(1))
}

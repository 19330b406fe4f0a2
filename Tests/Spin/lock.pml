/* SPDX-License-Identifier: MIT */
/* The biased lock with membarrier(2): Lock.swift.
 *
 * The owner takes the lock a few times, two other threads once each. The owner's plain stores go through its store buffer,
 * in order: they become visible at any later time, at the latest with its next read-modify-write or futex call, or by the barrier
 * that another thread puts into it. The others' stores are read-modify-writes or followed by a barrier at once.
 *
 * Shown for all interleavings: nobody is in together with another, and everybody gets in and out.
 *
 * Bugs to be put in, each of which must be found:
 * BUG_NO_BARRIER      a foreigner does not make the owner's processor see that the bias is gone
 * BUG_LOOKS_EARLY     it looks at `inside` before the bias is gone
 * BUG_NO_SECOND_LOOK  the owner does not look at the bias again after it said that it is inside
 * BUG_NO_WAKE         the owner leaves without a look for a foreigner that waits
 * BUG_BIAS_UNLOCKED   the owner takes the bias back after it gave the mutex back
 */

#define TURNS 4
#define CALM 1           /* Lock.calmLimit */
#define FOREIGNERS 2

byte word;               /* Lock.word: 0 free, 1 held; who waits for it just waits here */
bool bias = true;        /* Lock.bias */
bool inside;             /* Lock.inside */
byte calm;               /* Lock.calm */
byte within;             /* how many threads hold the lock */
bool sleeps[FOREIGNERS]; /* in the futex of `inside` */

mtype = { toInside, toBias };
chan kept = [3] of { mtype, bool }; /* the owner's store buffer */
byte biasesKept;         /* stores to `bias` in it; the owner reads its own last one */

#define MINE(shared) (biasesKept > 0 -> true : shared)

inline makeVisible() {
    mtype which; bool value;
    kept ? which, value;
    if
    :: which == toInside -> inside = value
    :: which == toBias -> bias = value; biasesKept--
    fi
}

inline barrier() {
    do
    :: len(kept) > 0 -> makeVisible()
    :: else -> break
    od
}

active proctype buffer() {
end: do
    :: atomic { len(kept) > 0 -> makeVisible() }
    od
}

inline lockWord() { atomic { word == 0 -> barrier(); word = 1 } }
inline unlockWord() { atomic { barrier(); word = 0 } }

inline enter() { atomic { within++; assert(within == 1) } }
inline exit() { within-- }

inline wakeForeigner() { atomic { barrier(); sleeps[0] = false; sleeps[1] = false } }

/* Lock.leave */
inline leave() {
    isInside = false;
    kept ! toInside, false;
#ifndef BUG_NO_WAKE
    if
    :: !MINE(bias) -> wakeForeigner()
    :: else
    fi
#endif
}

active proctype owner() {
    byte turn;
    bool isInside; /* what the owner reads from `inside`, which nobody else writes */
    do
    :: turn == TURNS -> break
    :: else ->
        turn++;
        /* lock(owner: true) */
        if
        :: MINE(bias) ->
            isInside = true;
            kept ! toInside, true;
#ifndef BUG_NO_SECOND_LOOK
            if
            :: MINE(bias) -> goto entered
            :: else
            fi;
            leave()
#else
            goto entered
#endif
        :: else
        fi;
        lockWord();
        calm++;
#ifndef BUG_BIAS_UNLOCKED
        if
        :: calm >= CALM -> atomic { kept ! toBias, true; biasesKept++ }
        :: else
        fi;
#endif
entered:
        enter();
        exit();
        /* unlock(owner: true) */
        if
        :: isInside -> leave()
        :: else ->
            unlockWord();
#ifdef BUG_BIAS_UNLOCKED
            if
            :: calm >= CALM -> atomic { kept ! toBias, true; biasesKept++ }
            :: else
            fi
#endif
        fi
    od
}

proctype foreigner(byte me) {
    atomic { word == 0 -> word = 1 }; /* lockWord */
    calm = 0;
    if
    :: bias ->
#ifdef BUG_LOOKS_EARLY
        !inside;
#endif
        bias = false;
#ifndef BUG_NO_BARRIER
        atomic { barrier() };
#endif
#ifndef BUG_LOOKS_EARLY
        do
        :: inside ->
            atomic { if :: inside -> sleeps[me] = true :: else fi };
            !sleeps[me]
        :: else -> break
        od
#endif
    :: else
    fi;
    enter();
    exit();
    word = 0
}

init {
    atomic { run foreigner(0); run foreigner(1) }
}

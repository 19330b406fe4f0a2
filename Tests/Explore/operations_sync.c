/* SPDX-License-Identifier: MIT */
/* Locks and what else lies in the program's memory: an item of the kind `sync` has one of each. The inline functions of the headers
 * are compiled here such that each atomic access asks the scheduler, as those of the core do. */
#define _GNU_SOURCE
#include "explore_hooks.h"

#include <stdint.h>

#define ORDER(order)                                                       \
    ((order) == __ATOMIC_RELAXED   ? RLX_RELAXED                           \
     : (order) == __ATOMIC_ACQUIRE ? RLX_ACQUIRING                         \
     : (order) == __ATOMIC_RELEASE ? RLX_RELEASING                         \
                                   : RLX_SEQUENTIALLY_CONSISTENT)
#define VALUE(word, value) ((__typeof__(*(word) + 0))(value))
#define MODIFY(word, operation, value, order) \
    VALUE(word, rlx_modify((void *)(word), sizeof *(word), operation, (uint64_t)(value), ORDER(order), __FILE__, __LINE__))
#define __atomic_load_n(word, order) VALUE(word, rlx_load((word), sizeof *(word), ORDER(order), __FILE__, __LINE__))
#define __atomic_store_n(word, value, order) \
    rlx_store((word), sizeof *(word), (uint64_t)(value), ORDER(order), __FILE__, __LINE__)
#define __atomic_exchange_n(word, value, order) MODIFY(word, RLX_EXCHANGE, value, order)
#define __atomic_fetch_add(word, value, order) MODIFY(word, RLX_ADD, value, order)
#define __atomic_fetch_sub(word, value, order) MODIFY(word, RLX_SUBTRACT, value, order)
#define __atomic_compare_exchange_n(word, expected, desired, weak, order, failure)                                        \
    compare_exchange((void *)(word), expected, sizeof *(word), (uint64_t)*(expected), (uint64_t)(desired), ORDER(order), ORDER(failure), __LINE__)

static inline bool compare_exchange(void *word, void *expected, uint32_t size, uint64_t wanted, uint64_t desired, int order,
                                    int failure, uint32_t line) {
    uint64_t found = rlx_compare_exchange(word, size, wanted, desired, order, failure, __FILE__, line);
    if (found == wanted) return true;
    if (size == 8) *(uint64_t *)expected = found;
    else *(uint32_t *)expected = (uint32_t)found;
    return false;
}

#include "program.h"

#include <string.h>

/* The words are those of the scenario's first to last execution; each begins with zeroes. */
static struct sync {
    RLLock lock;
    RLRecursiveLock recursive;
    RLReadWriteLock read_write;
    RLCondition condition;
    RLConditionLock numbered;
    RLOnce once;
    RLSemaphore semaphore;
    RLBarrier barrier;
    uint32_t writers, readers; /* who is inside */
    int value, called, passed;
} syncs[MAX_ITEMS];

static struct sync *sync_of(struct item *item) { return &syncs[item - items]; }

void make_sync(struct item *item) {
    struct sync *sync = sync_of(item);
    memset(sync, 0, sizeof *sync);
    sync->barrier.count = (uint32_t)item->number;
    sync->value = (int)item->number;
    sync->semaphore.state = (uint64_t)item->number;
    item->object = NULL;
}

/* Alone, beside readers or not. Others may come in between. */
static void be_inside(struct item *item, bool writes) {
    struct sync *sync = sync_of(item);
    uint32_t *mine = writes ? &sync->writers : &sync->readers;
    uint32_t before = __atomic_fetch_add(mine, 1, __ATOMIC_SEQ_CST);
    uint32_t others = __atomic_load_n(writes ? &sync->readers : &sync->writers, __ATOMIC_SEQ_CST);
    if ((writes && before != 0) || others != 0) fail("two threads are in what %s keeps apart", item->name);
    __atomic_fetch_sub(mine, 1, __ATOMIC_SEQ_CST);
}

static double limit_of(struct call *call) { return call->has_number ? call->number : 1e300; }
/* Whether a wait got what it waits for. */
static bool has_got(struct call *call, bool got) {
    if (!got && !call->has_number) fail("a wait for %s without a limit gives up", call->item[0]->name);
    return got;
}

static void do_hold(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!call->has_number) RLLockLock(&sync->lock);
    else if (!RLLockLockForSeconds(&sync->lock, call->number)) return;
    be_inside(call->item[0], true);
    RLLockUnlock(&sync->lock);
}

static void do_hold_twice(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!call->has_number) RLRecursiveLockLock(&sync->recursive);
    else if (!RLRecursiveLockLockForSeconds(&sync->recursive, call->number)) return;
    RLRecursiveLockLock(&sync->recursive);
    be_inside(call->item[0], true);
    RLRecursiveLockUnlock(&sync->recursive);
    be_inside(call->item[0], true);
    RLRecursiveLockUnlock(&sync->recursive);
}

static void do_read(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!call->has_number) RLReadWriteLockLockForReading(&sync->read_write);
    else if (!RLReadWriteLockLockForReadingForSeconds(&sync->read_write, call->number)) return;
    be_inside(call->item[0], false);
    RLReadWriteLockUnlock(&sync->read_write);
}

/* Stays inside until the semaphore is signalled. */
static void do_read_wait(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    RLReadWriteLockLockForReading(&sync->read_write);
    RLSemaphoreWait(&sync->semaphore);
    RLReadWriteLockUnlock(&sync->read_write);
}

/* In a child: a lock that no thread of the parent had at the fork is free. */
static void do_read_free(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if ((__atomic_load_n(&sync->read_write.word, __ATOMIC_RELAXED) & (RL_READERS_ | RL_WRITER_)) == 0) do_read(call);
}

static void do_write(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!call->has_number) RLReadWriteLockLockForWriting(&sync->read_write);
    else if (!RLReadWriteLockLockForWritingForSeconds(&sync->read_write, call->number)) return;
    be_inside(call->item[0], true);
    RLReadWriteLockUnlock(&sync->read_write);
}

/* With a limit it is enough to have waited; `consumeby` has a date. */
static void consume(struct call *call, bool by_date) {
    struct sync *sync = sync_of(call->item[0]);
    bool in_time = true;
    RLAbsoluteTime date = by_date ? RLAbsoluteTimeGetCurrent() + call->number : 0;
    RLLockLock(&sync->condition.lock);
    while (sync->value == 0 && in_time) {
        if (by_date) in_time = RLConditionWaitUntilDate(&sync->condition, date);
        else if (call->has_number) in_time = RLConditionWaitForSeconds(&sync->condition, call->number);
        else RLConditionWait(&sync->condition);
    }
    be_inside(call->item[0], true);
    if (sync->value > 0) sync->value--;
    RLLockUnlock(&sync->condition.lock);
}

static void do_consume(struct call *call) { consume(call, false); }
static void do_consume_by(struct call *call) { consume(call, true); }

/* The same with the loop running meanwhile, and a lock that is taken so. */
static void do_consume_in_mode(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    bool in_time = true;
    RLLockLock(&sync->condition.lock);
    while (sync->value == 0 && in_time)
        in_time = RLConditionWaitInMode(&sync->condition, call->mode, limit_of(call)) || !call->has_number;
    be_inside(call->item[0], true);
    if (sync->value > 0) sync->value--;
    RLLockUnlock(&sync->condition.lock);
}

static void do_hold_in_mode(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!has_got(call, RLLockInMode(&sync->lock, call->mode, limit_of(call)))) return;
    be_inside(call->item[0], true);
    RLLockUnlock(&sync->lock);
}

static void produce(struct sync *sync, bool all, bool after) {
    RLLockLock(&sync->condition.lock);
    sync->value += all ? 2 : 1;
    if (after) RLLockUnlock(&sync->condition.lock);
    if (all) RLConditionBroadcast(&sync->condition);
    else RLConditionSignal(&sync->condition);
    if (!after) RLLockUnlock(&sync->condition.lock);
}

/* A number: the signal comes after the unlock. */
static void do_produce(struct call *call) { produce(sync_of(call->item[0]), false, call->has_number); }
static void do_produce_all(struct call *call) { produce(sync_of(call->item[0]), true, call->has_number); }

/* Takes it with the number and leaves it with the next: when the number comes, within a second, before a date in a second, or at
 * once. */
enum limit { NEVER, IN_A_SECOND, BY_A_DATE, AT_ONCE };
static void pass_on(struct call *call, enum limit limit) {
    struct sync *sync = sync_of(call->item[0]);
    RLIndex number = (RLIndex)call->number;
    bool taken = true;
    if (limit == NEVER) RLConditionLockLockWhenCondition(&sync->numbered, number);
    else if (limit == IN_A_SECOND) taken = RLConditionLockLockWhenConditionForSeconds(&sync->numbered, number, 1);
    else if (limit == AT_ONCE) taken = RLConditionLockTryLockWhenCondition(&sync->numbered, number);
    else taken = RLConditionLockLockWhenConditionBeforeDate(&sync->numbered, number, RLAbsoluteTimeGetCurrent() + 1);
    if (!taken) return;
    if (RLConditionLockGetCondition(&sync->numbered) != number) fail("%s is taken with another number", call->item[0]->name);
    be_inside(call->item[0], true);
    RLConditionLockUnlockWithCondition(&sync->numbered, number + 1);
}

static void do_when(struct call *call) { pass_on(call, NEVER); }
static void do_when_for(struct call *call) { pass_on(call, IN_A_SECOND); }
static void do_when_by(struct call *call) { pass_on(call, BY_A_DATE); }
static void do_when_now(struct call *call) { pass_on(call, AT_ONCE); }

/* The same, and leaves the number. */
static void do_when_keep(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    RLConditionLockLockWhenCondition(&sync->numbered, (RLIndex)call->number);
    be_inside(call->item[0], true);
    RLConditionLockUnlock(&sync->numbered);
}

/* Takes it whatever the number is, and leaves it with another. */
static void renumber(struct call *call, enum limit limit) {
    struct sync *sync = sync_of(call->item[0]);
    bool taken = true;
    if (limit == NEVER) RLConditionLockLock(&sync->numbered);
    else if (limit == IN_A_SECOND) taken = RLConditionLockLockForSeconds(&sync->numbered, 1);
    else if (limit == AT_ONCE) taken = RLConditionLockTryLock(&sync->numbered);
    else taken = RLConditionLockLockBeforeDate(&sync->numbered, RLAbsoluteTimeGetCurrent() + 1);
    if (!taken) return;
    be_inside(call->item[0], true);
    RLConditionLockUnlockWithCondition(&sync->numbered, (RLIndex)call->number);
}

static void do_number(struct call *call) { renumber(call, NEVER); }
static void do_number_for(struct call *call) { renumber(call, IN_A_SECOND); }
static void do_number_by(struct call *call) { renumber(call, BY_A_DATE); }
static void do_number_now(struct call *call) { renumber(call, AT_ONCE); }

/* By a date so many seconds from now; a try if there is no number. */
static void do_hold_by(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!(call->has_number ? RLLockLockBeforeDate(&sync->lock, RLAbsoluteTimeGetCurrent() + call->number) : RLLockTryLock(&sync->lock)))
        return;
    be_inside(call->item[0], true);
    RLLockUnlock(&sync->lock);
}

static void do_hold_twice_by(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    RLRecursiveLock *lock = &sync->recursive;
    if (!(call->has_number ? RLRecursiveLockLockBeforeDate(lock, RLAbsoluteTimeGetCurrent() + call->number) : RLRecursiveLockTryLock(lock)))
        return;
    if (!RLRecursiveLockTryLock(lock)) fail("the thread that has %s cannot take it again", call->item[0]->name);
    be_inside(call->item[0], true);
    RLRecursiveLockUnlock(lock);
    be_inside(call->item[0], true);
    RLRecursiveLockUnlock(lock);
}

static void do_try_read(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!RLReadWriteLockTryLockForReading(&sync->read_write)) return;
    be_inside(call->item[0], false);
    RLReadWriteLockUnlock(&sync->read_write);
}

static void do_try_write(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (!RLReadWriteLockTryLockForWriting(&sync->read_write)) return;
    be_inside(call->item[0], true);
    RLReadWriteLockUnlock(&sync->read_write);
}

static void do_try_semaphore(struct call *call) { (void)RLSemaphoreTryWait(&sync_of(call->item[0])->semaphore); }

static void set_up(void *info) {
    struct item *item = info;
    be_inside(item, true);
    sync_of(item)->called++;
}

static void do_call_once(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    RLOnceCall(&sync->once, set_up, call->item[0]);
    if (sync->called != 1) fail("the function was called %d times when its once returned", sync->called);
}

/* One that is done shows what was done. */
static void do_once_done(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    if (RLOnceIsDone(&sync->once) && sync->called != 1) fail("a once is done, and its function was called %d times", sync->called);
}

static void do_semaphore_signal(struct call *call) { RLSemaphoreSignal(&sync_of(call->item[0])->semaphore); }
static void do_semaphore_wait(struct call *call) {
    RLSemaphore *semaphore = &sync_of(call->item[0])->semaphore;
    if (call->has_number) (void)RLSemaphoreWaitForSeconds(semaphore, call->number);
    else RLSemaphoreWait(semaphore);
}

static void do_barrier(struct call *call) {
    struct sync *sync = sync_of(call->item[0]);
    __atomic_fetch_add(&sync->readers, 1, __ATOMIC_SEQ_CST);
    RLBarrierWait(&sync->barrier);
    uint32_t passed = 1 + (uint32_t)__atomic_fetch_add(&sync->passed, 1, __ATOMIC_SEQ_CST), count = (uint32_t)call->item[0]->number;
    if (passed > __atomic_load_n(&sync->readers, __ATOMIC_SEQ_CST) / count * count) fail("a thread passed the barrier too early");
}

static void be_inside_once(void *info) { be_inside(info, true); }
static void synchronize_again(void *info) { RLSynchronized(info, be_inside_once, info); }

static void do_synchronized(struct call *call) {
    RLSynchronized(call->item[0], call->has_number ? synchronize_again : be_inside_once, call->item[0]);
}

const struct operation sync_operations[] = {
    {"hold", "RLLockLock RLLockLockForSeconds RLLockUnlock", do_hold, false},
    {"holdby", "RLLockTryLock RLLockLockBeforeDate RLLockUnlock", do_hold_by, false},
    {"holdtwice", "RLRecursiveLockLock RLRecursiveLockLockForSeconds RLRecursiveLockUnlock", do_hold_twice, false},
    {"holdtwiceby", "RLRecursiveLockTryLock RLRecursiveLockLockBeforeDate RLRecursiveLockUnlock", do_hold_twice_by, false},
    {"read", "RLReadWriteLockLockForReading RLReadWriteLockLockForReadingForSeconds RLReadWriteLockUnlock", do_read, false},
    {"readwait", "RLReadWriteLockLockForReading RLReadWriteLockUnlock", do_read_wait, false},
    {"readfree", "RLReadWriteLockLockForReading RLReadWriteLockUnlock", do_read_free, false},
    {"tryread", "RLReadWriteLockTryLockForReading RLReadWriteLockUnlock", do_try_read, false},
    {"write", "RLReadWriteLockLockForWriting RLReadWriteLockLockForWritingForSeconds RLReadWriteLockUnlock", do_write, false},
    {"trywrite", "RLReadWriteLockTryLockForWriting RLReadWriteLockUnlock", do_try_write, false},
    {"consume", "RLConditionWait RLConditionWaitForSeconds", do_consume, false},
    {"consumeby", "RLConditionWaitUntilDate", do_consume_by, false},
    {"consumemode", "RLConditionWaitInMode", do_consume_in_mode, true},
    {"holdmode", "RLLockInMode", do_hold_in_mode, true},
    {"produce", "RLConditionSignal", do_produce, false},
    {"all", "RLConditionBroadcast", do_produce_all, false},
    {"when", "RLConditionLockLockWhenCondition RLConditionLockGetCondition RLConditionLockUnlockWithCondition", do_when, false},
    {"whenfor", "RLConditionLockLockWhenConditionForSeconds RLConditionLockUnlockWithCondition", do_when_for, false},
    {"whenby", "RLConditionLockLockWhenConditionBeforeDate RLConditionLockUnlockWithCondition", do_when_by, false},
    {"whennow", "RLConditionLockTryLockWhenCondition RLConditionLockUnlockWithCondition", do_when_now, false},
    {"whenkeep", "RLConditionLockLockWhenCondition RLConditionLockUnlock", do_when_keep, false},
    {"number", "RLConditionLockLock RLConditionLockUnlockWithCondition", do_number, false},
    {"numberfor", "RLConditionLockLockForSeconds RLConditionLockUnlockWithCondition", do_number_for, false},
    {"numberby", "RLConditionLockLockBeforeDate RLConditionLockUnlockWithCondition", do_number_by, false},
    {"numbernow", "RLConditionLockTryLock RLConditionLockUnlockWithCondition", do_number_now, false},
    {"callonce", "RLOnceCall", do_call_once, false},
    {"oncedone", "RLOnceIsDone", do_once_done, false},
    {"semsignal", "RLSemaphoreSignal", do_semaphore_signal, false},
    {"semwait", "RLSemaphoreWait RLSemaphoreWaitForSeconds", do_semaphore_wait, false},
    {"semtry", "RLSemaphoreTryWait", do_try_semaphore, false},
    {"barrier", "RLBarrierWait", do_barrier, false},
    {"sync", "RLSynchronized", do_synchronized, false},
    {NULL, NULL, NULL, false},
};

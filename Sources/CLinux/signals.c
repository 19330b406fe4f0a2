/* SPDX-License-Identifier: MIT */
/* The library's handler of signals, and the program's handlers below it. */
#define _GNU_SOURCE
#include <signal.h>

#include "CLinux.h"

/* The library's handler for a signal has layers, each over an action of the program's. One that the program covered with an action of its own cannot
 * be removed, because a handler may call it, and cannot get another action below it, because code such as system(3) may restore it. So the next time
 * the library takes the signal it installs another layer over the program's action. The first layer that is entered in a delivery notifies the library,
 * whether the kernel calls it or a handler that found it installed.
 *
 * The caller holds a lock of its own when it takes or gives back a signal. Handlers run at the same time, in any thread, and the
 * program may call sigaction(2) at any time. */
enum { SIGNAL_LAYERS = 8 };

/* An action of the program's. It is never freed, and changed only where it lies below no layer and is none to be called once; a handler that is about to
 * call it sees that by `changes`. An action that comes again has the record that it had. */
struct program_action {
    struct sigaction action; /* Written under the caller's lock between two changes; read by copying. */
    unsigned changes;
    struct program_action *next; /* Guarded by the caller's lock. */
};
/* So many for a signal stay when they lie below no layer; the newest at the front. Guarded by the caller's lock. */
enum { KEPT_ACTIONS = 32 };
static struct program_action *program_actions[65];
static struct program_action default_action; /* SIG_DFL */

/* What the program had installed when a layer was; NULL for a layer that was never used. Written by the thread that takes or gives back, releasing,
 * and, for a handler that is to be called once, by the layer that calls it; read by the layer, acquiring. */
static struct program_action *actions_below[SIGNAL_LAYERS][65];
/* A handler that is to be called once, and that the library has put back: a delivery to the layer, which does not find it any more, is repeated once. */
static struct program_action *passed_on[SIGNAL_LAYERS][65];
/* What lies below a layer as long as it was not called, if it is to be called once. Guarded by the caller's lock. */
static struct program_action *once_below[SIGNAL_LAYERS][65];
/* The layer installed last, and a bit for each that the program may call or restore. Guarded by the caller's lock. */
static int last_layer[65], kept_layers[65];
/* Whether the library has the signal. Sequentially consistent: a layer that lets go looks at it after the change of the action, and a thread that takes
 * the signal at the action after this change. */
static bool is_taken[65];
/* Odd while the library takes the signal or gives it back. Sequentially consistent. */
static unsigned changes[65];
/* The same for all signals. Written before a layer is installed, which orders it before the handler; relaxed, because a handler of
 * another signal may read it meanwhile. */
static rl_signal_function signal_function;

/* Whether it is a function; SA_SIGINFO may be set with SIG_DFL and SIG_IGN too. */
static bool is_called(const struct sigaction *action) {
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* Which layer an action is, -1 for none. */
__attribute__((noinline)) static int layer_of(const struct sigaction *action);
__attribute__((noinline)) static bool is_same_action(const struct sigaction *one, const struct sigaction *other);
__attribute__((noinline)) static void make_layer(int layer, const struct sigaction *below, int signal, struct sigaction *ours);

/* The library counts the threads in its function, and waits for them to leave before it frees memory. So nothing may interrupt
 * that function: a handler of the program's that did might leave by siglongjmp(3), or fork. Blocks all signals, including those
 * of the C library by which threads are cancelled. */
static void tell_library(int signal) {
    const uint64_t all = ~(uint64_t)0;
    uint64_t mask;
    bool is_blocked = syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof mask) == 0;
    __atomic_load_n(&signal_function, __ATOMIC_RELAXED)(signal);
    if (is_blocked) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

/* A further iteration needs a further action that the program installs. One that is equal to the library's is taken for that. */
void rl_put_back_action(int signal, const struct sigaction *ours, const struct sigaction *replaced) {
    struct sigaction last = *ours, now = *replaced, next;
    while (sigaction(signal, &now, &next) == 0 && !is_same_action(&next, &last)) {
        last = now;
        now = next;
    }
}

/* signal(3) restores a layer without its flags. What they say of children is to hold whether or not there is a handler below it. */
static void restore_flags(int signal, int layer, const struct sigaction *below) {
    struct sigaction ours, now;
    make_layer(layer, below, signal, &ours);
    const int wanted = ours.sa_flags & (SA_NOCLDWAIT | SA_NOCLDSTOP);
    /* Others, such as siginterrupt(3), leave SA_SIGINFO. */
    if (wanted == 0 || sigaction(signal, NULL, &now) != 0 || layer_of(&now) != layer || now.sa_flags & SA_SIGINFO) return;
    ours = now;
    ours.sa_flags |= wanted | SA_SIGINFO;
    if (sigaction(signal, &ours, &now) != 0 || layer_of(&now) == layer) return;
    /* It has been covered or given back since the check. Who has taken the signal again since may have found it installed. */
    rl_put_back_action(signal, &ours, &now);
    if (!__atomic_load_n(&is_taken[signal], __ATOMIC_SEQ_CST) || sigaction(signal, NULL, &now) != 0 || !is_same_action(&now, below)) return;
    if (sigaction(signal, &ours, &now) == 0 && layer_of(&now) != layer && !is_same_action(&now, below)) rl_put_back_action(signal, &ours, &now);
}

/* A layer that was covered when the library gave the signal back may have been restored since, with nothing below it: then the signal does what it does
 * without a handler. Unless the library takes it now, or the program has installed something: that is what the signal then finds. */
static void let_go(int signal, int layer, const struct sigaction *below) {
    struct sigaction now;
    if (sigaction(signal, NULL, &now) != 0) return;
    const int other = layer_of(&now);
    if (other == layer) {
        if (__atomic_load_n(&is_taken[signal], __ATOMIC_SEQ_CST) || sigaction(signal, below, &now) != 0) return;
        if (layer_of(&now) != layer || __atomic_load_n(&is_taken[signal], __ATOMIC_SEQ_CST)) rl_put_back_action(signal, below, &now);
    } else {
        const struct program_action *passed = __atomic_exchange_n(&passed_on[layer][signal], NULL, __ATOMIC_ACQ_REL);
        if (!passed || !(is_same_action(&now, &passed->action) ||
                         (other >= 0 && __atomic_load_n(&actions_below[other][signal], __ATOMIC_ACQUIRE) == passed)))
            return;
    }
    /* Blocked until the handler returns. */
    raise(signal);
}

/* Whether the handler below a layer is what the kernel has called, and calls the layer: the program has installed it once more, over the library's. If it
 * ends with that call, `is_shown` is false: then the action may also be the one that the library has put back meanwhile. */
static bool is_caller(int signal, const struct sigaction *below, bool is_shown) {
    const unsigned before = __atomic_load_n(&changes[signal], __ATOMIC_SEQ_CST);
    struct sigaction now;
    if (sigaction(signal, NULL, &now) != 0 || now.sa_handler != below->sa_handler) return false;
    return is_shown || (before % 2 == 0 && __atomic_load_n(&is_taken[signal], __ATOMIC_SEQ_CST) &&
                        before == __atomic_load_n(&changes[signal], __ATOMIC_SEQ_CST));
}

static void call_below(int signal, siginfo_t *info, void *context, int layer, struct program_action *record, const struct sigaction *below) {
    /* Of several deliveries only one calls a handler that is to be called once. */
    if (below->sa_flags & (int)SA_RESETHAND &&
        !__atomic_compare_exchange_n(&actions_below[layer][signal], &record, &default_action, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        const int saved = errno;
        let_go(signal, layer, &default_action.action);
        errno = saved;
        return;
    }
    /* As the kernel does for any handler: signal(3) may have restored one with three arguments. */
    below->sa_sigaction(signal, info, context);
}

/* Copies what lies below a layer. A further iteration needs a further layer that is installed meanwhile. */
static struct program_action *copy_below(int signal, int layer, struct sigaction *copy) {
    for (;;) {
        struct program_action *const record = __atomic_load_n(&actions_below[layer][signal], __ATOMIC_ACQUIRE);
        const unsigned before = __atomic_load_n(&record->changes, __ATOMIC_ACQUIRE);
        *copy = record->action;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before == __atomic_load_n(&record->changes, __ATOMIC_RELAXED) && record == __atomic_load_n(&actions_below[layer][signal], __ATOMIC_ACQUIRE))
            return record;
    }
}

/* Whether one of these layers has called the same handler. */
static bool has_called(uint64_t layers, int signal, const struct sigaction *below) {
    for (int layer = 0; layer < SIGNAL_LAYERS; layer++) {
        const struct program_action *other = layers & 1u << layer ? __atomic_load_n(&actions_below[layer][signal], __ATOMIC_ACQUIRE) : NULL;
        if (other && other->action.sa_handler == below->sa_handler) return true;
    }
    return false;
}

/* A delivery may enter several layers, because handlers of the program's call them, and the same layer twice. The first one reports, and what lies below a
 * layer is called once. Which layers were entered is noted in the kernel's own frame of the delivery, a bit for each in `uc_link`, which the kernel sets to
 * 0 in each and does not read: a handler that leaves by siglongjmp(3) leaves nothing behind for a later delivery. The frame is found by where
 * the stack was when the kernel called, or by the context that a handler passes on.
 *
 * A handler with one argument passes none on. If the kernel calls a layer first, that has found the frame. If it calls such a handler, each layer
 * reports: what lies on the stack does not tell whether an earlier one was left by siglongjmp(3). */
struct delivery {
    uint64_t *link;
    int signal;
};
/* That of the layer with a known frame that was entered last. */
static __thread struct delivery present __attribute__((tls_model("initial-exec")));

/* Such handlers may call each other without end. So many entries of layers in one frame of the kernel, each deeper than the one before, are taken for
 * that, or so many outside any: the program may pass on what it has deferred. */
enum { MOST_ENTRIES = 16, MOST_OUTSIDE = 1000, WAS_FOUND = 1 << SIGNAL_LAYERS };
struct entry {
    const uint64_t *frame, *context; /* NULL: not found. */
    int signal, number;
};
static __thread struct entry last_unknown __attribute__((tls_model("initial-exec")));

/* Whether the kernel may read a word, which it does before it refuses the call with EINVAL. */
static bool is_readable(const uint64_t *word) { return syscall(SYS_rt_sigprocmask, -1, word, NULL, sizeof *word) != 0 && errno == EINVAL; }

#if defined(__x86_64__)
/* Where handlers return to, by what the C library has told the kernel. Relaxed: always the same. */
static uint64_t end_of_deliveries;

static void look_at_end_of_deliveries(int signal) {
    struct {
        uint64_t handler, flags, end, mask;
    } action;
    if (syscall(SYS_rt_sigaction, signal, NULL, &action, sizeof action.mask) == 0 && action.end != 0)
        __atomic_store_n(&end_of_deliveries, action.end, __ATOMIC_RELAXED);
}
#endif

/* Whether the kernel has called, or the caller has left its frame to who is called. */
static bool is_end_of_delivery(const unsigned char *caller) {
#if defined(__x86_64__)
    return (uintptr_t)caller == __atomic_load_n(&end_of_deliveries, __ATOMIC_RELAXED);
#elif defined(__aarch64__)
    /* Others end the comparison early, and may be the last of their page. */
    static const unsigned char code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};
    for (size_t i = 0; i < sizeof code; i++)
        if (caller[i] != code[i]) return false;
    return true;
#else
    (void)caller;
    return false;
#endif
}

/* Stacks are read as memory: what an address sanitizer keeps between variables is read, too. */
#define READS_STACK __attribute__((no_sanitize_address))

/* By which words a context in a frame of the kernel is recognised, counted from its beginning. On other processors none is, and each layer reports. */
#if defined(__x86_64__)
enum { CONTEXT_WORDS = 29 };
READS_STACK static bool is_context(const uint64_t *context) {
    /* Flags, the link, later the code segment, and where the floating-point registers are: behind this and siginfo_t, which have 54 words. */
    return context[0] > 0 && context[0] < 16 && context[1] < 2 * WAS_FOUND && (context[23] & 0xffff) == 0x33 &&
           context[28] - (uintptr_t)(context + 54) <= 64;
}
#elif defined(__aarch64__)
enum { CONTEXT_WORDS = 59 };
READS_STACK static bool is_context(const uint64_t *context) {
    /* No flags, the link, and the magic number and the size of the floating-point registers. */
    return context[0] == 0 && context[1] < 2 * WAS_FOUND && context[58] == 0x21046508001;
}
#else
enum { CONTEXT_WORDS = 0 };
static bool is_context(const uint64_t *context) {
    (void)context;
    return false;
}
#endif

/* The link in the kernel's frame, by where the stack was when the kernel called; NULL if it is not there. */
static uint64_t *link_of_kernel(uint64_t *frame) {
#if defined(__aarch64__)
    /* Behind siginfo_t. Clang may give the address of the callee's frame record, of two words, for the end of the caller's frame. */
    frame += is_context(frame + 16) ? 16 : 18;
#endif
    return is_context(frame) ? frame + 1 : NULL;
}

/* That in a context that a handler has passed on. NULL for what was in the register by chance. */
static uint64_t *link_of(uint64_t *context) {
    if ((uintptr_t)context % sizeof *context != 0 || !is_readable(context) || !is_readable(context + CONTEXT_WORDS - 1)) return NULL;
    return is_context(context) ? context + 1 : NULL;
}

/* The next context further up. One of a delivery that is over may be found in memory that a handler has not written to. */
READS_STACK static uint64_t *next_context(uint64_t *here) {
    enum { PAGE = 4096, FURTHEST = 1 << 20 };
    if (CONTEXT_WORDS == 0 || !is_readable(here + CONTEXT_WORDS - 1)) return NULL;
    for (uint64_t *word = here, *last = here + FURTHEST / sizeof *here; word < last; word++) {
        if ((uintptr_t)(word + CONTEXT_WORDS - 1) % PAGE == 0 && !is_readable(word + CONTEXT_WORDS - 1)) return NULL;
        if (is_context(word)) return word;
    }
    return NULL;
}

/* That of the present delivery, if the kernel has called a layer; by what it calls now, and blocks meanwhile. A handler may have put that back, and the
 * program may have left the delivery known last: then the frame of the present one lies below that one's. */
static uint64_t *link_of_present(int signal, uint64_t *here) {
    const struct delivery delivery = present;
    struct sigaction now;
    uint64_t mask;
    if (signal != delivery.signal || delivery.link <= here || sigaction(signal, NULL, &now) != 0 || layer_of(&now) < 0) return NULL;
    if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask) != 0 || !(mask >> (signal - 1) & 1)) return NULL;
    return next_context(here) == delivery.link - 1 ? delivery.link : NULL;
}

/* A handler has called a layer without a context. */
READS_STACK static void enter_unknown(int signal, uint64_t *here) {
    const struct entry outer = last_unknown;
    uint64_t *const context = next_context(here);
    bool goes_on = signal == outer.signal && outer.frame > here && context == outer.context;
    if (context) {
        goes_on = goes_on && context[1] & WAS_FOUND;
        context[1] |= WAS_FOUND;
    }
    last_unknown = (struct entry){here, context, signal, goes_on ? outer.number + 1 : 0};
}

__attribute__((noinline)) static void on_signal(int signal, siginfo_t *info, void *context, int layer, const void *caller, void *frame) {
    const int saved = errno;
    const struct delivery outer = present;
    const struct entry outer_unknown = last_unknown;
    /* By where the stack is, or by what the handler has passed on. */
    const bool is_shown = !is_end_of_delivery(caller);
    uint64_t *link = is_shown ? link_of(context) : link_of_kernel(frame);
    if (!link && is_shown) link = link_of_present(signal, frame);
    const uint64_t entered = link ? *link & (WAS_FOUND - 1) : 0;
    const bool is_first = entered == 0;
    if (entered & 1u << layer) {
        errno = saved;
        return;
    }
    if (link) {
        *link |= 1u << layer;
        present = (struct delivery){link, signal};
    } else if (is_shown) {
        enter_unknown(signal, frame);
    }
    errno = saved;
    if (is_first) tell_library(signal);
    struct sigaction below;
    struct program_action *const record = copy_below(signal, layer, &below);
    if (is_first && signal == SIGCHLD) restore_flags(signal, layer, &below);
    if (!is_called(&below)) {
        if (is_first && (!__atomic_load_n(&is_taken[signal], __ATOMIC_SEQ_CST) || __atomic_load_n(&passed_on[layer][signal], __ATOMIC_RELAXED)))
            let_go(signal, layer, &below);
        errno = saved;
    } else {
        const bool is_called_already = is_first ? is_caller(signal, &below, is_shown) : has_called(entered, signal, &below);
        errno = saved;
        const int most = last_unknown.context ? MOST_ENTRIES : MOST_OUTSIDE;
        if (!is_called_already && (link || !is_shown || last_unknown.number < most)) call_below(signal, info, context, layer, record, &below);
    }
    present = outer;
    last_unknown = outer_unknown;
}

#define LAYER(number) \
    static void on_signal_##number(int signal, siginfo_t *info, void *context) { \
        on_signal(signal, info, context, number, __builtin_return_address(0), __builtin_dwarf_cfa()); \
    }
LAYER(0) LAYER(1) LAYER(2) LAYER(3) LAYER(4) LAYER(5) LAYER(6) LAYER(7)

static void (*const layers[SIGNAL_LAYERS])(int, siginfo_t *, void *) = {
    on_signal_0, on_signal_1, on_signal_2, on_signal_3, on_signal_4, on_signal_5, on_signal_6, on_signal_7,
};

static int layer_of(const struct sigaction *action) {
    /* Whatever the flags are: signal(3) restores a handler without them. */
    for (int layer = 0; layer < SIGNAL_LAYERS; layer++)
        if (action->sa_sigaction == layers[layer]) return layer;
    return -1;
}

static bool is_same_handler(const struct sigaction *one, const struct sigaction *other) {
    return one->sa_handler == other->sa_handler && !((one->sa_flags ^ other->sa_flags) & SA_SIGINFO);
}

/* The C library sets SA_RESTORER, 0x04000000, by itself. The kernel knows the first 64 signals of a mask, and takes two out of it. */
static bool is_same_action(const struct sigaction *one, const struct sigaction *other) {
    const uint64_t never = (uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1);
    uint64_t mask, other_mask;
    memcpy(&mask, &one->sa_mask, sizeof mask);
    memcpy(&other_mask, &other->sa_mask, sizeof other_mask);
    return one->sa_handler == other->sa_handler && !((one->sa_flags ^ other->sa_flags) & ~0x04000000) && !((mask ^ other_mask) & ~never);
}

/* The caller holds the lock: no layer gets another record meanwhile, but for the default one. */
static bool is_used(const struct program_action *record, int signal) {
    for (int layer = 0; layer < SIGNAL_LAYERS; layer++)
        if (__atomic_load_n(&actions_below[layer][signal], __ATOMIC_RELAXED) == record || once_below[layer][signal] == record ||
            __atomic_load_n(&passed_on[layer][signal], __ATOMIC_RELAXED) == record)
            return true;
    return false;
}

/* The record of an action; NULL if there is no memory for one. */
static struct program_action *program_action(const struct sigaction *action, int signal) {
    struct program_action **place = NULL;
    int count = 0;
    for (struct program_action **next = &program_actions[signal]; *next; next = &(*next)->next, count++) {
        if (is_same_action(&(*next)->action, action)) return *next;
        if (!is_used(*next, signal)) place = next;
    }
    struct program_action *record;
    if (count < KEPT_ACTIONS || !place) {
        record = calloc(1, sizeof *record);
        if (!record) return NULL;
        record->action = *action;
    } else {
        record = *place;
        *place = record->next;
        __atomic_store_n(&record->changes, record->changes + 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        record->action = *action;
        __atomic_store_n(&record->changes, record->changes + 1, __ATOMIC_RELEASE);
    }
    record->next = program_actions[signal];
    program_actions[signal] = record;
    return record;
}

/* The layer to install over an action of the program's; SIGNAL_LAYERS if none is left. What lies below one that the program may call or restore
 * changes only in its mask and flags, and only where few layers are left. */
static int layer_over(const struct sigaction *action, int signal) {
    enum { FEW = 4 };
    int unused = SIGNAL_LAYERS, free = SIGNAL_LAYERS, similar = SIGNAL_LAYERS, left = 0;
    for (int layer = SIGNAL_LAYERS; layer-- > 0;) {
        const struct program_action *const once = once_below[layer][signal], *const below = once ? once : __atomic_load_n(&actions_below[layer][signal], __ATOMIC_RELAXED);
        const bool is_kept = kept_layers[signal] & 1 << layer;
        if (below && is_same_action(action, &below->action)) return layer;
        if (below && is_same_handler(action, &below->action)) {
            if (!is_kept) return layer;
            similar = layer;
        }
        if (!below) unused = layer;
        if (!is_kept) free = layer;
        left += !below || !is_kept;
    }
    if (similar < SIGNAL_LAYERS && left <= FEW) return similar;
    return unused < SIGNAL_LAYERS ? unused : free;
}

/* A layer as it is to be installed over an action: a handler of the program's is called with the flags it asked for. What the flags of SIGCHLD say of
 * zombies and of children that stop, the kernel goes by whatever the handler is. */
static void make_layer(int layer, const struct sigaction *below, int signal, struct sigaction *ours) {
    *ours = (struct sigaction){.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    ours->sa_sigaction = layers[layer];
    if (is_called(below)) {
        ours->sa_mask = below->sa_mask;
        ours->sa_flags = SA_SIGINFO | (below->sa_flags & ~(int)SA_RESETHAND);
    } else if (signal == SIGCHLD) {
        ours->sa_flags |= below->sa_flags & (SA_NOCLDWAIT | SA_NOCLDSTOP);
        /* A program that ignores SIGCHLD wants no zombies. */
        if (below->sa_handler == SIG_IGN) ours->sa_flags |= SA_NOCLDWAIT;
    }
}

static int refuse(int signal, int error) {
    __atomic_store_n(&is_taken[signal], false, __ATOMIC_SEQ_CST);
    errno = error;
    return -1;
}

static inline __attribute__((always_inline)) int take_signal(int signal, rl_signal_function function) {
    /* A handler of these does not return. */
    const uint64_t faults = 1u << SIGSEGV | 1u << SIGBUS | 1u << SIGFPE | 1u << SIGILL | 1u << SIGTRAP | 1u << SIGABRT | (uint64_t)1 << SIGSYS;
    struct sigaction found, replaced, ours;
    if (signal < 64 && faults >> signal & 1) {
        errno = EINVAL;
        return -1;
    }
    __atomic_store_n(&is_taken[signal], true, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (sigaction(signal, NULL, &found) != 0) return refuse(signal, EINVAL);
    __atomic_store_n(&signal_function, function, __ATOMIC_RELAXED);
    /* A layer that is there already was covered, but is not any more. */
    int layer = layer_of(&found), installed = layer;
    /* A layer knows what it has to call before it can be called. What it replaced may be another action, which the program installed since the check:
     * then that one is what lies below. A further iteration needs a further such call of the program's. */
    for (;;) {
        if (layer < 0) {
            layer = layer_over(&found, signal);
            struct program_action *below = layer < SIGNAL_LAYERS ? program_action(&found, signal) : NULL;
            if (!below) {
                if (installed >= 0) sigaction(signal, &found, NULL);
                return refuse(signal, layer < SIGNAL_LAYERS ? ENOMEM : EBUSY);
            }
            __atomic_store_n(&passed_on[layer][signal], NULL, __ATOMIC_RELAXED);
            once_below[layer][signal] = below->action.sa_flags & (int)SA_RESETHAND ? below : NULL;
            __atomic_store_n(&actions_below[layer][signal], below, __ATOMIC_RELEASE);
        }
        last_layer[signal] = layer;
        const struct sigaction *below = &__atomic_load_n(&actions_below[layer][signal], __ATOMIC_RELAXED)->action;
        make_layer(layer, below, signal, &ours);
        if (sigaction(signal, &ours, &replaced) != 0) return refuse(signal, errno);
#if defined(__x86_64__)
        look_at_end_of_deliveries(signal);
#endif
        /* What lies below is there instead of a layer that has let go meanwhile. */
        const int former = layer_of(&replaced);
        if ((former >= 0 && former == installed) || is_same_action(&replaced, below)) return 0;
        /* The program may have saved this layer meanwhile: what lies below it stays. */
        kept_layers[signal] |= 1 << layer;
        found = replaced;
        installed = layer;
        layer = former;
    }
}

static inline __attribute__((always_inline)) void give_back_signal(int signal) {
    struct sigaction now, replaced;
    __atomic_store_n(&is_taken[signal], false, __ATOMIC_SEQ_CST);
    int layer = sigaction(signal, NULL, &now) == 0 ? layer_of(&now) : -1;
    kept_layers[signal] |= 1 << last_layer[signal];
    if (layer < 0) return;
    kept_layers[signal] &= ~(1 << layer);
    struct program_action **place = &actions_below[layer][signal];
    struct program_action *below = __atomic_load_n(place, __ATOMIC_RELAXED);
    const struct sigaction *const restored = &below->action;
    if (sigaction(signal, restored, &replaced) != 0) return; /* The layer remains, and calls what lies below. */
    /* Another layer is one that the program has restored since the check, as any other action. */
    if (layer_of(&replaced) == layer || is_same_action(&replaced, restored)) {
        /* From here on the kernel makes sure that this one is called once. Two deliveries at this moment may both call it: that is better than none. Nor is
         * it taken away if one to the layer was faster: that one may have installed it again. */
        if (!(restored->sa_flags & (int)SA_RESETHAND)) return;
        __atomic_store_n(&passed_on[layer][signal], below, __ATOMIC_RELEASE);
        __atomic_compare_exchange_n(place, &below, &default_action, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        return;
    }
    /* The program has covered the layer since the check: what it installed is restored. */
    kept_layers[signal] |= 1 << layer;
    rl_put_back_action(signal, restored, &replaced);
}

/* The action of SIGURG is the library's own, and not the program's, while a thread is asked for its backtrace: such a question ends first. */
__attribute__((cold)) int rl_take_signal(int signal, rl_signal_function function) {
    if (signal < 1 || signal > 64) {
        errno = EINVAL;
        return -1;
    }
    if (signal == SIGURG) rl_forbid_questions();
    __atomic_add_fetch(&changes[signal], 1, __ATOMIC_SEQ_CST);
    int result = take_signal(signal, function);
    __atomic_add_fetch(&changes[signal], 1, __ATOMIC_SEQ_CST);
    if (signal == SIGURG) rl_allow_questions();
    return result;
}

__attribute__((cold)) void rl_give_back_signal(int signal) {
    if (signal == SIGURG) rl_forbid_questions();
    __atomic_add_fetch(&changes[signal], 1, __ATOMIC_SEQ_CST);
    give_back_signal(signal);
    __atomic_add_fetch(&changes[signal], 1, __ATOMIC_SEQ_CST);
    if (signal == SIGURG) rl_allow_questions();
}

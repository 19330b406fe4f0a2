/* SPDX-License-Identifier: MIT */
/* The few bytes of memory that Swift cannot define: thread-local, zeroed and marked in the ELF file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <sys/uio.h>
#include <sys/wait.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "CLinux.h"

__thread void *rl_thread_loop;
__thread bool rl_thread_had_loop;
__thread void *rl_thread_object;
__thread void *rl_thread_onces;
__thread struct rl_clock_memory rl_clock_memory;

bool rl_clock_has_number;

#define RL_DEFINE_STATE(part, size) char rl_##part##_state[size] __attribute__((aligned(64)));
RL_STATES(RL_DEFINE_STATE)

/* 1 once this copy of the core is in use. Other copies read it through the note. */
__attribute__((visibility("hidden"))) int32_t rl_core_claimed;

/* An ELF note of owner "RunLoop", type 1: the distance from the note's contents to rl_core_claimed. With it a copy of
 * the core finds the other copies in its process, whatever symbols they hide. */
__asm__(".pushsection .note.runloop, \"a\", @note\n"
        "    .balign 4\n"
        "    .long 8, 4, 1\n"
        "    .asciz \"RunLoop\"\n"
        "    .long rl_core_claimed - .\n"
        ".popsection\n");

static const char note_owner[8] = "RunLoop";

/* Looks through one loaded file's notes for the claim word of a core other than this one. Stops at a claimed one. */
static int find_other_claim(struct dl_phdr_info *file, size_t size, void *unused) {
    (void)size;
    (void)unused;
    for (int part = 0; part < file->dlpi_phnum; part++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[part];
        if (segment->p_type != PT_NOTE) continue;
        const char *cursor = (const char *)(file->dlpi_addr + segment->p_vaddr);
        const char *end = cursor + segment->p_memsz;
        while (cursor + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)cursor;
            const char *owner = cursor + sizeof *note;
            const char *contents = owner + ((note->n_namesz + 3u) & ~3u);
            if (note->n_type == 1 && note->n_namesz == sizeof note_owner && note->n_descsz == 4 &&
                memcmp(owner, note_owner, sizeof note_owner) == 0) {
                int32_t distance;
                memcpy(&distance, contents, sizeof distance);
                const int32_t *claim = (const int32_t *)(contents + distance);
                if (claim != &rl_core_claimed && __atomic_load_n(claim, __ATOMIC_SEQ_CST)) return 1;
            }
            cursor = contents + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return 0;
}

void rl_core_claim(void) { __atomic_store_n(&rl_core_claimed, 1, __ATOMIC_SEQ_CST); }

bool rl_core_claimed_elsewhere(void) { return dl_iterate_phdr(find_other_claim, NULL) != 0; }

/* In librunloop.a there is none (cmake/RunLoopStatic.cmake). */
#pragma weak dlopen

void *rl_dispatch_function(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function || !dlopen) return function;
    /* A library that was loaded with RTLD_LOCAL may have loaded it: it is in the process, and not in the global scope. The handle
     * is kept, so that it stays loaded. */
    void *library = dlopen("libdispatch.so", RTLD_NOLOAD | RTLD_LAZY);
    return library ? dlsym(library, name) : NULL;
}

bool rl_load_dispatch(struct rl_dispatch *functions) {
    static const char names[] =
        "_dispatch_source_type_read\0dispatch_source_create\0dispatch_set_context\0"
        "dispatch_source_set_event_handler_f\0dispatch_source_set_cancel_handler_f\0dispatch_resume\0"
        "dispatch_retain\0dispatch_release\0dispatch_source_cancel\0dispatch_time\0"
        "dispatch_get_global_queue\0dispatch_after_f";
    void **slot = (void **)functions;
    for (const char *name = names; name < names + sizeof names; name += strlen(name) + 1) {
        *slot = rl_dispatch_function(name);
        if (!*slot++) return false;
    }
    return true;
}

void rl_call_guarded(void (*function)(void *info), void *info, void (*cleanup)(void *argument), void *argument) {
    pthread_cleanup_push(cleanup, argument);
    RLCallOutFunction(function, info);
    pthread_cleanup_pop(0);
}

int rl_wait_otherwise(int epoll, struct epoll_event *events, int room, int milliseconds) {
    int count = -1;
#ifdef SYS_epoll_wait
    /* Not all machines have it. A list of permitted calls may have only this one: it is what libc's function calls. */
    count = (int)syscall(SYS_epoll_wait, epoll, events, room, milliseconds);
#endif
    if (!rl_is_wait_refused(count)) return count;
    int error = errno;
    rl_sys_poll(NULL, 0, milliseconds < 0 || milliseconds > 100 ? 100 : milliseconds);
    errno = error;
    return -1;
}

int rl_epoll_wait_all(int epoll, const struct timespec *timeout, struct rl_event *events) {
    struct epoll_event fetched[RL_EVENTS];
    /* The plain call is cheaper if there is no time to pass. */
    const bool polls = timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
    int count = timeout && !polls ? rl_sys_epoll_pwait2(epoll, fetched, RL_EVENTS, timeout)
                                  : rl_sys_epoll_wait(epoll, fetched, RL_EVENTS, polls ? 0 : -1);
    for (int i = 0; i < count; i++) events[i] = (struct rl_event){fetched[i].data.u64, fetched[i].events};
    return count;
}

ssize_t rl_read_nowait(int descriptor, void *bytes, size_t length) {
    struct iovec part = {bytes, length};
    return rl_sys_preadv2(descriptor, &part, 1, RWF_NOWAIT);
}

/* The library's handler for a signal has layers. One that the program covered with a handler of its own cannot be removed, because
 * that handler may call it: what this layer itself calls must stay as it is. So the next time the library takes the signal it
 * installs another layer, over the program's handler. Only the newest layer notifies the library.
 *
 * The caller holds a lock of its own when it takes or gives back a signal. Handlers run at the same time, in any thread, and the
 * program may call sigaction(2) at any time. */
enum { SIGNAL_LAYERS = 8 };

/* An action of the program's. It is never changed and never freed, because a handler may be about to call it. An action that
 * comes again is reused: so there are as many for a signal as the program ever installed different ones. */
struct program_action {
    struct sigaction action;
    struct program_action *next;
};
static struct program_action *program_actions[65]; /* Guarded by the caller's lock. */
static struct program_action default_action;       /* SIG_DFL */

/* What the program had installed when a layer was. Written by the thread that takes or gives back, releasing, and, for a handler
 * that is to be called once, by the layer that calls it; read by the layer, acquiring. */
static struct program_action *actions_below[SIGNAL_LAYERS][65];
/* The newest layer; those below it are covered. After the newest one was covered permanently, the number of the next. Relaxed: a
 * layer that was newest a moment ago notifies the library of a signal of a moment ago. */
static int newest_layer[65];
/* The same for all signals. Written before a layer is installed, which orders it before the handler; relaxed, because a handler of
 * another signal may read it meanwhile. */
static rl_signal_function signal_function;

/* Whether it is a function; SA_SIGINFO may be set with SIG_DFL and SIG_IGN too. */
static bool is_called(const struct sigaction *action) {
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

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

__attribute__((noinline)) static void on_signal(int layer, int signal, siginfo_t *info, void *context) {
    int saved = errno;
    if (layer == __atomic_load_n(&newest_layer[signal], __ATOMIC_RELAXED)) tell_library(signal);
    errno = saved;
    struct program_action *below = __atomic_load_n(&actions_below[layer][signal], __ATOMIC_ACQUIRE);
    if (!is_called(&below->action)) return;
    /* Of several deliveries only one calls a handler that is to be called once. */
    if (below->action.sa_flags & (int)SA_RESETHAND &&
        !__atomic_compare_exchange_n(&actions_below[layer][signal], &below, &default_action, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    if (below->action.sa_flags & SA_SIGINFO)
        below->action.sa_sigaction(signal, info, context);
    else
        below->action.sa_handler(signal);
}

static void on_signal_0(int signal, siginfo_t *info, void *context) { on_signal(0, signal, info, context); }
static void on_signal_1(int signal, siginfo_t *info, void *context) { on_signal(1, signal, info, context); }
static void on_signal_2(int signal, siginfo_t *info, void *context) { on_signal(2, signal, info, context); }
static void on_signal_3(int signal, siginfo_t *info, void *context) { on_signal(3, signal, info, context); }
static void on_signal_4(int signal, siginfo_t *info, void *context) { on_signal(4, signal, info, context); }
static void on_signal_5(int signal, siginfo_t *info, void *context) { on_signal(5, signal, info, context); }
static void on_signal_6(int signal, siginfo_t *info, void *context) { on_signal(6, signal, info, context); }
static void on_signal_7(int signal, siginfo_t *info, void *context) { on_signal(7, signal, info, context); }

static void (*const layers[SIGNAL_LAYERS])(int, siginfo_t *, void *) = {
    on_signal_0, on_signal_1, on_signal_2, on_signal_3, on_signal_4, on_signal_5, on_signal_6, on_signal_7,
};

/* Which layer an action is, -1 for none. */
static int layer_of(const struct sigaction *action) {
    if (!(action->sa_flags & SA_SIGINFO)) return -1;
    for (int layer = 0; layer < SIGNAL_LAYERS; layer++)
        if (action->sa_sigaction == layers[layer]) return layer;
    return -1;
}

static bool is_same_handler(const struct sigaction *one, const struct sigaction *other) {
    return one->sa_handler == other->sa_handler && !((one->sa_flags ^ other->sa_flags) & SA_SIGINFO);
}

/* The C library sets SA_RESTORER, 0x04000000, by itself, and the kernel knows the first 64 signals of a mask. */
static bool is_same_action(const struct sigaction *one, const struct sigaction *other) {
    return one->sa_handler == other->sa_handler && !((one->sa_flags ^ other->sa_flags) & ~0x04000000) &&
           memcmp(&one->sa_mask, &other->sa_mask, 8) == 0;
}

/* The record of an action; NULL if there is no memory for one. */
static struct program_action *program_action(const struct sigaction *action, int signal) {
    for (struct program_action *known = program_actions[signal]; known; known = known->next)
        if (is_same_action(&known->action, action)) return known;
    struct program_action *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->action = *action;
    made->next = program_actions[signal];
    program_actions[signal] = made;
    return made;
}

/* The layer to install over an action of the program's: the action calls neither this layer nor a newer one. */
static int layer_over(const struct sigaction *action, int signal) {
    if (!is_called(action)) return 0;
    int layer = 0;
    /* A handler that lies below a layer and is installed over it again calls nothing, or it would call itself. */
    while (layer < newest_layer[signal] && !is_same_handler(action, &actions_below[layer][signal]->action)) layer++;
    return layer;
}

/* A layer as it is to be installed over an action: a handler of the program's is called with the flags it asked for. */
static void make_layer(int layer, const struct sigaction *below, int signal, struct sigaction *ours) {
    *ours = (struct sigaction){.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    ours->sa_sigaction = layers[layer];
    if (is_called(below)) {
        ours->sa_mask = below->sa_mask;
        ours->sa_flags = SA_SIGINFO | (below->sa_flags & ~(int)SA_RESETHAND);
    } else if (below->sa_handler == SIG_IGN && signal == SIGCHLD) {
        /* A program that ignores SIGCHLD wants no zombies. */
        ours->sa_flags |= SA_NOCLDWAIT;
    }
}

int rl_take_signal(int signal, rl_signal_function function) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (signal == faults[i]) {
            errno = EINVAL;
            return -1;
        }
    }
    struct sigaction found, replaced, ours;
    if (signal < 1 || signal > 64 || sigaction(signal, NULL, &found) != 0) {
        errno = EINVAL;
        return -1;
    }
    __atomic_store_n(&signal_function, function, __ATOMIC_RELAXED);
    /* A layer knows what it has to call before it can be called. What it replaced may be another action, which the program installed since the check:
     * then that one is what lies below. A further iteration needs a further such call of the program's. */
    for (bool is_first = true;; is_first = false) {
        int layer = layer_of(&found);
        if (layer < 0) {
            layer = layer_over(&found, signal);
            struct program_action *below = layer < SIGNAL_LAYERS ? program_action(&found, signal) : NULL;
            if (!below) {
                if (!is_first) sigaction(signal, &found, NULL);
                errno = layer < SIGNAL_LAYERS ? ENOMEM : EBUSY;
                return -1;
            }
            __atomic_store_n(&actions_below[layer][signal], below, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&newest_layer[signal], layer, __ATOMIC_RELAXED);
        /* It was covered, but is not any more. */
        if (is_first && layer_of(&found) >= 0) return 0;
        make_layer(layer, &actions_below[layer][signal]->action, signal, &ours);
        if (sigaction(signal, &ours, &replaced) != 0) return -1;
        if (is_first ? is_same_action(&replaced, &found) : layer_of(&replaced) >= 0) return 0;
        found = replaced;
    }
}

void rl_give_back_signal(int signal) {
    struct sigaction now, replaced;
    int layer = sigaction(signal, NULL, &now) == 0 ? layer_of(&now) : -1;
    if (layer < 0) {
        __atomic_store_n(&newest_layer[signal], newest_layer[signal] + 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&newest_layer[signal], layer, __ATOMIC_RELAXED);
    struct program_action **place = &actions_below[layer][signal];
    struct program_action *below = __atomic_load_n(place, __ATOMIC_RELAXED);
    /* From here on the kernel makes sure that this one is called once. */
    if (below->action.sa_flags & (int)SA_RESETHAND) below = __atomic_exchange_n(place, &default_action, __ATOMIC_ACQ_REL);
    sigaction(signal, &below->action, &replaced);
    if (layer_of(&replaced) >= 0) return;
    /* The program has covered the layer since the check: what it installed is restored. A further iteration needs a further such call. */
    __atomic_store_n(place, below, __ATOMIC_RELEASE);
    __atomic_store_n(&newest_layer[signal], layer + 1, __ATOMIC_RELAXED);
    now = below->action;
    do {
        struct sigaction last = now;
        now = replaced;
        sigaction(signal, &now, &replaced);
        if (is_same_action(&replaced, &last)) return;
    } while (!is_same_action(&replaced, &now));
}

int rl_open_path_at(int folder, const char *path) { return rl_sys_openat(folder, path, O_PATH | O_CLOEXEC, 0); }

int rl_open_path_of(int descriptor) {
    char path[32];
    if (fcntl(descriptor, F_GETFD) < 0) return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return rl_sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
}

int rl_watch_file(int inotify, int descriptor, const char *name, uint32_t mask) {
    char path[NAME_MAX + 32];
    snprintf(path, sizeof path, "/proc/self/fd/%d%s%s", descriptor, *name ? "/" : "", name);
    return inotify_add_watch(inotify, path, mask);
}

/* The path of a number in a folder of /proc. Async-signal-safe, unlike snprintf. */
static void proc_path(char *path, const char *folder, int descriptor) {
    char digits[12];
    int count = 0;
    while (*folder) *path++ = *folder++;
    for (int rest = descriptor; count == 0 || rest > 0; rest /= 10) digits[count++] = (char)('0' + rest % 10);
    while (count > 0) *path++ = digits[--count];
    *path = 0;
}

static bool is_eventfd(int descriptor) {
    static const char eventfd_name[] = "anon_inode:[eventfd]";
    char path[48], name[sizeof eventfd_name];
    proc_path(path, "/proc/self/fd/", descriptor);
    const ssize_t size = (ssize_t)sizeof name - 1;
    const ssize_t found = readlink(path, name, sizeof name);
    /* Without /proc, an open number is assumed to name what it named before. */
    if (found < 0) return rl_is_open(descriptor);
    return found == size && memcmp(name, eventfd_name, (size_t)size) == 0;
}

/* 1: the eventfd has the mark; 0: it is something else; -1: that cannot be determined, without /proc or a descriptor to look with. */
static int look_for_mark(int descriptor, uint64_t mark) {
    static const char line[] = "eventfd-count:";
    char path[48], text[512];
    if (descriptor < 0) return 0;
    proc_path(path, "/proc/self/fdinfo/", descriptor);
    int file = rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return rl_is_open(descriptor) ? -1 : 0;
    ssize_t size = rl_sys_read(file, text, sizeof text - 1);
    rl_sys_close(file);
    if (size < 0) return -1;
    text[size] = 0;
    const char *cursor = strstr(text, line);
    if (!cursor) return 0;
    uint64_t value = 0;
    for (cursor += sizeof line - 1; *cursor == ' ' || *cursor == '\t'; cursor++) {}
    for (; *cursor && *cursor != '\n'; cursor++)
        value = value << 4 | (uint64_t)(*cursor <= '9' ? *cursor - '0' : (*cursor | 32) - 'a' + 10);
    return value >> RL_MARK_SHIFT == mark >> RL_MARK_SHIFT;
}

bool rl_has_mark(int descriptor, uint64_t mark) {
    int found = look_for_mark(descriptor, mark);
    return found < 0 ? is_eventfd(descriptor) : found != 0;
}

bool rl_raise_marked(int descriptor, uint64_t mark) {
    static const uint64_t one = 1;
    /* The second number keeps the inspected file open, whatever happens to the first. */
    int held = rl_dup_above(descriptor, 64);
    if (held < 0) return false;
    bool isOurs = look_for_mark(held, mark) == 1;
    if (isOurs) rl_sys_write(held, &one, sizeof one);
    rl_sys_close(held);
    return isOurs;
}

int rl_marked_eventfd(uint64_t mark) {
    int made = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0 || rl_sys_write(made, &mark, sizeof mark) == (ssize_t)sizeof mark) return made;
    rl_sys_close(made);
    return -1;
}

bool rl_is_kind(int descriptor, enum rl_kind kind) {
    int error = errno;
    struct itimerspec left;
    bool is_refused = false;
    switch (kind) {
    /* The kernel checks the number before it looks up the path. */
    case RL_INOTIFY: is_refused = syscall(SYS_inotify_add_watch, descriptor, NULL, IN_ATTRIB) < 0; break;
    case RL_TIMER: is_refused = timerfd_gettime(descriptor, &left) < 0; break;
    case RL_PROCESS: is_refused = syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0) < 0; break;
    case RL_PATH:
        errno = EINVAL;
        int flags = fcntl(descriptor, F_GETFL);
        is_refused = flags < 0 || !(flags & O_PATH);
    }
    bool is_kind = !is_refused || (errno != EBADF && errno != EINVAL);
    errno = error;
    return is_kind;
}

/* No other timer has this interval, which is never used: its first date is in the year 2242. */
static const struct timespec clock_watch_mark = {1 << 28, 20010101};

int rl_watch_clocks(void) {
    int made = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made < 0) return -1;
    struct itimerspec setting = {clock_watch_mark, {(time_t)1 << 33, 0}};
    if (timerfd_settime(made, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &setting, NULL) == 0) return made;
    rl_sys_close(made);
    return -1;
}

bool rl_is_clock_watch(int descriptor) {
    struct itimerspec setting;
    return timerfd_gettime(descriptor, &setting) == 0 && setting.it_interval.tv_sec == clock_watch_mark.tv_sec &&
           setting.it_interval.tv_nsec == clock_watch_mark.tv_nsec;
}

bool rl_await_clock_change(int descriptor) {
    uint64_t count;
    struct pollfd request = {.fd = descriptor, .events = POLLIN};
    if (rl_sys_poll(&request, 1, -1) < 0) return errno == EINTR;
    /* The number may now name another file, whose bytes must not be taken. */
    if (rl_is_clock_watch(descriptor)) rl_sys_read(descriptor, &count, sizeof count);
    return true;
}

int rl_child_status(int pidfd, int reap, int *status) {
    siginfo_t info;
    info.si_pid = 0;
    int options = WEXITED | WNOHANG | (reap ? 0 : WNOWAIT);
    /* waitid(2) is a cancellation point in libc, and this call never waits. */
    if (syscall(SYS_waitid, 3 /* P_PIDFD */, pidfd, &info, options, NULL) != 0) return -1;
    if (info.si_pid == 0) return 0;
    *status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8
                                         : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    return 1;
}

uint64_t rl_counts_of_moment(void) {
#if !RL_EXPLORE && (defined(__x86_64__) || defined(__i386__))
    /* "Invariant TSC": the same rate in all states of the processor. No such counter is slower than 0.53 or faster than 5.2 GHz. */
    unsigned a, b, c, d;
    bool is_steady = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
    return is_steady ? 1u << 19 : 1;
#elif !RL_EXPLORE && defined(__aarch64__)
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate >= 1000000 ? rate / 2048 : 1;
#elif RL_EXPLORE
    return 1u << 19;
#else
    return 1;
#endif
}

int rl_accept(int descriptor, struct sockaddr_storage *address, socklen_t *length) {
    rl_set_nonblocking(descriptor);
    return rl_sys_accept4(descriptor, (struct sockaddr *)address, length, SOCK_CLOEXEC);
}

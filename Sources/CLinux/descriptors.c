/* SPDX-License-Identifier: MIT */
/* The kernel objects that the library makes for itself, and how it recognises that a number no longer names one. */
#define _GNU_SOURCE
#include <signal.h>

#include "CLinux.h"

int rl_open_path_at(int folder, const char *path) { return rl_unowned_number(rl_sys_openat(folder, path, O_PATH | O_CLOEXEC, 0)); }

/* By the thread: once the main thread has ended, the process's own folder in /proc has no descriptors. */
static const char own_numbers[] = "/proc/thread-self/fd/", own_notes[] = "/proc/thread-self/fdinfo/";

/* The path of a number in a folder of /proc; where it ends. Async-signal-safe, unlike snprintf. */
static char *proc_path(char *path, const char *folder, int descriptor) {
    char digits[12];
    int count = 0;
    while (*folder) *path++ = *folder++;
    for (int rest = descriptor; count == 0 || rest > 0; rest /= 10) digits[count++] = (char)('0' + rest % 10);
    while (count > 0) *path++ = digits[--count];
    *path = 0;
    return path;
}

bool rl_descriptor_target(int descriptor, char *text, size_t size) {
    char path[48];
    proc_path(path, own_numbers, descriptor);
    const ssize_t length = readlink(path, text, size - 1);
    if (length >= 0) text[length] = '\0';
    return length >= 0;
}

int rl_open_path_of(int descriptor) {
    char path[48];
    if (fcntl(descriptor, F_GETFD) < 0) return -1;
    proc_path(path, own_numbers, descriptor);
    int made = rl_sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    if (made >= 0 || errno != ENOENT) return made;
    /* Without /proc only a folder can be opened again. */
    made = rl_open_path_at(descriptor, ".");
    if (made < 0 && errno == ENOTDIR) errno = EOPNOTSUPP;
    return made;
}

struct watched {
    int inotify, folder;
    const char *name;
    uint32_t mask;
    int number, error;
};

static int watch_inside(void *argument) {
    struct watched *watched = argument;
    if (syscall(SYS_fchdir, watched->folder) == 0)
        watched->number = (int)syscall(SYS_inotify_add_watch, watched->inotify, *watched->name ? watched->name : ".", watched->mask);
    watched->error = errno;
    return 0;
}

/* Without /proc: a path from the folder itself, to which a thread goes that has a working directory of its own. The kernel has no call for that.
 * The caller lends it the rest, its stack and errno too, and sleeps until the thread has ended (CLONE_VFORK, clone(2)). No signal interrupts it. */
static __attribute__((noinline)) void watch_without_proc(struct watched *watched) {
    enum { STACK = 2048, FLAGS = CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK };
    _Alignas(16) char stack[STACK];
    const uint64_t all = ~0ul;
    uint64_t kept;
    /* If no thread can be made, there is a next time. */
    watched->error = EAGAIN;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &kept, sizeof kept);
    clone(watch_inside, stack + STACK, FLAGS, watched);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kept, NULL, sizeof kept);
}

int rl_watch_file(int inotify, int descriptor, const char *name, uint32_t mask) {
    char path[NAME_MAX + 64], target;
    char *end = proc_path(path, own_numbers, descriptor);
    struct watched watched = {inotify, descriptor, name, mask, -1, 0};
    if (*name) snprintf(end, sizeof path - 48, "/%s", name);
    int number = inotify_add_watch(inotify, path, mask);
    if (number >= 0) return number;
    watched.error = errno;
    *end = 0;
    /* A name that is missing is told apart from a /proc that is, and from a number that the program has closed. */
    if (readlink(path, &target, 1) < 0 && rl_is_open(descriptor)) watch_without_proc(&watched);
    errno = watched.error;
    return watched.number;
}

bool rl_read_text(const char *path, char *text, size_t size) {
    const int file = rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return false;
    const ssize_t length = rl_sys_read(file, text, size - 1);
    rl_sys_close(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* What /proc tells of a descriptor. */
enum { NOTES = 512 };
static bool read_notes(int descriptor, char text[NOTES]) {
    char path[48];
    if (descriptor < 0) return false;
    proc_path(path, own_notes, descriptor);
    return rl_read_text(path, text, NOTES);
}

int rl_look_for_mark(int descriptor, uint64_t mark) {
    static const char line[] = "eventfd-count:";
    char text[NOTES];
    if (!read_notes(descriptor, text)) return rl_is_open(descriptor) ? -1 : 0;
    const char *cursor = strstr(text, line);
    if (!cursor) return 0;
    uint64_t value = 0;
    for (cursor += sizeof line - 1; *cursor == ' ' || *cursor == '\t'; cursor++) {}
    for (; *cursor && *cursor != '\n'; cursor++)
        value = value << 4 | (uint64_t)(*cursor <= '9' ? *cursor - '0' : (*cursor | 32) - 'a' + 10);
    return value >> RL_MARK_SHIFT == mark >> RL_MARK_SHIFT;
}

bool rl_raise_marked(int descriptor, uint64_t mark) {
    static const uint64_t one = 1;
    /* The second number keeps the inspected file open, whatever happens to the first. */
    int held = rl_dup_own(descriptor);
    if (held < 0) return false;
    bool isOurs = rl_look_for_mark(held, mark) == 1;
    if (isOurs) rl_sys_write(held, &one, sizeof one);
    rl_sys_close(held);
    return isOurs;
}

int rl_marked_eventfd(uint64_t mark) {
    /* First the number: who looks for the mark under one that was lost must not find it. */
    int made = rl_high_number(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
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
    }
    bool is_kind = !is_refused || (errno != EBADF && errno != EINVAL);
    errno = error;
    return is_kind;
}

int rl_replace_in_child(int number, int descriptor) {
    struct rlimit limit;
    int result = rl_replace(number, descriptor);
    if (result >= 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return result;
    /* The number stays open, as it was in the parent; only the kernel's check of the call needs the limit. */
    struct rlimit higher = {limit.rlim_max, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &higher);
    result = rl_replace(number, descriptor);
    setrlimit(RLIMIT_NOFILE, &limit);
    return result;
}

/* Timers of the library's are recognised by an interval that no other has, and that is never used: the first date of one that watches the clocks is
 * in the year 2242, and others are set anew when they have expired. */
enum { CLOCK_WATCH_INTERVAL = 1 << 28, MARK_INTERVAL = 1 << 27 };
static const struct timespec clock_watch_mark = {CLOCK_WATCH_INTERVAL, 20010101};

static bool has_interval(int descriptor, struct timespec interval) {
    struct itimerspec setting;
    if (timerfd_gettime(descriptor, &setting) != 0) {
        char text[NOTES], line[64];
        /* Another file, or a filter refuses it. */
        snprintf(line, sizeof line, "it_interval: (%lld, %ld)", (long long)interval.tv_sec, interval.tv_nsec);
        return read_notes(descriptor, text) && strstr(text, line);
    }
    return setting.it_interval.tv_sec == interval.tv_sec && setting.it_interval.tv_nsec == interval.tv_nsec;
}

static struct timespec interval_of_mark(uint32_t mark) { return (struct timespec){MARK_INTERVAL, mark % 1000000000}; }

int rl_arm_marked_timer(int descriptor, uint32_t mark, const struct timespec *until) {
    const struct itimerspec setting = {interval_of_mark(mark), *until};
    return timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &setting, NULL);
}

bool rl_is_marked_timer(int descriptor, uint32_t mark) { return has_interval(descriptor, interval_of_mark(mark)); }

int rl_watch_clocks(void) {
    int made = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (made < 0) return -1;
    struct itimerspec setting = {clock_watch_mark, {(time_t)1 << 33, 0}};
    if (timerfd_settime(made, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &setting, NULL) == 0) return made;
    rl_sys_close(made);
    return -1;
}

bool rl_is_clock_watch(int descriptor) { return has_interval(descriptor, clock_watch_mark); }

bool rl_await_clock_change(int descriptor) {
    uint64_t count;
    struct pollfd request = {.fd = descriptor, .events = POLLIN};
    if (rl_sys_poll(&request, 1, -1) < 0) return errno == EINTR;
    /* The number may now name another file, whose bytes must not be taken. */
    if (rl_is_clock_watch(descriptor)) rl_sys_read(descriptor, &count, sizeof count);
    return true;
}

/* A bit for each number that has an owner in the library which has not given it up. Sequentially consistent. */
enum { KNOWN_NUMBERS = 1 << 16, BITS = 8 * sizeof(unsigned long) };
static unsigned long known_numbers[KNOWN_NUMBERS / BITS];
/* In the child of fork, where the owners name theirs one after the other, those of the parent until all have; otherwise none. Written by the child's
 * only thread. */
static unsigned long former_numbers[KNOWN_NUMBERS / BITS];

/* NULL: not known, or none. */
static unsigned long *word_of(int number) { return (unsigned)number < KNOWN_NUMBERS ? &known_numbers[(unsigned)number / BITS] : NULL; }
static unsigned long read_word(int number) {
    return __atomic_load_n(word_of(number), __ATOMIC_SEQ_CST) | former_numbers[(unsigned)number / BITS];
}
static unsigned long bit_of(int number) { return 1ul << (unsigned)number % BITS; }

bool rl_is_own_number(int number) {
    return word_of(number) && read_word(number) & bit_of(number);
}

void rl_number_begins(int number) {
    unsigned long *word = word_of(number);
    if (word) __atomic_fetch_or(word, bit_of(number), __ATOMIC_SEQ_CST);
}

void rl_number_ends(int number) {
    unsigned long *word = word_of(number);
    if (word) __atomic_fetch_and(word, ~bit_of(number), __ATOMIC_SEQ_CST);
}

/* The first number from `from` on that has no bit. */
static int first_without_owner(int from) {
    while (from < KNOWN_NUMBERS) {
        const unsigned long free = ~read_word(from) >> from % (int)BITS;
        if (free) return from + __builtin_ctzl(free);
        from += (int)BITS - from % (int)BITS;
    }
    return from;
}

static __attribute__((noinline)) int dup_without_owner(int descriptor, int from) {
    for (;;) {
        from = first_without_owner(from);
        /* Seldom one that the program has closed: only where all before it are taken by others. */
        const int number = rl_dup_above(descriptor, from);
        if (!rl_is_own_number(number)) {
            /* `from` is the limit. */
            if (number < 0 && errno == EINVAL) errno = EMFILE;
            return number;
        }
        rl_sys_close(number);
        from = number + 1;
    }
}

void rl_close_keeping_error(int descriptor) {
    const int error = errno;
    rl_sys_close(descriptor);
    errno = error;
}

int rl_dup_high(int descriptor) { return dup_without_owner(descriptor, 64); }

int rl_dup_own(int descriptor) {
    const int number = rl_dup_high(descriptor);
    return number < 0 ? dup_without_owner(descriptor, 3) : number;
}

int rl_high_number(int descriptor) {
    const bool is_known = rl_is_own_number(descriptor);
    if (descriptor < 0 || (descriptor >= 64 && !is_known)) return descriptor;
    const int number = is_known || descriptor < 3 ? rl_dup_own(descriptor) : rl_dup_high(descriptor);
    if (number < 0 && !is_known) return descriptor;
    rl_close_keeping_error(descriptor);
    return number;
}

int rl_unowned_number(int descriptor) { return rl_is_own_number(descriptor) ? rl_high_number(descriptor) : descriptor; }

int rl_make_set(void) {
    /* It finds the numbers, and is no set: whoever sleeps in a set that had one of them, changes it, or is a host that waits for it, finds its number
     * without a set. */
    const int other = eventfd(0, EFD_CLOEXEC);
    if (other < 0) return -1;
    if (rl_is_own_number(other)) {
        /* Kept from what is made next. Each turn has one that the program has closed. */
        const int number = rl_make_set();
        rl_close_keeping_error(other);
        return number;
    }
    int number = rl_dup_own(other);
    rl_sys_close(other);
    const int made = rl_unowned_number(epoll_create1(EPOLL_CLOEXEC));
    if (number >= 0) {
        const bool is_moved = made >= 0 && rl_replace(number, made) >= 0;
        rl_close_keeping_error(is_moved ? made : number);
        if (!is_moved) number = made;
    } else {
        number = made;
    }
    rl_number_begins(number);
    return number;
}

void rl_forget_numbers(bool begins) {
    for (int i = 0; i < KNOWN_NUMBERS / BITS; i++) {
        const unsigned long former = begins ? known_numbers[i] : 0;
        if (former_numbers[i] != former) former_numbers[i] = former;
        if (former) known_numbers[i] = 0;
    }
}

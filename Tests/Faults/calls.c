/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "calls.h"
#include "errors.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

/* Written before the library is called; then read only, but for counts and `armed`, which are atomic. */
static Record *record;
static Place failing;
static int failing_error;
static bool failing_is_made;
static int armed, have_failed;

/* The files whose calls count. */
static struct {
    uintptr_t base, start, end;
} library, libbsd;

static int note_file(struct dl_phdr_info *file, size_t size, void *unused) {
    (void)size, (void)unused;
    bool is_library = strstr(file->dlpi_name, "librunloop") != NULL, is_libbsd = strstr(file->dlpi_name, "libbsd") != NULL;
    if (!is_library && !is_libbsd) return 0;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &file->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        uintptr_t start = file->dlpi_addr + part->p_vaddr;
        if (is_library)
            library.base = file->dlpi_addr, library.start = start, library.end = start + part->p_memsz;
        else
            libbsd.base = file->dlpi_addr, libbsd.start = start, libbsd.end = start + part->p_memsz;
    }
    return 0;
}

__attribute__((constructor)) static void find_files(void) { dl_iterate_phdr(note_file, NULL); }

void calls_record(Record *to) { record = to; }

void calls_fail(const Place *place, int error, bool is_made) {
    failing = *place;
    failing_error = error;
    failing_is_made = is_made;
    __atomic_store_n(&armed, 1, __ATOMIC_SEQ_CST);
}

bool calls_have_failed(void) { return __atomic_load_n(&have_failed, __ATOMIC_SEQ_CST); }

void calls_pass(void) { __atomic_store_n(&armed, 0, __ATOMIC_SEQ_CST); }

/* Who called the function that made the call, if that function is a small one. Nothing describes the frames of optimised code, so
 * the stack is searched: for the address behind a direct call of something that begins shortly before our caller. 0: not found. */
static uintptr_t caller_of(uintptr_t address, const uintptr_t *stack) {
    enum { WORDS = 24, SMALL = 192 };
#if defined(__x86_64__)
    for (int i = 1; i < WORDS; i++) {
        uintptr_t word = stack[i];
        if (word < library.start + 5 || word >= library.end || *(const unsigned char *)(word - 5) != 0xe8) continue;
        int32_t distance;
        memcpy(&distance, (const void *)(word - 4), sizeof distance);
        if (address - (word + (uintptr_t)(intptr_t)distance) < SMALL) return word;
    }
#endif
    (void)address, (void)stack;
    return 0;
}

/* False if the call is not the library's. `stack` holds the address. */
static bool place_of(const char *call, const uintptr_t *stack, Place *place) {
    const uintptr_t address = *stack;
    memset(place, 0, sizeof *place);
    if (address >= library.start && address < library.end) {
        place->offset = address - library.base;
        uintptr_t caller = caller_of(address, stack);
        if (caller) place->caller = caller - library.base;
    } else if (address >= libbsd.start && address < libbsd.end) {
        place->offset = address - libbsd.base;
        place->is_in_libbsd = true;
    } else {
        return false;
    }
    strncpy(place->call, call, sizeof place->call - 1);
    return true;
}

static bool are_same(const Place *one, const Place *other) {
    return one->offset == other->offset && one->caller == other->caller && one->is_in_libbsd == other->is_in_libbsd
        && strcmp(one->call, other->call) == 0;
}

/* Several threads call; a spin is held for a few instructions, and no signal handler of the tests calls in between. */
static int list_lock;

static void count(const Place *place) {
    while (__atomic_exchange_n(&list_lock, 1, __ATOMIC_ACQUIRE)) continue;
    int i = 0;
    while (i < record->place_count && !are_same(&record->places[i], place)) i++;
    if (i == MAX_PLACES) {
        record->is_full = true;
    } else {
        if (i == record->place_count) {
            record->places[i] = *place;
            __atomic_store_n(&record->place_count, i + 1, __ATOMIC_RELEASE);
        }
        record->places[i].count++;
    }
    __atomic_store_n(&list_lock, 0, __ATOMIC_RELEASE);
}

/* How the call fails now: 0 if it does not. */
static int failure(const char *call, const uintptr_t *stack) {
    Place place;
    if (!place_of(call, stack, &place)) return 0;
    if (record) count(&place);
    if (!__atomic_load_n(&armed, __ATOMIC_SEQ_CST) || !are_same(&place, &failing)) return 0;
    if (!__atomic_exchange_n(&armed, 0, __ATOMIC_SEQ_CST)) return 0;
    __atomic_store_n(&have_failed, 1, __ATOMIC_SEQ_CST);
    return failing_error;
}

/* Where the return address lies. */
#if defined(__x86_64__)
#define CALLER ((const uintptr_t *)__builtin_frame_address(0) + 1)
#else
#define CALLER (&(const uintptr_t){(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0))})
#endif

/* sys/timerfd.h declares the function. */
enum { TFD_TIMER_CANCEL_ON_SET = 2 };

typedef long Function(long, ...);

static Function *next(const char *name) {
    Function *function;
    *(void **)&function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

/* All calls have at most six arguments, of the size of a register, in registers: so each can stand for any other. */
#define CALL(name, ...)                                                                                    \
    long name(long a, long b, long c, long d, long e, long f) {                                            \
        static Function *real;                                                                             \
        if (!real) real = next(#name);                                                                     \
        int error = failure(#name, CALLER); \
        if (error == 0) return real(a, b, c, d, e, f);                                                     \
        if (failing_is_made) real(a, b, c, d, e, f);                                                       \
        else spoil_results(#name, a, b, c, d, e);                                                          \
        __VA_ARGS__                                                                                        \
        errno = error;                                                                                     \
        return -1;                                                                                         \
    }

CALL(accept4)
CALL(bind)
CALL(close)
CALL(connect)
CALL(epoll_create1)
CALL(eventfd)
CALL(fallocate)
CALL(faccessat)
CALL(fcntl)
CALL(flock)
CALL(fstat)
CALL(fstatat)
CALL(ftruncate)
CALL(getpeername)
CALL(getsockname)
CALL(getsockopt)
CALL(inotify_add_watch)
CALL(inotify_init1)
CALL(inotify_rm_watch)
CALL(link)
CALL(linkat)
CALL(listen)
CALL(lstat)
CALL(madvise)
CALL(memfd_create)
CALL(mkdir)
CALL(mmap)
CALL(mprotect)
CALL(mremap)
CALL(munmap)
CALL(nanosleep)
CALL(open)
CALL(openat)
CALL(poll)
CALL(prctl)
CALL(pread)
CALL(pwrite)
CALL(read)
CALL(readlink)
CALL(recvmsg)
CALL(rename)
CALL(sendmsg)
CALL(setpriority)
CALL(setsockopt)
CALL(shutdown)
CALL(sigaction)
CALL(socket)
CALL(timerfd_create)
CALL(timerfd_gettime)
CALL(unlink)
CALL(unlinkat)
CALL(waitid)
CALL(write)
/* One call for three operations, with errors of their own. */
long epoll_ctl(long set, long operation, long c, long d) {
    static Function *real;
    if (!real) real = next("epoll_ctl");
    static const char *const names[] = {"epoll_ctl", "epoll_ctl.add", "epoll_ctl.del", "epoll_ctl.mod"};
    int error = failure(names[operation & 3], CALLER);
    if (error == 0) return real(set, operation, c, d);
    errno = error;
    return -1;
}

/* One that a step of the clock may cancel has an error of its own. */
long timerfd_settime(long timer, long flags, long c, long d) {
    static Function *real;
    if (!real) real = next("timerfd_settime");
    int error = failure(flags & TFD_TIMER_CANCEL_ON_SET ? "timerfd_settime.cancel" : "timerfd_settime", CALLER);
    if (error == 0) return real(timer, flags, c, d);
    errno = error;
    return -1;
}

/* The type of the file system comes first in what it says: 0x6969 is NFS. */
static bool shares_files;
void calls_share_files(bool share) { shares_files = share; }

long fstatfs(long file, long *status) {
    static Function *real;
    if (!real) real = next("fstatfs");
    int error = failure("fstatfs", CALLER);
    if (error == 0) {
        long result = real(file, status);
        if (result == 0 && shares_files) *status = 0x6969;
        return result;
    }
    errno = error;
    return -1;
}

/* These return the error. */
CALL(posix_fallocate, return error;)
CALL(pthread_attr_setstacksize, return error;)
CALL(pthread_create, return error;)
CALL(pthread_sigmask, return error;)

static const struct {
    long number;
    const char *name;
} system_calls[] = {
    {SYS_accept4, "accept4"},         {SYS_close, "close"},           {SYS_connect, "connect"},
    {SYS_dup3, "dup3"},               {SYS_epoll_pwait, "epoll_pwait"}, {SYS_epoll_pwait2, "epoll_pwait2"},
    {SYS_fallocate, "fallocate"},     {SYS_flock, "flock"},           {SYS_ftruncate, "ftruncate"},
    {SYS_membarrier, "membarrier"},   {SYS_clock_nanosleep, "nanosleep"}, {SYS_openat, "openat"},
    {SYS_pidfd_open, "pidfd_open"},   {SYS_ppoll, "poll"},            {SYS_pread64, "pread"},
    {SYS_preadv2, "preadv2"},         {SYS_pwrite64, "pwrite"},       {SYS_read, "read"},
    {SYS_recvfrom, "recvfrom"},       {SYS_recvmsg, "recvmsg"},       {SYS_sendmsg, "sendmsg"},
    {SYS_sendto, "sendto"},           {SYS_waitid, "waitid"},         {SYS_write, "write"},
};

static const char *name_of(long number, long operation) {
    /* A wake-up has no errors of its own. */
    const long command = operation & FUTEX_CMD_MASK;
    if (number == SYS_futex) return command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET ? NULL : "futex";
    for (unsigned i = 0; i < sizeof system_calls / sizeof *system_calls; i++)
        if (system_calls[i].number == number) return system_calls[i].name;
    return NULL;
}

/* The seventh argument lies on the stack. */
long syscall(long number, long a, long b, long c, long d, long e, long f) {
    static Function *real;
    if (!real) real = next("syscall");
    const char *name = name_of(number, b);
    int error = name ? failure(name, CALLER) : 0;
    if (error == 0) return real(number, a, b, c, d, e, f);
    if (failing_is_made)
        real(number, a, b, c, d, e, f);
    else
        spoil_results(name, a, b, c, d, e);
    errno = error;
    return -1;
}

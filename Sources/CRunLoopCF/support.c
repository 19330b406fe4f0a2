/* SPDX-License-Identifier: MIT */
/* What only C can do for librunloop-cf: thread-local memory, tables of the C library, blocks, libdispatch. */
#define _GNU_SOURCE
#include "CRunLoopCF.h"
#include "CLinuxGuard.h"

#include <dlfcn.h>
#include <link.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <locale.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <wctype.h>

void rlcf_write(const void *bytes, size_t length) {
    const char *next = bytes;
    while (length > 0) {
        /* Not write(2) of the C library, a cancellation point. */
        ssize_t written = syscall(SYS_write, STDERR_FILENO, next, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        next += written;
        length -= (size_t)written;
    }
}

_Noreturn void rlcf_trap(const char *function, const char *message) {
    struct iovec parts[] = {{(void *)function, strlen(function)}, {": ", 2}, {(void *)message, strlen(message)}, {"\n", 1}};
    if (syscall(SYS_writev, STDERR_FILENO, parts, 4) < 0) { /* nothing else can be done with the words */ }
    abort();
}

/* Retained for good: what the thread made with it may outlive the thread. */
static __thread RLCFAllocator *defaultAllocator;

RLCFAllocator *rlcf_default_allocator(void) { return defaultAllocator; }
void rlcf_set_default_allocator(RLCFAllocator *allocator) { defaultAllocator = allocator; }

/* MARK: Constants whose text is not ASCII */

typedef struct Constant {
    struct Constant *next;
    const void *constant;
    void *string;
    char text[]; /* as it was then: another library may be loaded where the constant's was */
} Constant;

/* Lists that only grow, by address; some programs have their texts here, thousands of them. Acquire and release: a node is complete
 * before it is found. */
enum { CONSTANT_LISTS = 4096 };
static Constant *constants[CONSTANT_LISTS];

void *rlcf_constant(const void *constant, void *(*make)(const void *constant)) {
    /* The compiler puts them one behind the other. */
    Constant **list = &constants[((uintptr_t)constant >> 3) * 2654435761u % CONSTANT_LISTS];
    Constant *first = __atomic_load_n(list, __ATOMIC_ACQUIRE);
    const char *text = (const char *)constant + sizeof RLCF_CONSTANT_KIND;
    for (Constant *node = first; node; node = node->next)
        if (node->constant == constant && strcmp(node->text, text) == 0) return node->string;
    Constant *node = malloc(sizeof *node + strlen(text) + 1);
    if (!node) rlcf_trap("CFSTR", "out of memory");
    strcpy(node->text, text);
    node->constant = constant;
    node->string = make(constant);
    node->next = first;
    /* Of two threads that are here for one constant each gets its own string, and both stay. */
    while (!__atomic_compare_exchange_n(list, &node->next, node, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    return node->string;
}

/* MARK: Characters */

static locale_t characters; /* set once, by chooseLocale */
static pthread_once_t localeChosen = PTHREAD_ONCE_INIT;

static void chooseLocale(void) { characters = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0); }

uint32_t rlcf_fold(uint32_t character) {
    if (character < 0x80) return character >= 'A' && character <= 'Z' ? character + 32 : character;
    /* The dotted I and the dotless i differ from the others by more than their case. */
    if (character == 0x130 || character == 0x131) return character;
    pthread_once(&localeChosen, chooseLocale);
    return characters ? (uint32_t)towlower_l((wint_t)towupper_l((wint_t)character, characters), characters) : character;
}

const uint16_t rlcf_mac_roman[128] = {
    0x00c4, 0x00c5, 0x00c7, 0x00c9, 0x00d1, 0x00d6, 0x00dc, 0x00e1, 0x00e0, 0x00e2, 0x00e4, 0x00e3,
    0x00e5, 0x00e7, 0x00e9, 0x00e8, 0x00ea, 0x00eb, 0x00ed, 0x00ec, 0x00ee, 0x00ef, 0x00f1, 0x00f3,
    0x00f2, 0x00f4, 0x00f6, 0x00f5, 0x00fa, 0x00f9, 0x00fb, 0x00fc, 0x2020, 0x00b0, 0x00a2, 0x00a3,
    0x00a7, 0x2022, 0x00b6, 0x00df, 0x00ae, 0x00a9, 0x2122, 0x00b4, 0x00a8, 0x2260, 0x00c6, 0x00d8,
    0x221e, 0x00b1, 0x2264, 0x2265, 0x00a5, 0x00b5, 0x2202, 0x2211, 0x220f, 0x03c0, 0x222b, 0x00aa,
    0x00ba, 0x03a9, 0x00e6, 0x00f8, 0x00bf, 0x00a1, 0x00ac, 0x221a, 0x0192, 0x2248, 0x2206, 0x00ab,
    0x00bb, 0x2026, 0x00a0, 0x00c0, 0x00c3, 0x00d5, 0x0152, 0x0153, 0x2013, 0x2014, 0x201c, 0x201d,
    0x2018, 0x2019, 0x00f7, 0x25ca, 0x00ff, 0x0178, 0x2044, 0x20ac, 0x2039, 0x203a, 0xfb01, 0xfb02,
    0x2021, 0x00b7, 0x201a, 0x201e, 0x2030, 0x00c2, 0x00ca, 0x00c1, 0x00cb, 0x00c8, 0x00cd, 0x00ce,
    0x00cf, 0x00cc, 0x00d3, 0x00d4, 0xf8ff, 0x00d2, 0x00da, 0x00db, 0x00d9, 0x0131, 0x02c6, 0x02dc,
    0x00af, 0x02d8, 0x02d9, 0x02da, 0x00b8, 0x02dd, 0x02db, 0x02c7,
};

/* MARK: Numbers as C writes them, whatever locale the program has set */

static locale_t numbers; /* set once, by chooseNumbers */
static pthread_once_t numbersChosen = PTHREAD_ONCE_INIT;

static void chooseNumbers(void) { numbers = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

bool rlcf_parse_double(const char *text, double *value) {
    pthread_once(&numbersChosen, chooseNumbers);
    char *end;
    *value = numbers ? strtod_l(text, &end, numbers) : strtod(text, &end);
    return end != text;
}

int rlcf_print(char *buffer, size_t size, const char *format, ...) {
    pthread_once(&numbersChosen, chooseNumbers);
    locale_t own = numbers ? uselocale(numbers) : (locale_t)0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(buffer, size, format, arguments);
    va_end(arguments);
    if (own) uselocale(own);
    return length;
}

/* MARK: Blocks */

/* The beginning of a block, as the blocks ABI lays it out. */
typedef struct Block {
    void *isa;
    int flags, reserved;
    void (*invoke)(void);
} Block;

/* Looked up once, both at the first copy: dlsym(3) waits for a library that another thread loads, whose constructor may wait for the loop that
 * performs blocks. Relaxed: each has one value. */
static void *copyBlock, *releaseBlock;

static void *blockFunction(void **known, const char *name) {
    void *function = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (function) return function;
    function = dlsym(RTLD_DEFAULT, name);
    if (!function) rlcf_trap(name, "the process has no block runtime; link the program with -lBlocksRuntime");
    __atomic_store_n(known, function, __ATOMIC_RELAXED);
    return function;
}

void *rlcf_block_copy(const void *block) {
    blockFunction(&releaseBlock, "_Block_release");
    return ((void *(*)(const void *))blockFunction(&copyBlock, "_Block_copy"))(block);
}

void rlcf_block_release(const void *block) { ((void (*)(const void *))blockFunction(&releaseBlock, "_Block_release"))(block); }
void rlcf_block_call(void *block) { ((void (*)(void *))((Block *)block)->invoke)(block); }
void rlcf_block_call_timer(void *block, void *timer) {
    ((void (*)(void *, void *))((Block *)block)->invoke)(block, timer);
}
void rlcf_block_call_observer(void *block, void *observer, unsigned long activity) {
    ((void (*)(void *, void *, unsigned long))((Block *)block)->invoke)(block, observer, activity);
}

/* MARK: libdispatch */

static int countLoads(struct dl_phdr_info *info, size_t size, void *count) {
    (void)size;
    *(unsigned long long *)count = info->dlpi_adds;
    return 1;
}

static int isDispatch(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    const char *slash = strrchr(info->dlpi_name, '/');
    return strncmp(slash ? slash + 1 : info->dlpi_name, "libdispatch.", 12) == 0;
}

/* Which thread this is changes with a fork only, and asking costs two system calls. */
enum { UNKNOWN, MAIN, OTHER };
static __thread char thread;
/* This is a child of `fork` of a process with threads: one that does not exist may hold the lock of dl_iterate_phdr(3) for ever, but not
 * that of dlsym(3). */
static bool isTorn;
/* Changed by the thread that forks, under the locks of the last part of this file. */
static bool hasForkedThreads;

void rlcf_attach_main_queue(void) {
    /* Main thread's only: the number of objects that were loaded at the last try, and whether it worked. */
    static unsigned long long tried;
    static bool attached;
    if (thread == UNKNOWN) thread = getpid() == gettid() ? MAIN : OTHER;
    if (thread == OTHER || attached) return;
    if (!isTorn) {
        unsigned long long loads = 0;
        dl_iterate_phdr(countLoads, &loads);
        if (loads == tried) return;
        tried = loads;
        /* dlsym(3) waits for a library that another thread loads, whose constructor may wait for this one. */
        if (!dl_iterate_phdr(isDispatch, NULL)) return;
    }
    attached = RLAttachMainQueue();
}

/* MARK: Names that stay for good */

enum { BUCKETS = 1024 };
static pthread_mutex_t namesLock = PTHREAD_MUTEX_INITIALIZER;
static RLCFInterned *names[BUCKETS]; /* guarded by namesLock; a name that is in it never changes */

const RLCFInterned *rlcf_intern(const char *text, void *(*make)(const char *text)) {
    size_t hash = 5381;
    for (const char *next = text; *next; next++) hash = hash * 33 + (unsigned char)*next;
    RLCFInterned **bucket = &names[hash % BUCKETS];
    pthread_mutex_lock(&namesLock);
    RLCFInterned *found = *bucket;
    while (found && strcmp(found->text, text) != 0) found = found->next;
    if (!found) {
        found = malloc(sizeof *found + strlen(text) + 1);
        if (!found) rlcf_trap("CoreFoundation", "out of memory");
        strcpy(found->text, text);
        found->string = make(text);
        found->next = *bucket;
        *bucket = found;
    }
    pthread_mutex_unlock(&namesLock);
    return found;
}

/* MARK: Contexts that one thread reads while another releases them */

static pthread_mutex_t boxesLock = PTHREAD_MUTEX_INITIALIZER;

void rlcf_lock_boxes(void) { pthread_mutex_lock(&boxesLock); }
void rlcf_unlock_boxes(void) { pthread_mutex_unlock(&boxesLock); }

/* MARK: Calls that may end their thread */

typedef struct NamedCall {
    void (*function)(const char *name, void *info);
    char *name;
    void *info;
} NamedCall;

static void callNamed(void *info) {
    NamedCall *call = info;
    call->function(call->name, call->info);
}

void rlcf_call_with_name(void (*function)(const char *name, void *info), char *name, void *info) {
    NamedCall call = {function, name, info};
    rl_guard(callNamed, &call, free, name);
    free(name);
}

typedef struct ModeCall {
    void (*function)(void *info, void *loop, const void *mode);
    void *info, *loop;
    const void *mode;
} ModeCall;

static void callWithMode(void *info) {
    ModeCall *call = info;
    call->function(call->info, call->loop, call->mode);
}

static void releaseString(void *string) { CFRelease(string); }

void rlcf_call_with_mode(void (*function)(void *info, void *loop, const void *mode), void *info, void *loop, const void *mode) {
    ModeCall call = {function, info, loop, mode};
    rl_guard(callWithMode, &call, releaseString, (void *)mode);
    CFRelease(mode);
}

/* MARK: fork */

/* The locks of this file are held while a thread forks, so that the child finds them free. */
static void holdLocks(void) {
    pthread_mutex_lock(&boxesLock);
    pthread_mutex_lock(&namesLock);
#if __has_include(<sys/single_threaded.h>)
    hasForkedThreads |= !__libc_single_threaded;
#else
    hasForkedThreads = true;
#endif
}

static void letLocksGo(void) {
    pthread_mutex_unlock(&namesLock);
    pthread_mutex_unlock(&boxesLock);
}

static void forgetInChild(void) {
    isTorn = hasForkedThreads;
    thread = UNKNOWN;
    letLocksGo();
}

__attribute__((constructor)) static void load(void) { pthread_atfork(holdLocks, letLocksGo, forgetInChild); }

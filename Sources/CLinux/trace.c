/* SPDX-License-Identifier: MIT */
/* The file of a trace.
 *
 * It is mapped, so that what was recorded outlives the process, however that ends. All its room is taken before it is mapped: a write to
 * a page that the file system has no room for would raise SIGBUS. It is always a new file, which gets its name when it is whole; so no
 * file that another process has mapped is truncated, and a program that finds the name finds a trace. */
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "CLinux.h"

__thread int rl_thread_number __attribute__((tls_model("initial-exec"), visibility("hidden")));

int rl_get_thread_number(void) {
    if (rl_thread_number == 0) rl_thread_number = (int)syscall(SYS_gettid);
    return rl_thread_number;
}

const char *rl_trusted_environment(const char *name) { return secure_getenv(name); }

static const char magic[8] = {'R', 'L', 'T', 'R', 'A', 'C', 'E', '1'};

enum { MORE = 32 };

/* The path with the process's number for each "%p". */
static bool expand(const char *path, char *text) {
    size_t length = 0;
    for (; *path; path++) {
        if (length + MORE > PATH_MAX) return false;
        if (path[0] == '%' && path[1] == 'p') {
            length += (size_t)snprintf(text + length, MORE, "%d", (int)getpid());
            path++;
        } else {
            text[length++] = *path;
        }
    }
    text[length] = '\0';
    return length > 0;
}

/* Writes zeroes where the file system has no call to take room, see posix_fallocate(3). */
static bool write_room(int file, size_t length) {
    /* Nothing writes to it, but constants take their length of the library's file. */
    static char zeroes[4096];
    size_t done = 0;
    while (done < length) {
        size_t part = length - done < sizeof zeroes ? length - done : sizeof zeroes;
        if (!rl_write_all(file, zeroes, part)) return false;
        done += part;
    }
    return true;
}

static bool take_room(int file, size_t length) {
    errno = 0;
    if (rl_take_file_room(file, length)) return true;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
    errno = 0;
    if (write_room(file, length)) return true;
    if (errno == 0) errno = ENOSPC;
    return false;
}

/* While a trace is written, its file has a lock, by which other processes, also those of another pid namespace, see that its writer lives. The
 * descriptor is the trace's: the thread that starts or stops it may use it, and the child of `fork`. A child of another thread that forks between
 * the file's opening and the store of its number, or between the mapping and madvise(2), keeps the lock as long as it lives. */
static struct {
    int descriptor;
    uint64_t device, inode;
} lock = {.descriptor = -1};

/* The file's descriptor belongs to the lock from here on. False: the file cannot be locked. */
static bool take_lock(int file) {
    struct flock whole = {.l_type = F_WRLCK};
    lock.descriptor = rl_high_number(file);
    const bool is_known = rl_identify(lock.descriptor, &lock.device, &lock.inode) == 0;
    if (!is_known) lock.inode = 0;
    return is_known && fcntl(lock.descriptor, F_OFD_SETLK, &whole) == 0;
}

void rl_trace_unlock(bool in_child) {
    struct flock whole = {.l_type = F_UNLCK};
    uint64_t device, inode;
    int file = lock.descriptor;
    lock.descriptor = -1;
    /* What a filter forbids to ask counts as the library's. Then the number of the file is 0. */
    if (file < 0 || (lock.inode && rl_identify(file, &device, &inode) == 0 && (device != lock.device || inode != lock.inode))) return;
    /* A thread that is about to end may have a copy for a moment. The lock is the parent's, too. */
    if (!in_child) fcntl(file, F_OFD_SETLK, &whole);
    rl_sys_close(file);
}

/* Whether a living process writes the trace. Its lock goes with its mapping, also after the descriptor is closed, and ends with the process. Only
 * where files cannot be locked the writer's number tells, which another process may have by now. */
static bool is_written(int file, const struct rl_trace_header *found) {
    struct flock whole = {.l_type = F_RDLCK};
    if (fcntl(file, F_OFD_SETLK, &whole) == 0) return false;
    if (errno == EAGAIN || errno == EACCES) return true;
    return found->end_time == 0 && (pid_t)found->process > 0 && (pid_t)found->process != getpid() &&
           (syscall(SYS_kill, (pid_t)found->process, 0) == 0 || errno == EPERM);
}

/* Whether a file may be replaced: 0; EBUSY: a living process writes its trace to it; EEXIST: it is not a trace; EAGAIN: another process is
 * about to replace it, or has. While *locked is open, which the caller closes, no other process replaces it; -1: there is no file. */
static int may_replace(const char *path, int *locked) {
    struct rl_trace_header found;
    struct stat status, named;
    int file = *locked = rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0);
    if (file < 0) return errno == ENOENT ? 0 : EEXIST;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return EEXIST;
    /* Where files cannot be locked, two processes that begin at once may take each other's name. */
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return EAGAIN;
    if (lstat(path, &named) != 0 || named.st_ino != status.st_ino || named.st_dev != status.st_dev) return EAGAIN;
    ssize_t count = rl_sys_pread(file, &found, sizeof found, 0);
    if (count == 0) return 0;
    if (count != (ssize_t)sizeof found || memcmp(found.magic, magic, sizeof magic) != 0) return EEXIST;
    return is_written(file, &found) ? EBUSY : 0;
}

/* Gives the finished file its name. 0, or an errno. */
static int publish(const char *work, char *path, int *others) {
    enum { MOST_OTHERS = 99 };
    const struct timespec nap = {0, 1000000};
    const size_t length = strlen(path);
    for (int rest = 1000;; rest--) {
        int locked;
        if (link(work, path) == 0) {
            unlink(work);
            return 0;
        }
        const bool has_links = errno == EEXIST;
        if (!has_links && errno != EPERM && errno != EOPNOTSUPP) return errno;
        int reason = may_replace(path, &locked);
        /* On file systems without links another process may come in between. */
        if (reason == 0 && has_links && locked < 0) reason = EAGAIN;
        if (reason == 0 && rename(work, path) != 0) reason = errno;
        if (locked >= 0) rl_sys_close(locked);
        if (reason == EAGAIN && rest > 0) {
            rl_sys_nanosleep(&nap);
        } else if ((reason == EBUSY || reason == EAGAIN) && *others < MOST_OTHERS) {
            /* In another pid namespace another process may have the same number. */
            ++*others;
            sprintf(path + length, *others == 1 ? ".%d" : ".%d.%d", (int)getpid(), *others);
        } else {
            return reason;
        }
    }
}

static void write_header(void *map, const struct rl_trace_header *header) {
    struct rl_trace_header *copy = map;
    *copy = *header;
    memcpy(copy->magic, magic, sizeof magic);
}

/* Memory of the process, which needs no file and no room before it is used. */
static void *create_in_memory(const struct rl_trace_header *header, void *at) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void *map = mmap(at, header->file_size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (map == MAP_FAILED) return NULL;
    write_header(map, header);
    return map;
}

/* `path` and `work` have room for the longest paths. */
static void *create_file(
    const char *given, const struct rl_trace_header *header, void *at, int *error, int *others, char *path, char *work) {
    const size_t length = header->file_size;
    *error = ENAMETOOLONG;
    if (!expand(given, path)) return NULL;
    sprintf(work, "%s.%d-%016llx.new", path, (int)getpid(), (unsigned long long)rl_order_of_time());
    int file = rl_sys_openat(AT_FDCWD, work, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        *error = errno;
        return NULL;
    }
    const bool is_locked = take_lock(file);
    void *map = MAP_FAILED;
    if (take_room(lock.descriptor, length)) map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, lock.descriptor, 0);
    *error = map == MAP_FAILED ? errno : 0;
    if (map != MAP_FAILED) {
        /* The child of another thread's `fork`, which does not know of it yet, would keep the lock by it. */
        madvise(map, length, MADV_DONTFORK);
        if (!is_locked) rl_trace_unlock(false);
        write_header(map, header);
        *error = publish(work, path, others);
        if (*error == 0) {
            void *moved = at ? mremap(map, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, at) : map;
            return moved == MAP_FAILED ? map : moved;
        }
        munmap(map, length);
    }
    rl_trace_unlock(false);
    unlink(work);
    return NULL;
}

void rl_trace_known(void *memory, size_t length) { madvise(memory, length, MADV_DOFORK); }

void *rl_trace_create(const char *given, const struct rl_trace_header *header, void *at, int *error, int *others) {
    struct {
        char path[PATH_MAX + MORE], work[PATH_MAX + 2 * MORE];
    } *paths;
    *others = 0;
    if (!given) return create_in_memory(header, at);
    /* A thread may have a stack of no more than 16 KiB. */
    paths = malloc(sizeof *paths);
    if (!paths) {
        *error = ENOMEM;
        return NULL;
    }
    void *map = create_file(given, header, at, error, others, paths->path, paths->work);
    free(paths);
    return map;
}

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

void *rl_trace_take(void *map, size_t length) {
    /* The pages move to another address, and a thread that still writes to this one writes to fresh ones. */
    void *taken = mremap(map, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    if (taken == MAP_FAILED) {
        /* An emulator may not support that. */
        taken = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (taken == MAP_FAILED) return NULL;
        memcpy(taken, map, length);
    }
    /* No code in the child of `fork` would free it. */
    syscall(SYS_madvise, taken, length, MADV_DONTFORK);
    return taken;
}

void rl_trace_free(void *taken, size_t length) { munmap(taken, length); }

void rl_trace_forget(void *map, size_t length) {
    (void)!mmap(map, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

struct loaded {
    rl_loaded_function function;
    uint64_t loads;
    bool is_old;
};

static int tell_loaded(struct dl_phdr_info *file, size_t size, void *place) {
    struct loaded *loaded = place;
    char program[PATH_MAX];
    uint64_t end = 0;
    (void)size;
    uint64_t loads = file->dlpi_adds + file->dlpi_subs;
    if (loads == loaded->loads) {
        loaded->is_old = true;
        return 1;
    }
    const char *path = file->dlpi_name;
    for (int part = 0; part < file->dlpi_phnum; part++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[part];
        if (segment->p_type != PT_LOAD) continue;
        if (segment->p_vaddr + segment->p_memsz > end) end = segment->p_vaddr + segment->p_memsz;
    }
    if (!path || !*path) {
        /* The program itself comes first, and without its name. */
        ssize_t count = readlink("/proc/thread-self/exe", program, sizeof program - 1);
        if (count <= 0) return 0;
        program[count] = '\0';
        path = program;
    }
    if (end > 0) loaded->function(path, file->dlpi_addr, file->dlpi_addr + end);
    return 0;
}

static int count_loads(struct dl_phdr_info *file, size_t size, void *place) {
    (void)size;
    *(uint64_t *)place = file->dlpi_adds + file->dlpi_subs;
    return 1;
}

bool rl_for_each_loaded(rl_loaded_function function, uint64_t *loads) {
    struct loaded loaded = {function, *loads, false};
    dl_iterate_phdr(tell_loaded, &loaded);
    if (loaded.is_old) return false;
    dl_iterate_phdr(count_loads, loads);
    return true;
}

/* SPDX-License-Identifier: MIT */
/* Files without a name in memory, by which long data travel, and mappings of files and of addresses. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

/* With a high number from the beginning (S-FD-18): what is written to it takes its time, and a program that has closed its standard error has one in
 * every line that another thread logs meanwhile. */
static int memory_file(void) {
    return rl_high_number((int)syscall(SYS_memfd_create, "RLMessagePort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

static const int all_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

int rl_sealed_memory(const void *bytes, size_t length) {
    int file = memory_file();
    if (file < 0) return -1;
    if (rl_write_contents(file, bytes, length) && fcntl(file, F_ADD_SEALS, all_seals) == 0) return file;
    rl_sys_close(file);
    return -1;
}

int rl_kept_memory(size_t length) {
    int file = memory_file();
    if (file < 0) return -1;
    if (rl_set_length(file, length) && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) return file;
    rl_sys_close(file);
    return -1;
}

/* The kernel gives up whenever a signal comes, and then begins anew; too many signals end the attempts. */
bool rl_take_room(int file, size_t offset, size_t length) {
    for (int attempt = 0; attempt < 100; attempt++) {
        if (syscall(SYS_fallocate, file, 0, (off_t)offset, (off_t)length) == 0) return true;
        if (errno != EINTR) return false;
    }
    return false;
}

/* Reading a hole takes memory that its sender has not paid for; as much as a datagram may bring anyway is allowed. */
enum { FREE_HOLES = 32768 };

/* cachestat(2), which older headers lack. */
enum { RL_SYS_CACHESTAT = 451 };

/* The bytes of the pages behind that length, which the file's blocks count too. In the kernel it takes no lock, unlike lseek(2) with SEEK_HOLE or
 * ftruncate(2), for which the sender could have the caller wait, and its time grows with those pages alone, of which an honest sender has less than a
 * huge one. Another's may be as long as its message, which is refused then, and its connection closed. Kernels before 6.5, and filters, do not tell. */
static uint64_t held_behind(int file, size_t length) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const struct { uint64_t offset, length; } range = {length + page - 1, 0};
    struct { uint64_t cached, dirty, written, evicted, recently_evicted; } pages = {0};
    if (syscall(RL_SYS_CACHESTAT, file, &range, &pages, 0) != 0) return 0;
    return (pages.cached + pages.evicted) * page;
}

/* The seals are read first: only a memory file has some, and any other file may make the caller wait. The sender of a file that cannot grow can drop
 * pages behind its end after this, but make none between the looks. */
bool rl_holds(int file, size_t length, bool is_sealed) {
    struct stat status;
    const int seals = fcntl(file, F_GET_SEALS), needed = F_SEAL_WRITE | F_SEAL_SHRINK | (length > FREE_HOLES ? F_SEAL_GROW : 0);
    if (seals < 0 || fstat(file, &status) != 0 || status.st_size < (off_t)length) return false;
    uint64_t behind = 0;
    if (is_sealed) {
        if ((seals & needed) != needed || status.st_size != (off_t)length) return false;
        if (length > FREE_HOLES) {
            /* The last page may be a huge one. Whoever has more there is no honest sender, and the look at it would take its time. */
            const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), huge = page * page / 8;
            if ((uint64_t)status.st_blocks * 512 > length + huge) return false;
            behind = held_behind(file, length);
            if (fstat(file, &status) != 0) return false;
        }
    }
    return (uint64_t)status.st_blocks * 512 + FREE_HOLES >= length + behind;
}

bool rl_is_memory(int file) { return fcntl(file, F_GET_SEALS) >= 0; }

/* Mapped as they are read, though MAP_POPULATE makes the reading of all a tenth faster: it takes 70 us for each MiB, and the datagram that brings the
 * file has 32 bytes and may come again and again. */
void *rl_map_file(int file, size_t length) {
    void *pages = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *rl_map_kept(int file, size_t length) {
    void *pages = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *rl_grow_mapping(void *pages, size_t length, size_t grown) {
    void *new = pages ? mremap(pages, length, grown, MREMAP_MAYMOVE)
                      : mmap(NULL, grown, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (new == MAP_FAILED) return NULL;
    if (!pages) syscall(SYS_madvise, new, grown, MADV_HUGEPAGE);
    return new;
}

/* SPDX-License-Identifier: MIT */
/* The note in a lock file. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "locknotes.h"

/* The note: RLDistributedLock, "local " or "shared", the number of the holding in hexadecimal, process and host. */
static const char note_begin[] = "RLDistributedLock ";
enum { BEGIN = sizeof note_begin - 1, RULE = 7, NOTE = 96 };

/* Up to the process. */
static int write_begin(char *note, size_t size, bool local, uint64_t number) {
    return snprintf(note, size, "%s%s %016llx process ", note_begin, local ? "local " : "shared", (unsigned long long)number);
}

int rl_write_note(int file, bool local, struct rl_holding *holding) {
    char note[NOTE + 1], host[32] = "";
    struct stat status;
    struct rlimit limit;
    /* A process that is ended after a part of the note, which such a limit lets through, would leave what is no lock file. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < NOTE) return EFBIG;
    if (syscall(SYS_getrandom, &holding->number, sizeof holding->number, 1 /* GRND_NONBLOCK */) != (long)sizeof holding->number)
        holding->number = (uint64_t)getpid() << 32 ^ rl_order_of_time();
    gethostname(host, sizeof host - 1);
    int length = write_begin(note, sizeof note, local, holding->number);
    length += snprintf(note + length, sizeof note - (size_t)length, "%d on %s", (int)getpid(), host);
    memset(note + length, ' ', (size_t)(NOTE - length));
    note[NOTE - 1] = '\n';
    if (fstat(file, &status) != 0) return errno;
    /* A part of it is written without an error. */
    errno = ENOSPC;
    if (rl_write_at(file, note, NOTE, 0) != NOTE) return errno;
    holding->device = (uint64_t)status.st_dev;
    holding->inode = (uint64_t)status.st_ino;
    return 0;
}

/* An empty file is one: its maker was ended before it wrote the note. So is one of zeroes for a note, left by a power failure. */
int rl_read_note(int file, struct rl_lock_note *found) {
    char note[NOTE] = "", begin[NOTE];
    struct stat status;
    if (fstat(file, &status) != 0) return errno;
    if (!S_ISREG(status.st_mode) || status.st_size > NOTE) return EEXIST;
    /* The note may be written just now, in one step. */
    ssize_t length = rl_sys_pread(file, note, NOTE, 0);
    if (length < 0) return errno;
    found->holding = (struct rl_holding){(uint64_t)status.st_dev, (uint64_t)status.st_ino, 0};
    found->date = (double)status.st_mtim.tv_sec + (double)status.st_mtim.tv_nsec / 1e9 - 978307200;
    found->is_local = true;
    if (note[0] == 0 && memcmp(note, note + 1, NOTE - 1) == 0) return 0;
    /* A note ends with its line, and so does whatever is read of it here. */
    if (length != NOTE || note[NOTE - 1] != '\n' || memcmp(note, note_begin, BEGIN) != 0) return EEXIST;
    found->is_local = note[BEGIN] == 'l';
    found->holding.number = strtoull(note + BEGIN + RULE, NULL, 16);
    /* Other data may begin in a similar way. */
    size_t expected = (size_t)write_begin(begin, sizeof begin, found->is_local, found->holding.number);
    return memcmp(note, begin, expected) == 0 ? 0 : EEXIST;
}

int rl_look_for_holding(int folder, const char *name, const struct rl_holding *holding) {
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT || errno == ENOTDIR ? ESTALE : errno;
    return (uint64_t)status.st_dev == holding->device && (uint64_t)status.st_ino == holding->inode ? 0 : ESTALE;
}

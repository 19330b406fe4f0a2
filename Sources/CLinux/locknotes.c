/* SPDX-License-Identifier: MIT */
/* The note in a lock file. */
#define _GNU_SOURCE
#include "locknotes.h"

/* The note: RLDistributedLock, "local " or "shared", the number of the holding in hexadecimal, process and host. */
static const char note_begin[] = "RLDistributedLock ";
enum { BEGIN = sizeof note_begin - 1, RULE = 7, NUMBER = 16, NOTE = 96 };

int rl_write_note(int file, bool local, struct rl_holding *holding) {
    char note[NOTE + 1], host[32] = "";
    struct stat status;
    if (syscall(SYS_getrandom, &holding->number, sizeof holding->number, 1 /* GRND_NONBLOCK */) != (long)sizeof holding->number)
        holding->number = (uint64_t)getpid() << 32 ^ rl_order_of_time();
    gethostname(host, sizeof host - 1);
    int length = snprintf(note, sizeof note, "%s%s %016llx process %d on %s", note_begin, local ? "local " : "shared",
                          (unsigned long long)holding->number, (int)getpid(), host);
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
bool rl_read_note(int file, struct rl_lock_note *found) {
    char note[NOTE] = "";
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > NOTE) return false;
    /* The note may be written just now, in one step. */
    ssize_t length = rl_sys_pread(file, note, NOTE, 0);
    if (length < 0) return false;
    found->holding = (struct rl_holding){(uint64_t)status.st_dev, (uint64_t)status.st_ino, 0};
    found->date = (double)status.st_mtim.tv_sec + (double)status.st_mtim.tv_nsec / 1e9 - 978307200;
    found->is_local = true;
    if (note[0] == 0 && memcmp(note, note + 1, NOTE - 1) == 0) return true;
    /* A note ends with its line, and so does whatever is read of it here. */
    if (length != NOTE || note[NOTE - 1] != '\n' || memcmp(note, note_begin, BEGIN) != 0) return false;
    found->is_local = note[BEGIN] == 'l';
    char *end;
    found->holding.number = strtoull(note + BEGIN + RULE, &end, 16);
    return end == note + BEGIN + RULE + NUMBER;
}

bool rl_is_holding_named(int folder, const char *name, const struct rl_holding *holding) {
    struct stat status;
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)status.st_dev == holding->device &&
           (uint64_t)status.st_ino == holding->inode;
}

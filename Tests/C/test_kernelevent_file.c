/* SPDX-License-Identifier: MIT */
/*
 * Kernel events of files, by descriptor and by path. The probes are static, because what is left in
 * a loop outlives the case that put it there.
 */
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    all = kRLNoteDelete | kRLNoteWrite | kRLNoteExtend | kRLNoteAttrib | kRLNoteLink |
          kRLNoteRename | kRLNoteRevoke | kRLNoteCloseWrite
};

static char folder[64], path[128], other[128];

static void make_folder(void) {
    strcpy(folder, "/tmp/runloop-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/conf", folder);
    snprintf(other, sizeof other, "%s/other", folder);
}
static void remove_folder(void) {
    unlink(path);
    unlink(other);
    ck_assert_int_eq(rmdir(folder), 0);
}
static void write_file(const char *name, const char *text, int flags) {
    int fd = open(name, O_WRONLY | O_CLOEXEC | flags, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* A file system that does not answer: whoever looks for this name waits for the gate. */
static const char *hanging;
static Gate answers;
static int lookers;
int fstatat(int at, const char *restrict name, struct stat *restrict status, int flags) {
    if (hanging && strstr(name, hanging)) {
        __atomic_add_fetch(&lookers, 1, __ATOMIC_SEQ_CST);
        gate_wait(&answers);
    }
    return (int)syscall(SYS_newfstatat, at, name, status, flags);
}

static uint32_t seen;
static int reports;
static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)info;
    seen |= event->fflags;
    __atomic_add_fetch(&reports, 1, __ATOMIC_SEQ_CST);
}

static RLSourceRef watch(int fd, const char *name, uint32_t fflags) {
    RLKernelEvent event = {(uintptr_t)fd, kRLKernelFilterVnode, 0, fflags, 0, name};
    RLSourceRef source = RLKernelEventSourceCreate(&event, note, NULL);
    if (source == NULL) return NULL;
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return source;
}
/* What is reported until nothing is left; inotify has it in store as soon as the calls are made. */
static uint32_t what_happened(void) {
    seen = 0;
    while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) continue;
    return seen;
}
#define expect_notes(expected) ck_assert_uint_eq(what_happened(), (uint32_t)(expected))

RL_TEST(changes_of_an_open_file_are_reported, "S-KEV-13",
        "Writing, growing, cutting, mode, links, rename and the last unlink are told apart") {
    make_folder();
    write_file(path, "hello", O_CREAT);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    watch(fd, NULL, all);
    expect_notes(0);
    close(fd); /* the file is meant, not the number */
    write_file(path, "world", 0);
    expect_notes(kRLNoteWrite | kRLNoteCloseWrite);
    write_file(path, "more", O_APPEND);
    expect_notes(kRLNoteWrite | kRLNoteExtend | kRLNoteCloseWrite);
    ck_assert_int_eq(truncate(path, 1), 0);
    ck_assert(what_happened() & kRLNoteWrite);
    ck_assert_int_eq(chmod(path, 0640), 0);
    expect_notes(kRLNoteAttrib);
    ck_assert_int_eq(link(path, other), 0);
    expect_notes(kRLNoteLink);
    ck_assert_int_eq(unlink(other), 0);
    expect_notes(kRLNoteLink);
    ck_assert_int_eq(rename(path, other), 0);
    expect_notes(kRLNoteRename);
    write_file(other, "x", 0);
    expect_notes(kRLNoteWrite | kRLNoteCloseWrite);
    ck_assert_int_eq(unlink(other), 0);
    expect_notes(kRLNoteDelete | kRLNoteLink);
    remove_folder();
}

RL_TEST(only_what_is_asked_for_is_reported, "S-KEV-13",
        "What is of no interest neither calls back nor counts as handled") {
    make_folder();
    write_file(path, "hello", O_CREAT);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    watch(fd, NULL, kRLNoteDelete);
    write_file(path, "hello again", 0);
    chmod(path, 0640);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    ck_assert_int_eq(reports, 0);
    unlink(path);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_uint_eq(seen, kRLNoteDelete);
    close(fd);
    remove_folder();
}

RL_TEST(changes_of_a_folder_are_writes, "S-KEV-13",
        "Of a folder, a change of its list of names is a write") {
    make_folder();
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    watch(fd, NULL, kRLNoteWrite);
    write_file(path, "hello", O_CREAT);
    expect_notes(kRLNoteWrite);
    write_file(path, "again", 0);
    expect_notes(0);
    rename(path, other);
    expect_notes(kRLNoteWrite);
    unlink(other);
    expect_notes(kRLNoteWrite);
    close(fd);
    remove_folder();
}

RL_TEST(the_end_of_a_folder_is_reported, "S-KEV-13",
        "A folder that is removed while it is open has lost its last name, whatever it was called and wherever it was moved before") {
    make_folder();
    for (int moved = 0; moved < 3; moved++) {
        char name[160], beside[180];
        ck_assert_int_eq(mkdir(path, 0700), 0);
        ck_assert_int_eq(mkdir(other, 0700), 0);
        snprintf(name, sizeof name, "%s", path);
        int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RLSourceRef source = watch(fd, NULL, all & ~kRLNoteCloseWrite);
        if (moved == 1) snprintf(name, sizeof name, "%s2", path);
        if (moved == 2) snprintf(name, sizeof name, "%s/inner", other);
        if (moved) {
            ck_assert_int_eq(rename(path, name), 0);
            expect_notes(kRLNoteRename);
        }
        snprintf(beside, sizeof beside, "%s-beside", name);
        ck_assert_int_eq(mkdir(beside, 0700), 0);
        ck_assert_int_eq(rmdir(beside), 0);
        expect_notes(0);
        ck_assert_int_eq(rmdir(name), 0);
        expect_notes(kRLNoteDelete | kRLNoteLink);
        RLSourceInvalidate(source);
        close(fd);
        ck_assert_int_eq(rmdir(other), 0);
    }
    /* Moved and removed before the look. */
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    watch(fd, NULL, kRLNoteDelete);
    char inner[160];
    snprintf(inner, sizeof inner, "%s/inner", other);
    ck_assert_int_eq(rename(path, inner), 0);
    ck_assert_int_eq(rmdir(inner), 0);
    expect_notes(kRLNoteDelete);
    close(fd);
    ck_assert_int_eq(rmdir(other), 0);
    remove_folder();
}

static void set_times(const char *name, long second) {
    struct timespec times[2] = {{1000, 0}, {second, 0}};
    ck_assert_int_eq(utimensat(AT_FDCWD, name, times, 0), 0);
}

RL_TEST(attributes_and_names_are_told_apart, "S-KEV-13",
        "Changed times are reported also where names changed as well; what is in a folder is none of its names") {
    make_folder();
    write_file(path, "one", O_CREAT);
    for (int by_path = 0; by_path < 2; by_path++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        RLSourceRef source = watch(fd, by_path ? path : NULL, kRLNoteAttrib | kRLNoteLink);
        close(fd);
        set_times(path, 2000 + by_path);
        expect_notes(kRLNoteAttrib);
        ck_assert_int_eq(link(path, other), 0);
        expect_notes(kRLNoteLink);
        set_times(path, 3000);
        ck_assert_int_eq(unlink(other), 0);
        expect_notes(kRLNoteAttrib | kRLNoteLink);
        RLSourceInvalidate(source);
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    char inner[160];
    snprintf(inner, sizeof inner, "%s/inner", path);
    for (int by_path = 0; by_path < 2; by_path++) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        RLSourceRef source = watch(fd, by_path ? path : NULL, kRLNoteAttrib | kRLNoteLink | kRLNoteWrite);
        close(fd);
        ck_assert_int_eq(mkdir(inner, 0700), 0);
        expect_notes(kRLNoteWrite);
        ck_assert_int_eq(rmdir(inner), 0);
        set_times(path, 4000);
        expect_notes(kRLNoteWrite | kRLNoteAttrib);
        RLSourceInvalidate(source);
    }
    ck_assert_int_eq(rmdir(path), 0);
    remove_folder();
}

RL_TEST(other_names_of_the_file_are_not_this_one, "S-KEV-14",
        "With a path a renamed name is reported only if it is the one that is watched") {
    make_folder();
    char third[160];
    snprintf(third, sizeof third, "%s/third", folder);
    write_file(path, "one", O_CREAT);
    RLSourceRef source = watch(0, path, kRLNoteRename | kRLNoteReplace | kRLNoteDelete);
    ck_assert_int_eq(link(path, other), 0);
    ck_assert_int_eq(rename(other, third), 0);
    expect_notes(0);
    write_file(other, "two", O_CREAT);
    ck_assert_int_eq((int)syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, 1 << 1 /* RENAME_EXCHANGE */), 0);
    expect_notes(kRLNoteReplace);
    RLSourceInvalidate(source);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(other, path), 0);
    source = watch(0, path, kRLNoteRename | kRLNoteReplace | kRLNoteDelete);
    char fourth[160];
    snprintf(fourth, sizeof fourth, "%s/fourth", folder);
    ck_assert_int_eq(rename(third, fourth), 0);
    expect_notes(0);
    ck_assert_int_eq(rename(other, third), 0);
    expect_notes(kRLNoteRename);
    RLSourceInvalidate(source);
    ck_assert_int_eq(unlink(third), 0);
    ck_assert_int_eq(unlink(fourth), 0);
    remove_folder();
}

RL_TEST(the_loss_of_a_name_is_no_attribute, "S-KEV-14",
        "With a path a file that is removed, or replaced as editors do it, has lost a name; that is no change of attributes") {
    make_folder();
    for (int replace = 0; replace < 2; replace++) {
        uint32_t notes = kRLNoteAttrib | kRLNoteLink | (replace ? kRLNoteReplace : 0);
        write_file(path, "one", O_CREAT);
        RLSourceRef source = watch(0, path, notes);
        ck_assert_int_eq(unlink(path), 0);
        expect_notes(kRLNoteLink);
        RLSourceInvalidate(source);
        write_file(path, "one", O_CREAT);
        source = watch(0, path, notes);
        write_file(other, "two", O_CREAT);
        ck_assert_int_eq(rename(other, path), 0);
        expect_notes(kRLNoteLink | (replace ? kRLNoteReplace : 0));
        ck_assert_int_eq(chmod(path, 0640), 0);
        ck_assert_int_eq(rename(path, other), 0);
        expect_notes(kRLNoteAttrib);
        RLSourceInvalidate(source);
        ck_assert_int_eq(unlink(other), 0);
    }
    remove_folder();
}

RL_TEST(a_name_is_followed, "S-KEV-14",
        "With a path the name is meant: another file in its place is reported, and is watched "
        "from then on") {
    make_folder();
    write_file(path, "one", O_CREAT);
    watch(0, path, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete | kRLNoteRename);
    write_file(path, "two", 0);
    expect_notes(kRLNoteWrite);
    for (int i = 0; i < 3; i++) { /* as editors do it */
        write_file(other, "three", O_CREAT);
        expect_notes(0);
        ck_assert_int_eq(rename(other, path), 0);
        expect_notes(kRLNoteReplace);
        write_file(path, "four", 0);
        expect_notes(kRLNoteWrite);
    }
    ck_assert_int_eq(rename(path, other), 0); /* or so */
    expect_notes(kRLNoteRename);
    write_file(other, "five", 0);
    expect_notes(0);
    write_file(path, "six", O_CREAT);
    ck_assert(what_happened() & kRLNoteReplace);
    write_file(path, "seven", 0);
    expect_notes(kRLNoteWrite);
    unlink(path);
    expect_notes(kRLNoteDelete);
    remove_folder();
}

RL_TEST(a_name_can_change_often_between_two_looks, "S-KEV-14",
        "However often the name changed before the look, the file it stands for then is watched") {
    make_folder();
    write_file(path, "one", O_CREAT);
    watch(0, path, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete);
    for (int i = 0; i < 300; i++) {
        /* Often the next file gets the inode of the last one. */
        unlink(path);
        write_file(path, "two", O_CREAT);
        if (i % 3 == 0) ck_assert(what_happened() & kRLNoteReplace);
        if (i % 7 == 0) {
            what_happened();
            write_file(path, "three", 0);
            expect_notes(kRLNoteWrite);
        }
    }
    what_happened();
    unlink(path);
    expect_notes(kRLNoteDelete);
    remove_folder();
}

RL_TEST(a_missing_file_can_be_waited_for, "S-KEV-14",
        "A path may name no file yet; its creation is reported") {
    make_folder();
    watch(0, path, kRLNoteReplace | kRLNoteWrite);
    expect_notes(0);
    write_file(path, "one", O_CREAT);
    ck_assert(what_happened() & kRLNoteReplace);
    write_file(path, "two", 0);
    expect_notes(kRLNoteWrite);
    remove_folder();
}

RL_TEST(a_relative_path_is_one_of_then, "S-KEV-14",
        "A relative path means the folder that was current when the source was made") {
    make_folder();
    ck_assert_int_eq(chdir(folder), 0);
    watch(0, "conf", kRLNoteReplace);
    ck_assert_int_eq(chdir("/"), 0);
    write_file(path, "one", O_CREAT);
    expect_notes(kRLNoteReplace);
    remove_folder();
}

static void append_when_waiting(void *unused) {
    (void)unused;
    write_file(path, "x", O_APPEND);
}

RL_TEST(a_change_wakes_a_sleeping_loop, "S-KEV-13",
        "A change of a watched file wakes the loop") {
    make_folder();
    write_file(path, "", O_CREAT);
    watch(0, path, kRLNoteExtend);
    Thread *thread = when_waiting(RLGetCurrent(), append_when_waiting, NULL);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(thread);
    ck_assert_uint_eq(seen, kRLNoteExtend);
    remove_folder();
}

RL_TEST(impossible_files_are_refused, "S-KEV-9",
        "A closed descriptor, a missing folder or file, and notes that mean nothing are refused") {
    const struct {
        int fd, error;
        const char *path;
        uint32_t fflags;
    } kinds[] = {{900, EBADF, NULL, kRLNoteWrite},
                 {-1, EBADF, NULL, kRLNoteWrite},
                 {0, EINVAL, NULL, 0},
                 {0, EINVAL, NULL, kRLNoteReplace},
                 {0, EINVAL, NULL, 0x100000},
                 {0, ENOENT, "/nowhere/conf", kRLNoteReplace},
                 {0, ENOENT, "/nowhere-at-all", kRLNoteWrite},
                 {0, EINVAL, "/tmp/", kRLNoteWrite},
                 {0, EINVAL, "/tmp/.", kRLNoteWrite},
                 {0, EINVAL, "..", kRLNoteWrite},
                 {0, EINVAL, "", kRLNoteWrite}};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        errno = 0;
        ck_assert_msg(watch(kinds[i].fd, kinds[i].path, kinds[i].fflags) == NULL, "%u", i);
        ck_assert_msg(errno == kinds[i].error, "%u: errno %d", i, errno);
    }
}

static void remove_in_child(void *unused) {
    (void)unused;
    ck_assert_int_eq(rmdir(path), 0);
    expect_notes(kRLNoteDelete);
}

RL_TEST(a_child_hears_of_the_end_of_a_folder, "S-KEV-11 S-KEV-13",
        "In the child of fork, and in the parent, the removal of a folder by descriptor is reported") {
    make_folder();
    ck_assert_int_eq(mkdir(path, 0700), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    watch(fd, NULL, kRLNoteDelete);
    ChildResult result = run_child(remove_in_child, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    expect_notes(kRLNoteDelete);
    close(fd);
    remove_folder();
}

static void change_in_child(void *unused) {
    (void)unused;
    write_file(path, "child", 0);
    expect_notes(kRLNoteWrite);
    write_file(other, "new", O_CREAT);
    ck_assert_int_eq(rename(other, path), 0);
    expect_notes(kRLNoteReplace);
}

RL_TEST(a_child_reads_its_own_events, "S-KEV-11 S-FORK-1",
        "In the child of fork changes are reported, and the parent misses none for that") {
    make_folder();
    write_file(path, "one", O_CREAT);
    watch(0, path, kRLNoteWrite | kRLNoteReplace);
    ChildResult result = run_child(change_in_child, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    ck_assert(what_happened() & kRLNoteReplace);
    write_file(path, "two", 0);
    expect_notes(kRLNoteWrite);
    remove_folder();
}

static RLSourceRef watch_hanging(void) {
    RLKernelEvent event = {0, kRLKernelFilterVnode, 0, kRLNoteWrite, 0, other};
    return RLKernelEventSourceCreate(&event, note, NULL);
}
static void *make_hanging(void *unused) {
    (void)unused;
    return (void *)watch_hanging();
}
static void watch_in_child(void *unused) {
    (void)unused;
    write_file(path, "child", 0);
    expect_notes(kRLNoteWrite);
}

RL_TEST(a_file_system_that_does_not_answer_holds_up_the_maker_alone, "S-FORK-2 S-KEV-16",
        "While a source is made of a file on a file system that does not answer, fork and the sources of other files do not wait") {
    make_folder();
    write_file(path, "one", O_CREAT);
    write_file(other, "one", O_CREAT);
    watch(0, path, kRLNoteWrite);
    hanging = "other";
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, make_hanging, NULL), 0);
    wait_until_count(&lookers, 1);
    write_file(path, "two", 0);
    expect_notes(kRLNoteWrite);
    ChildResult result = run_child(watch_in_child, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    RLSourceRef source = watch(0, folder, kRLNoteWrite);
    ck_assert_ptr_nonnull(source);
    RLSourceInvalidate(source);
    gate_open(&answers);
    void *made;
    ck_assert_int_eq(pthread_join(thread, &made), 0);
    ck_assert_ptr_nonnull(made);
    RLRelease(made);
    what_happened();
    remove_folder();
}

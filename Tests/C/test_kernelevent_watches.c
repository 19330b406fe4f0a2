/* SPDX-License-Identifier: MIT */
/*
 * The one inotify instance behind all sources of files: many sources, sources that share a file,
 * loops that share the instance, what the kernel forgets, and the child of fork.
 */
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The library's calls of inotify_add_watch, of which those from a number on can be refused. */
static int watches_left = -1;
static int refusal = ENOSPC, refusals;
/* The end of a path that alone is refused; NULL: each. */
static const char *refused;
static void set_watches_left(int left) { __atomic_store_n(&watches_left, left, __ATOMIC_SEQ_CST); }
/* A name of a file that is removed just before it is watched. */
static const char *vanishing;
int inotify_add_watch(int fd, const char *path, uint32_t mask) {
    if (vanishing && strcmp(strrchr(path, '/'), strrchr(vanishing, '/')) == 0) {
        unlink(vanishing);
        vanishing = NULL;
    }
    const int left = refused && !strstr(path, refused) ? -1 : count_of(&watches_left);
    if (left == 0) {
        __atomic_add_fetch(&refusals, 1, __ATOMIC_SEQ_CST);
        errno = refusal;
        return -1;
    }
    if (left > 0) watches_left--;
    return (int)syscall(SYS_inotify_add_watch, fd, path, mask);
}

/* Whether each watch that ends leaves room for another. */
static bool has_limit;
int inotify_rm_watch(int fd, int wd) {
    if (has_limit) watches_left++;
    return (int)syscall(SYS_inotify_rm_watch, fd, wd);
}

static char folder[64];
/* A name in the folder. Each thread keeps its own. */
static const char *in_folder(const char *name) {
    static __thread char kept[8][128];
    char text[128];
    snprintf(text, sizeof text, "%s/%s", folder, name);
    int place = 0;
    while (kept[place][0] && strcmp(kept[place], text) != 0) place++;
    ck_assert_int_lt(place, 8);
    return strcpy(kept[place], text);
}
static const char *numbered(int number) {
    static __thread char text[128];
    snprintf(text, sizeof text, "%s/f%d", folder, number);
    return text;
}
static void make_folder(void) {
    strcpy(folder, "/tmp/runloop-watches-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}
static void remove_folder(void) {
    DIR *directory = opendir(folder);
    struct dirent *entry;
    while ((entry = readdir(directory))) unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    ck_assert_int_eq(rmdir(folder), 0);
}
static void write_file(const char *name, const char *text, int flags) {
    int fd = open(name, O_WRONLY | O_CLOEXEC | flags, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}
static void make_file(const char *name) { write_file(name, "x", O_CREAT); }
static void append(const char *name) { write_file(name, "x", O_APPEND); }

typedef struct File {
    uint32_t seen;
    int reports;
    RLSourceRef source;
} File;

static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source;
    File *file = info;
    __atomic_or_fetch(&file->seen, event->fflags, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&file->reports, 1, __ATOMIC_SEQ_CST);
}
/* By its path, or by a descriptor that is closed again. */
static RLSourceRef try_watch(File *file, const char *name, bool by_path, uint32_t fflags) {
    int fd = by_path ? 0 : open(name, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    RLKernelEvent event = {(uintptr_t)fd, kRLKernelFilterVnode, 0, fflags, 0, by_path ? name : NULL};
    RLKernelEventContext context = {.info = file};
    file->source = RLKernelEventSourceCreate(&event, note, &context);
    if (!by_path) close(fd);
    return file->source;
}
/* The loop has the only reference. */
static RLSourceRef watch_in(const char *mode, File *file, const char *name, bool by_path, uint32_t fflags) {
    ck_assert_msg(try_watch(file, name, by_path, fflags) != NULL, "%s: errno %d", name, errno);
    RLAddSource(RLGetCurrent(), file->source, mode);
    RLRelease(file->source);
    return file->source;
}
static RLSourceRef watch(File *file, const char *name, bool by_path, uint32_t fflags) {
    return watch_in(kRLDefaultMode, file, name, by_path, fflags);
}
static void run_all(const char *mode) {
    while (RLRunInMode(mode, 0, true) == kRLRunHandledSource) continue;
}
static uint32_t seen_by(File *file) {
    run_all(kRLDefaultMode);
    return __atomic_exchange_n(&file->seen, 0, __ATOMIC_SEQ_CST);
}
#define expect_seen(file, notes) ck_assert_uint_eq(seen_by(file), (uint32_t)(notes))

static File file, second, third;

/* Sharing */

RL_TEST(sources_of_one_file_hear_their_own, "S-KEV-13 S-KEV-16",
        "Several sources of one file report what each asked for, from when it was made, and go on "
        "when others end") {
    make_folder();
    const char *name = in_folder("a");
    make_file(name);
    watch(&file, name, false, kRLNoteDelete);
    watch(&second, name, true, kRLNoteWrite | kRLNoteDelete);
    append(name);
    watch(&third, name, false, kRLNoteWrite | kRLNoteCloseWrite | kRLNoteAttrib);
    run_all(kRLDefaultMode);
    expect_seen(&file, 0);
    expect_seen(&second, kRLNoteWrite);
    expect_seen(&third, 0);
    append(name);
    chmod(name, 0640);
    expect_seen(&file, 0);
    expect_seen(&second, kRLNoteWrite);
    expect_seen(&third, kRLNoteWrite | kRLNoteCloseWrite | kRLNoteAttrib);
    RLSourceInvalidate(second.source);
    append(name);
    expect_seen(&file, 0);
    expect_seen(&third, kRLNoteWrite | kRLNoteCloseWrite);
    RLSourceInvalidate(file.source);
    append(name);
    expect_seen(&third, kRLNoteWrite | kRLNoteCloseWrite);
    watch(&file, name, true, kRLNoteWrite);
    RLSourceInvalidate(third.source);
    append(name);
    expect_seen(&file, kRLNoteWrite);
    expect_seen(&third, 0);
    remove_folder();
}

RL_TEST(a_file_that_vanishes_is_missing, "S-KEV-14", "A file that is removed while its source is made is to the source as one that was missing before") {
    make_folder();
    const char *name = in_folder("a");
    make_file(name);
    vanishing = name;
    watch(&file, name, true, kRLNoteReplace);
    ck_assert_ptr_null(vanishing);
    make_file(name);
    expect_seen(&file, kRLNoteReplace);
    vanishing = name;
    ck_assert_ptr_null(try_watch(&second, name, true, kRLNoteWrite));
    ck_assert_int_eq(errno, ENOENT);
    remove_folder();
}

RL_TEST(a_link_to_its_own_folder, "S-KEV-14",
        "A name that is a symbolic link to the folder it is in: changes of the folder are writes, "
        "and when the name means another file the folder is still watched for the name") {
    make_folder();
    const char *name = in_folder("self");
    ck_assert_int_eq(symlink(".", name), 0);
    watch(&file, name, true, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete);
    make_file(in_folder("other"));
    expect_seen(&file, kRLNoteWrite);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(unlink(name), 0);
        ck_assert(seen_by(&file) & kRLNoteDelete);
        make_file(name);
        ck_assert(seen_by(&file) & kRLNoteReplace);
        append(name);
        expect_seen(&file, kRLNoteWrite);
        ck_assert_int_eq(unlink(name), 0);
        expect_seen(&file, kRLNoteDelete);
        ck_assert_int_eq(symlink(".", name), 0);
        ck_assert(seen_by(&file) & kRLNoteReplace);
        unlink(in_folder("other"));
        make_file(in_folder("other"));
        expect_seen(&file, kRLNoteWrite);
    }
    remove_folder();
}

RL_TEST(a_link_to_a_file_elsewhere, "S-KEV-14",
        "A name that is a symbolic link into another folder: that the file there is replaced, renamed or removed is reported, also "
        "while it is open; what happens to the former file afterwards is not") {
    make_folder();
    const char *name = in_folder("link");
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    make_file(in_folder("sub/a"));
    make_file(in_folder("sub/b"));
    ck_assert_int_eq(symlink("sub/a", name), 0);
    watch(&file, name, true, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete | kRLNoteRename);
    int former = open(name, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(rename(in_folder("sub/b"), in_folder("sub/a")), 0);
    expect_seen(&file, kRLNoteReplace);
    ck_assert_int_eq(write(former, "x", 1), 1);
    expect_seen(&file, 0);
    append(in_folder("sub/a"));
    expect_seen(&file, kRLNoteWrite);
    close(former);
    ck_assert_int_eq(chmod(name, 0640), 0);
    expect_seen(&file, 0);
    ck_assert_int_eq(rename(in_folder("sub/a"), in_folder("sub/b")), 0);
    expect_seen(&file, kRLNoteRename);
    append(in_folder("sub/b"));
    expect_seen(&file, 0);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(symlink("sub/b", name), 0);
    expect_seen(&file, kRLNoteReplace);
    former = open(name, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(unlink(in_folder("sub/b")), 0);
    expect_seen(&file, kRLNoteDelete);
    close(former);
    expect_seen(&file, 0);
    ck_assert_int_eq(rmdir(in_folder("sub")), 0);
    remove_folder();
}

/* Loops */

static int others_ready;
static void listen_elsewhere(LoopThread *self) {
    File *own = self->data;
    watch(own, in_folder("a"), true, kRLNoteWrite);
    /* In a mode that does not run: nothing of it ends this wait. */
    static __thread File idle;
    watch_in("idle", &idle, in_folder("a"), false, kRLNoteWrite);
    __atomic_add_fetch(&others_ready, 1, __ATOMIC_SEQ_CST);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run("idle", 60, true, HandledSource);
    ck_assert_int_ge(idle.reports, 1);
    ck_assert_int_eq(own->reports, 1);
}

static void append_when_waiting(void *unused) {
    (void)unused;
    append(in_folder("a"));
}

RL_TEST(loops_share_the_instance, "S-KEV-16",
        "Loops that sleep are all told of a change, and so are sources in modes that run later, "
        "whichever loop read the kernel's events; a loop in another mode sleeps on") {
    static LoopThread threads[2];
    static File files[2];
    make_folder();
    make_file(in_folder("a"));
    for (int i = 0; i < 2; i++) loop_thread_start(&threads[i], listen_elsewhere, &files[i]);
    wait_until_count(&others_ready, 2);
    for (int i = 0; i < 2; i++) wait_until_waiting(threads[i].loop);
    watch(&file, in_folder("a"), false, kRLNoteWrite);
    watch_in("mine", &second, in_folder("a"), true, kRLNoteWrite);
    keep_alive(RLGetCurrent(), "other");
    Thread *thread = when_waiting(RLGetCurrent(), append_when_waiting, NULL);
    expect_run("other", 0.2, true, TimedOut);
    thread_join(thread);
    for (int i = 0; i < 2; i++) thread_join(threads[i].thread);
    expect_run("mine", 60, true, HandledSource);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(file.reports, 1);
    ck_assert_int_eq(second.reports, 1);
    remove_folder();
}

RL_TEST(what_interests_nobody_is_no_pass, "S-KEV-13 S-PASS-16",
        "A change that no source of the mode asked for wakes no observer") {
    make_folder();
    make_file(in_folder("a"));
    watch(&file, in_folder("a"), true, kRLNoteDelete);
    observe(RLGetCurrent(), kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), append_when_waiting, NULL);
    expect_run(kRLDefaultMode, 0.2, true, TimedOut);
    thread_join(thread);
    expect_trace("E BT BS BW AW X");
    remove_folder();
}

static bool is_over;
static void churn(LoopThread *self) {
    (void)self;
    for (int i = 0; i < 300; i++) {
        File own = {0};
        bool by_path = i % 2;
        RLSourceRef source = watch(&own, in_folder("a"), by_path, kRLNoteWrite | kRLNoteAttrib);
        RLRetain(source);
        if (i % 3 == 0) RLRunInMode(kRLDefaultMode, 0.001, true);
        if (i % 5) RLSourceInvalidate(source);
        else RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
        RLRelease(source);
    }
}
static void keep_writing(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        append(in_folder("a"));
        chmod(in_folder("a"), 0600);
        sched_yield();
    }
}

RL_TEST(sources_come_and_go_in_many_loops, "S-KEV-16",
        "Loops make, run and end sources of one file while it keeps changing; one that stays is told "
        "in the end") {
    static LoopThread threads[3];
    make_folder();
    make_file(in_folder("a"));
    Thread *writer = thread_start(keep_writing, NULL);
    watch(&file, in_folder("a"), true, kRLNoteWrite);
    for (int i = 0; i < 3; i++) loop_thread_start(&threads[i], churn, NULL);
    for (int i = 0; i < 3; i++) thread_join(threads[i].thread);
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    thread_join(writer);
    run_all(kRLDefaultMode);
    file.seen = 0;
    append(in_folder("a"));
    expect_seen(&file, kRLNoteWrite);
    remove_folder();
}

/* What the kernel forgets */

static int event_limit(void) {
    static int limit = 0;
    FILE *setting = limit ? NULL : fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    if (setting) {
        ck_assert_int_eq(fscanf(setting, "%d", &limit), 1);
        fclose(setting);
    }
    return limit;
}
/* More events than the kernel keeps, that it cannot merge. */
static void overflow(void) {
    char names[2][128];
    for (int i = 0; i < 2; i++) strcpy(names[i], in_folder(i ? "noise" : "more noise"));
    make_file(names[0]);
    /* Two events each. */
    for (int i = 0; i < event_limit() / 2 + 1; i++)
        ck_assert_int_eq(rename(names[i % 2], names[(i + 1) % 2]), 0);
    unlink(names[0]);
    unlink(names[1]);
}

RL_TEST(a_name_is_followed_after_an_overflow, "S-KEV-14 S-KEV-17",
        "After the kernel forgot events, a file that took the place of another, though it has its "
        "inode, is reported, and watched from then on") {
    make_folder();
    const char *name = in_folder("a");
    make_file(name);
    watch(&file, name, true, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete | kRLNoteRename);
    for (int i = 0; i < 2; i++) {
        struct stat old, new = {0};
        ck_assert_int_eq(stat(name, &old), 0);
        overflow();
        /* Most file systems give the inode to the next file; it is the hard case, not the only one. */
        for (int tries = 0; tries < 50 && new.st_ino != old.st_ino; tries++) {
            unlink(name);
            make_file(name);
            ck_assert_int_eq(stat(name, &new), 0);
        }
        ck_assert(seen_by(&file) & kRLNoteReplace);
        append(name);
        expect_seen(&file, kRLNoteWrite);
    }
    overflow();
    ck_assert_int_eq(rename(name, in_folder("elsewhere")), 0);
    ck_assert(seen_by(&file) & kRLNoteRename);
    append(in_folder("elsewhere"));
    expect_seen(&file, 0);
    remove_folder();
}

RL_TEST(an_overflow_loses_nothing, "S-KEV-13 S-KEV-17",
        "After the kernel forgot events a source reports each happening it asked for that may have "
        "been; one whose file nobody touched reports at most that it may have been closed") {
    make_folder();
    const char *name = in_folder("a"), *still = in_folder("b");
    make_file(name);
    make_file(still);
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, still, old, 0);
    File noise = {0};
    watch(&noise, folder, false, kRLNoteWrite);
    watch(&file, name, false,
          kRLNoteWrite | kRLNoteCloseWrite | kRLNoteRename | kRLNoteDelete | kRLNoteLink);
    /* Its time of change becomes old, and then it is looked at. */
    struct timespec pause = {3, 100000000};
    nanosleep(&pause, NULL);
    watch(&second, still, false, kRLNoteWrite | kRLNoteAttrib | kRLNoteRename | kRLNoteLink);
    overflow();
    append(name);
    ck_assert_int_eq(rename(name, in_folder("c")), 0);
    uint32_t notes = seen_by(&file);
    ck_assert_uint_eq(notes & (kRLNoteWrite | kRLNoteCloseWrite | kRLNoteRename),
                      (uint32_t)(kRLNoteWrite | kRLNoteCloseWrite | kRLNoteRename));
    ck_assert_uint_eq(notes & (kRLNoteDelete | kRLNoteLink), 0);
    expect_seen(&second, 0);
    overflow();
    unlink(in_folder("c"));
    ck_assert(seen_by(&file) & kRLNoteDelete);
    expect_seen(&second, 0);
    append(still);
    expect_seen(&second, kRLNoteWrite);
    remove_folder();
}

RL_TEST(an_overflow_by_the_file_itself, "S-KEV-13 S-KEV-17",
        "A renaming and a closing after more events of the file itself than the kernel keeps are "
        "reported") {
    make_folder();
    const char *name = in_folder("a");
    make_file(name);
    watch(&file, name, false, kRLNoteWrite | kRLNoteCloseWrite | kRLNoteRename);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < event_limit(); i++) {
        ck_assert_int_eq(write(fd, "x", 1), 1);
        ck_assert_int_eq(fchmod(fd, 0600), 0);
    }
    close(fd);
    ck_assert_int_eq(rename(name, in_folder("b")), 0);
    expect_seen(&file, kRLNoteWrite | kRLNoteCloseWrite | kRLNoteRename);
    append(in_folder("b"));
    expect_seen(&file, kRLNoteWrite | kRLNoteCloseWrite);
    remove_folder();
}

/* Many */

static int make_sources(File *files, int count, bool by_path) {
    for (int i = 0; i < count; i++) {
        make_file(numbered(i));
        watch(&files[i], numbered(i), by_path, kRLNoteWrite);
    }
    return count;
}
static int heard(const File *files, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) sum += files[i].reports > 0;
    return sum;
}

RL_TEST(many_sources_have_one_instance, "S-KEV-16 S-KEV-10",
        "Hundreds of sources need one descriptor of inotify, beside one for each folder or file "
        "that is meant by descriptor, and give all back") {
    static File files[300];
    make_folder();
    RLGetCurrent();
    watch(&file, folder, true, kRLNoteWrite);
    RLSourceInvalidate(file.source);
    int before = count_descriptors();
    make_sources(files, 300, true);
    /* The instance has two numbers, the folder one, and the set by which the instance's are recognised. */
    ck_assert_int_le(count_descriptors(), before + 4);
    for (int i = 0; i < 300; i++) append(numbered(i));
    run_all(kRLDefaultMode);
    ck_assert_int_eq(heard(files, 300), 300);
    for (int i = 0; i < 300; i++) RLSourceInvalidate(files[i].source);
    ck_assert_int_le(count_descriptors(), before + 1);
    remove_folder();
}

static double seconds_used(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Seconds to make, tell and end sources, each of its own file or all of one, but not for the files. */
static double cost(int count, int files_count, bool by_path) {
    File *files = calloc((size_t)count, sizeof *files);
    double start = seconds_used();
    for (int i = 0; i < count; i++) watch(&files[i], numbered(i % files_count), by_path, kRLNoteWrite);
    for (int i = 0; i < files_count; i++) append(numbered(i));
    run_all(kRLDefaultMode);
    ck_assert_int_eq(heard(files, count), count);
    for (int i = 0; i < count; i++) RLSourceInvalidate(files[i].source);
    double used = seconds_used() - start;
    free(files);
    return used;
}
static void expect_linear(int count, bool of_one, bool by_path) {
    double small = 1e9, large = 1e9;
    for (int i = 0; i < 2; i++) {
        double used = cost(count, of_one ? 1 : count, by_path);
        if (used < small) small = used;
        used = cost(2 * count, of_one ? 1 : 2 * count, by_path);
        if (used < large) large = used;
    }
    /* Twice for what is linear, four times for what is quadratic. */
    ck_assert_msg(large < 3.2 * small, "%d sources took %g s, %d %g s", count, small, 2 * count, large);
}
static void allow_descriptors(rlim_t count) {
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < count) limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

RL_TEST(ten_thousand_sources, "S-KEV-16",
        "Twice as many sources, up to ten thousand, cost twice as much to make, tell and end: by "
        "path, by descriptor, and all of one file") {
    make_folder();
    allow_descriptors(12000);
    for (int i = 0; i < 10000; i++) make_file(numbered(i));
    expect_linear(5000, false, true);
    expect_linear(1000, false, false);
    expect_linear(1000, true, true);
    expect_linear(1000, true, false);
    remove_folder();
}

/* fork */

static File family[1000];
static int family_count;
static void all_hear(void *unused) {
    (void)unused;
    for (int i = 0; i < family_count; i++) append(numbered(i));
    run_all(kRLDefaultMode);
    ck_assert_int_eq(heard(family, family_count), family_count);
    for (int i = 0; i < family_count; i++) ck_assert(RLSourceIsValid(family[i].source));
}

static void all_hear_in_both(int count) {
    make_folder();
    allow_descriptors(4096);
    family_count = count;
    for (int i = 0; i < count; i++) {
        make_file(numbered(i));
        watch(&family[i], numbered(i), i % 2, kRLNoteWrite | (i % 2 ? kRLNoteReplace : 0));
    }
    ChildResult result = run_child(all_hear, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    all_hear(NULL);
    remove_folder();
}

RL_TEST(all_sources_go_on_in_the_child, "S-KEV-11",
        "Ninety sources of files all report in the child of fork, and in the parent") {
    all_hear_in_both(90);
}

RL_TEST(a_thousand_sources_go_on_in_the_child, "S-KEV-11",
        "A thousand sources of files all report in the child of fork, and in the parent") {
    all_hear_in_both(1000);
}

static void nothing_of_before(void *unused) {
    (void)unused;
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    append(in_folder("a"));
    expect_seen(&file, kRLNoteWrite);
}

RL_TEST(what_was_before_the_fork_is_the_parents, "S-KEV-11",
        "What happened and was not reported at the fork is reported in the parent alone, also where "
        "another loop had read it from the kernel") {
    make_folder();
    make_file(in_folder("a"));
    watch(&file, in_folder("a"), true, kRLNoteWrite | kRLNoteReplace);
    watch_in("other", &second, in_folder("a"), false, kRLNoteWrite);
    append(in_folder("a"));
    expect_run("other", 0, true, HandledSource);
    unlink(in_folder("a"));
    make_file(in_folder("a"));
    ChildResult result = run_child(nothing_of_before, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    ck_assert_uint_eq(seen_by(&file) & kRLNoteReplace, kRLNoteReplace);
    remove_folder();
}

/* Around the library's own handlers: prepare runs in reverse order of registration, child in order. */
static struct rlimit limit_before;
static bool takes_descriptors;
static int watches_in_child = -1;
static void before_fork(void) {
    getrlimit(RLIMIT_NOFILE, &limit_before);
    if (takes_descriptors) {
        struct rlimit none = {1, limit_before.rlim_max};
        setrlimit(RLIMIT_NOFILE, &none);
    }
    watches_left = watches_in_child;
}
static void after_fork(void) {
    setrlimit(RLIMIT_NOFILE, &limit_before);
    watches_left = -1;
}

static RLSourceRef kept[4];
static void invalid_in_child(void *expected) {
    int valid = 0;
    for (int i = 0; i < 4; i++) valid += RLSourceIsValid(kept[i]);
    ck_assert_int_eq(valid, *(int *)expected);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.01, true, TimedOut);
    /* What can be had again works. */
    File again = {0};
    watch(&again, in_folder("a"), true, kRLNoteWrite);
    append(in_folder("a"));
    run_all(kRLDefaultMode);
    ck_assert_uint_eq(again.seen, kRLNoteWrite);
}

static int lines_in(const char *text, const char *words) {
    int count = 0;
    while ((text = strstr(text, words))) {
        count++;
        text++;
    }
    return count;
}

static void expect_lost(int valid) {
    static File files[3];
    make_folder();
    make_file(in_folder("a"));
    watch(&files[0], in_folder("a"), true, kRLNoteWrite);
    watch(&files[1], in_folder("a"), false, kRLNoteWrite);
    watch(&files[2], in_folder("b"), true, kRLNoteReplace);
    RLKernelEvent event = {7, kRLKernelFilterTimer, 0, 0, 1000000, NULL};
    kept[3] = RLKernelEventSourceCreate(&event, NULL, NULL);
    for (int i = 0; i < 3; i++) RLRetain(kept[i] = files[i].source);
    pthread_atfork(before_fork, after_fork, after_fork);
    ChildResult result = run_child(invalid_in_child, &valid);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    ck_assert_msg(lines_in(result.output, "invalid") == 1, "%s", result.output);
    for (int i = 0; i < 4; i++) ck_assert(RLSourceIsValid(kept[i]));
    append(in_folder("a"));
    run_all(kRLDefaultMode);
    ck_assert_uint_eq(files[0].seen, kRLNoteWrite);
    ck_assert_uint_eq(files[1].seen, kRLNoteWrite);
    remove_folder();
}

RL_TEST(without_descriptors_the_child_has_invalid_sources, "S-KEV-11",
        "A source of a file or timer for which the child of fork gets no kernel object is invalid "
        "there, which is logged when a loop runs") {
    takes_descriptors = true;
    expect_lost(0);
}

RL_TEST(without_watches_the_child_has_invalid_sources, "S-KEV-11",
        "A source of a file for which the child of fork gets no watch is invalid there") {
    watches_in_child = 0;
    expect_lost(1);
}

RL_TEST(without_a_watch_no_source, "S-KEV-9",
        "A source for which the kernel has no room is refused with ENOSPC, or what else the kernel says, and leaves nothing behind") {
    make_folder();
    make_file(in_folder("a"));
    RLGetCurrent();
    int before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        bool by_path = i > 0;
        watches_left = i == 2;
        errno = 0;
        ck_assert_ptr_null(try_watch(&file, in_folder("a"), by_path, kRLNoteWrite));
        ck_assert_int_eq(errno, ENOSPC);
        watches_left = -1;
        ck_assert_int_eq(count_descriptors(), before);
    }
    /* The end of a folder is seen in the one it is in. */
    for (int i = 0; i < 2; i++) {
        refusal = i == 0 ? ENOSPC : ENOMEM;
        watches_left = 1;
        ck_assert_ptr_null(try_watch(&file, folder, false, kRLNoteDelete));
        ck_assert_int_eq(errno, refusal);
    }
    watches_left = -1;
    ck_assert_int_eq(count_descriptors(), before);
    watch(&file, in_folder("a"), true, kRLNoteWrite);
    append(in_folder("a"));
    expect_seen(&file, kRLNoteWrite);
    remove_folder();
}

RL_TEST(a_folder_in_one_that_cannot_be_read, "S-KEV-13", "The removal of a folder is not reported where the folder it is in may not be read, "
        "all else is; after a move into another one the removal is reported as well") {
    make_folder();
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    ck_assert_int_eq(mkdir(in_folder("new"), 0700), 0);
    refusal = EACCES;
    for (int moved = 0; moved < 2; moved++) {
        ck_assert_int_eq(mkdir(in_folder("sub/a"), 0700), 0);
        int fd = open(in_folder("sub/a"), O_RDONLY | O_CLOEXEC);
        watches_left = 1;
        watch(&file, in_folder("sub/a"), false, kRLNoteDelete | kRLNoteRename | kRLNoteAttrib);
        ck_assert_int_eq(watches_left, 0);
        ck_assert_int_eq(chmod(in_folder("sub/a"), 0750), 0);
        expect_seen(&file, kRLNoteAttrib);
        watches_left = -1;
        if (moved) {
            ck_assert_int_eq(rename(in_folder("sub/a"), in_folder("new/a")), 0);
            expect_seen(&file, kRLNoteRename);
        }
        ck_assert_int_eq(rmdir(in_folder(moved ? "new/a" : "sub/a")), 0);
        expect_seen(&file, moved ? kRLNoteDelete : 0);
        RLSourceInvalidate(file.source);
        close(fd);
    }
    ck_assert_int_eq(rmdir(in_folder("sub")), 0);
    ck_assert_int_eq(rmdir(in_folder("new")), 0);
    remove_folder();
}

RL_TEST(a_file_takes_over_the_last_watch, "S-KEV-14 S-KEV-16",
        "A file that takes the place of another, which lives on under another name, is watched also if the kernel has no room for one more watch") {
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    watch(&file, in_folder("a"), true, kRLNoteWrite | kRLNoteReplace);
    ck_assert_int_eq(link(in_folder("a"), in_folder("c")), 0);
    expect_seen(&file, 0);
    watches_left = 0;
    has_limit = true;
    ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
    expect_seen(&file, kRLNoteReplace);
    append(in_folder("a"));
    expect_seen(&file, kRLNoteWrite);
    watches_left = -1;
    has_limit = false;
    RLSourceInvalidate(file.source);
    remove_folder();
}

/* Runs until the file's source has reported one of the notes: nothing but the source's own tries ends the wait. */
static void run_until_seen(File *of, uint32_t notes) {
    while (!(__atomic_load_n(&of->seen, __ATOMIC_SEQ_CST) & notes)) expect_run(kRLDefaultMode, 60, true, HandledSource);
}

RL_TEST(a_file_without_room_is_watched_later, "S-KEV-19 S-KEV-14",
        "A file that took the place of another while the kernel had no room or memory for a watch is watched once there is, and what was done to it before is reported") {
    for (int written = 0; written < 4; written++) {
        refusal = written < 2 ? ENOSPC : ENOMEM;
        make_folder();
        make_file(in_folder("a"));
        make_file(in_folder("b"));
        watch(&file, in_folder("a"), true, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete);
        set_watches_left(0);
        ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
        expect_seen(&file, kRLNoteReplace);
        if (written % 2) append(in_folder("a"));
        set_watches_left(-1);
        run_until_seen(&file, kRLNoteWrite);
        ck_assert_uint_eq(file.seen, kRLNoteWrite);
        file.seen = 0;
        append(in_folder("a"));
        expect_seen(&file, kRLNoteWrite);
        RLSourceInvalidate(file.source);
        remove_folder();
    }
}

RL_TEST(a_file_without_room_is_the_same_file, "S-KEV-14 S-KEV-19", "What is done to a file that has no watch is no further Replace, also where its folder is watched by descriptor") {
    make_folder();
    static File of_folder;
    watch(&of_folder, folder, false, kRLNoteAttrib | kRLNoteCloseWrite);
    watch(&file, in_folder("a"), true, kRLNoteAttrib | kRLNoteReplace);
    set_watches_left(0);
    make_file(in_folder("a"));
    expect_seen(&file, kRLNoteReplace);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(chmod(in_folder("a"), i % 2 ? 0600 : 0640), 0);
        append(in_folder("a"));
        run_all(kRLDefaultMode);
        ck_assert_uint_eq(file.seen & kRLNoteReplace, 0);
    }
    set_watches_left(-1);
    run_until_seen(&file, kRLNoteAttrib);
    RLSourceInvalidate(of_folder.source);
    RLSourceInvalidate(file.source);
    remove_folder();
}

RL_TEST(a_file_without_room_is_followed, "S-KEV-19 S-KEV-14", "While a file is not watched for want of room, each further one that takes its place is reported, and its removal") {
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    watch(&file, in_folder("a"), true, kRLNoteWrite | kRLNoteReplace | kRLNoteDelete);
    set_watches_left(0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
        make_file(in_folder("b"));
        expect_seen(&file, kRLNoteReplace);
    }
    unlink(in_folder("a"));
    expect_seen(&file, kRLNoteDelete);
    set_watches_left(-1);
    make_file(in_folder("a"));
    expect_seen(&file, kRLNoteReplace);
    append(in_folder("a"));
    expect_seen(&file, kRLNoteWrite);
    remove_folder();
}

RL_TEST(tries_for_a_watch_are_no_pass, "S-KEV-19 S-PASS-16", "The tries to watch a file end no wait and wake no observer; there are some while the loop sleeps, but it does not spin") {
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    watch(&file, in_folder("a"), true, kRLNoteDelete);
    set_watches_left(0);
    ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
    expect_seen(&file, 0);
    const int before = refusals;
    observe(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.5, true, TimedOut);
    expect_trace("E BT BS BW AW X");
    ck_assert_int_ge(refusals, before + 1);
    ck_assert_int_le(refusals, before + 6);
    set_watches_left(-1);
    remove_folder();
}

RL_TEST(few_tries_for_a_watch, "S-KEV-19 S-KEV-16",
        "Ten times a second a file without room is tried again: neither an event of another file nor a source that is made is a reason for a try") {
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    make_file(in_folder("other"));
    watch(&file, in_folder("a"), true, kRLNoteReplace);
    watch(&second, in_folder("other"), true, kRLNoteWrite);
    refused = "/a";
    set_watches_left(0);
    ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
    expect_seen(&file, kRLNoteReplace);
    const int before = refusals;
    const double start = monotonic_now();
    for (int i = 0; i < 100; i++) {
        append(in_folder("other"));
        expect_seen(&second, kRLNoteWrite);
        RLSourceInvalidate(watch(&third, in_folder("other"), true, kRLNoteWrite));
    }
    ck_assert_int_le(refusals - before, (int)((monotonic_now() - start) * 10) + 1);
    /* The time of the next try comes when the source that waits for it is gone. */
    RLSourceInvalidate(file.source);
    set_watches_left(-1);
    append(in_folder("other"));
    expect_seen(&second, kRLNoteWrite);
    expect_run(kRLDefaultMode, 0.2, true, TimedOut);
    remove_folder();
}

RL_TEST(a_child_loses_sources_that_wait_for_a_watch, "S-KEV-11 S-KEV-19",
        "Sources of files that wait for a watch at a fork are invalid in the child where that gets none, which is logged once, and go on in the parent") {
    static File files[4];
    int valid = 0;
    make_folder();
    make_file(in_folder("a"));
    for (int i = 0; i < 4; i++) {
        make_file(numbered(i));
        RLRetain(kept[i] = watch(&files[i], numbered(i), true, kRLNoteWrite | kRLNoteReplace));
    }
    set_watches_left(0);
    /* One is watched. */
    for (int i = 0; i < 3; i++) {
        make_file(in_folder("new"));
        ck_assert_int_eq(rename(in_folder("new"), numbered(i)), 0);
        expect_seen(&files[i], kRLNoteReplace);
    }
    watches_in_child = 0;
    pthread_atfork(before_fork, after_fork, after_fork);
    ChildResult result = run_child(invalid_in_child, &valid);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    ck_assert_msg(lines_in(result.output, "invalid") == 1, "%s", result.output);
    for (int i = 0; i < 4; i++) {
        ck_assert(RLSourceIsValid(kept[i]));
        append(numbered(i));
        run_until_seen(&files[i], kRLNoteWrite);
    }
    remove_folder();
}

static void wait_for_room(LoopThread *self) {
    File *own = self->data;
    watch(own, in_folder("a"), true, kRLNoteWrite | kRLNoteReplace);
    __atomic_add_fetch(&others_ready, 1, __ATOMIC_SEQ_CST);
    run_until_seen(own, kRLNoteWrite);
}

RL_TEST(sleeping_loops_try_for_a_watch, "S-KEV-19 S-KEV-16", "Whichever loop read the kernel's events, a loop with a source of the file sleeps until the next try, and not for ever") {
    static LoopThread threads[2];
    static File files[2];
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    for (int i = 0; i < 2; i++) loop_thread_start(&threads[i], wait_for_room, &files[i]);
    wait_until_count(&others_ready, 2);
    for (int i = 0; i < 2; i++) wait_until_waiting(threads[i].loop);
    set_watches_left(0);
    ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
    wait_until_count(&refusals, 2);
    set_watches_left(-1);
    for (int i = 0; i < 2; i++) thread_join(threads[i].thread);
    remove_folder();
}

RL_TEST(a_moved_folder_without_room, "S-KEV-19 S-KEV-13",
        "The removal of a folder that was moved while the kernel had no room or memory for a watch is reported, whether it comes before there is or after") {
    make_folder();
    ck_assert_int_eq(mkdir(in_folder("sub"), 0700), 0);
    ck_assert_int_eq(mkdir(in_folder("new"), 0700), 0);
    for (int is_late = 0; is_late < 4; is_late++) {
        refusal = is_late < 2 ? ENOSPC : ENOMEM;
        ck_assert_int_eq(mkdir(in_folder("sub/a"), 0700), 0);
        watch(&file, in_folder("sub/a"), false, kRLNoteDelete | kRLNoteRename);
        set_watches_left(0);
        ck_assert_int_eq(rename(in_folder("sub/a"), in_folder("new/a")), 0);
        expect_seen(&file, kRLNoteRename);
        if (is_late % 2) {
            set_watches_left(1);
            while (watches_left > 0) expect_run(kRLDefaultMode, 0.02, true, TimedOut);
        }
        ck_assert_int_eq(rmdir(in_folder("new/a")), 0);
        run_until_seen(&file, kRLNoteDelete);
        ck_assert_uint_eq(file.seen, kRLNoteDelete);
        file.seen = 0;
        set_watches_left(-1);
        RLSourceInvalidate(file.source);
    }
    ck_assert_int_eq(rmdir(in_folder("sub")), 0);
    ck_assert_int_eq(rmdir(in_folder("new")), 0);
    remove_folder();
}

/* Under a limit of descriptors that is lower than the numbers of the library's. */
static void lower_limit(bool hard) {
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 60;
    if (hard) limit.rlim_max = 60;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
static int timer_reports;
static void count_timer(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    timer_reports++;
}
static void go_on_below_the_limit(void *unused) {
    (void)unused;
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, 60);
    append(in_folder("a"));
    run_until_seen(&file, kRLNoteWrite);
    run_until_seen(&second, kRLNoteWrite);
    timer_reports = 0;
    while (timer_reports < 2) expect_run(kRLDefaultMode, 60, true, HandledSource);
}
static void end_below_the_limit(void *unused) {
    (void)unused;
    ck_assert(!RLSourceIsValid(kept[0]));
    ck_assert(!RLSourceIsValid(kept[1]));
    ck_assert(!RLSourceIsValid(kept[2]));
}
static void lower_hard_limit(void *unused) {
    (void)unused;
    lower_limit(true);
    ChildResult result = run_child(end_below_the_limit, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
}

RL_TEST(a_lower_limit_does_not_end_sources, "S-KEV-11 S-FD-18",
        "Sources go on in the child of fork where the soft limit of descriptors was lowered below their numbers, and are invalid where the hard one was") {
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    make_folder();
    make_file(in_folder("a"));
    kept[0] = watch(&file, in_folder("a"), true, kRLNoteWrite);
    kept[1] = watch(&second, in_folder("a"), false, kRLNoteWrite);
    RLKernelEvent event = {7, kRLKernelFilterTimer, 0, 0, 1, NULL};
    kept[2] = RLKernelEventSourceCreate(&event, count_timer, NULL);
    RLAddSource(RLGetCurrent(), kept[2], kRLDefaultMode);
    for (int i = 0; i < 2; i++) RLRetain(kept[i]);
    lower_limit(false);
    ChildResult result = run_child(go_on_below_the_limit, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    result = run_child(lower_hard_limit, NULL);
    ck_assert_msg(result.status == 0, "the child ended with %#x: %s", result.status, result.output);
    remove_folder();
}

/* The library's numbers for its instance. */
static int instances(int numbers[8]) {
    int count = 0;
    for (int fd = 64; fd < 1024 && count < 8; fd++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = 0;
        if (strcmp(target, "anon_inode:inotify") == 0) numbers[count++] = fd;
    }
    return count;
}

RL_TEST(a_lost_instance_is_found_again, "S-FD-18 S-KEV-16",
        "Sources of files go on where the number of their instance was closed or given to another file, which is left alone; the "
        "log says so") {
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    log_capture();
    int before = count_descriptors();
    watch(&file, in_folder("a"), false, kRLNoteWrite);
    watch(&second, in_folder("b"), true, kRLNoteWrite);
    for (int i = 0; i < 4; i++) {
        int numbers[8], other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_gt(instances(numbers), 0);
        /* Each of the two numbers in turn. */
        int lost = i < 2 ? numbers[0] : numbers[instances(numbers) - 1];
        if (i % 2 == 0) close(lost);
        else ck_assert_int_eq(dup3(other, lost, O_CLOEXEC), lost);
        append(in_folder("a"));
        append(in_folder("b"));
        expect_seen(&file, kRLNoteWrite);
        expect_seen(&second, kRLNoteWrite);
        watch(&third, in_folder("b"), false, kRLNoteAttrib);
        chmod(in_folder("b"), i % 2 ? 0600 : 0640);
        expect_seen(&third, kRLNoteAttrib);
        RLSourceInvalidate(third.source);
        if (i % 2) {
            ck_assert_int_ge(fcntl(lost, F_GETFD), 0);
            close(lost);
        }
        close(other);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(log_count(), 1);
    RLSourceInvalidate(file.source);
    RLSourceInvalidate(second.source);
    int numbers[8];
    ck_assert_int_eq(instances(numbers), 0);
    /* The set of the mode, and its wake-up descriptor, are the loop's. */
    ck_assert_int_le(count_descriptors(), before + 2);
    remove_folder();
}

RL_TEST(without_an_instance_sources_are_invalid, "S-FD-18 S-KEV-11",
        "Where all numbers of the instance were lost, the sources of files become invalid when a loop looks, with a line in the "
        "log, and new ones can be made") {
    make_folder();
    make_file(in_folder("a"));
    log_capture();
    watch(&file, in_folder("a"), false, kRLNoteWrite);
    RLRetain(file.source);
    watch_in("other", &second, in_folder("a"), true, kRLNoteWrite);
    RLRetain(second.source);
    int numbers[8], count = instances(numbers);
    for (int i = 0; i < count; i++) close(numbers[i]);
    if (try_watch(&third, in_folder("a"), true, kRLNoteWrite)) ck_abort_msg("a source without an instance");
    RLRunInMode(kRLDefaultMode, 0, false);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert(!RLSourceIsValid(file.source));
    ck_assert(!RLSourceIsValid(second.source));
    ck_assert_int_eq(log_count(), 1);
    ck_assert(!RLContainsSource(RLGetCurrent(), second.source, "other"));
    RLRelease(file.source);
    RLRelease(second.source);
    watch(&third, in_folder("a"), true, kRLNoteWrite);
    append(in_folder("a"));
    expect_seen(&third, kRLNoteWrite);
    RLSourceInvalidate(third.source);
    remove_folder();
}

RL_TEST(an_instance_lost_with_all_numbers, "S-FD-18 S-KEV-11",
        "The same where the client closed every number of the library's, as programs do that become daemons") {
    make_folder();
    make_file(in_folder("a"));
    log_capture();
    watch(&file, in_folder("a"), false, kRLNoteWrite);
    RLRetain(file.source);
    RLRunInMode(kRLDefaultMode, 0, false);
    syscall(SYS_close_range, 64, ~0U, 0);
    for (int i = 0; i < 3; i++) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert(!RLSourceIsValid(file.source));
    RLRelease(file.source);
    watch(&third, in_folder("a"), true, kRLNoteWrite);
    append(in_folder("a"));
    expect_seen(&third, kRLNoteWrite);
    RLSourceInvalidate(third.source);
    remove_folder();
}

RL_TEST(a_name_that_cannot_be_looked_up_is_not_gone, "S-KEV-14",
        "While the folder may not be searched nothing is known of the name, and nothing is reported; when it can be looked up again "
        "the next thing that happens to the name tells") {
    if (geteuid() == 0) ck_assert_int_eq(seteuid(65534), 0);
    make_folder();
    make_file(in_folder("a"));
    make_file(in_folder("b"));
    watch(&file, in_folder("a"), true, kRLNoteDelete | kRLNoteRename | kRLNoteReplace | kRLNoteWrite);
    ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
    ck_assert_int_eq(chmod(folder, 0), 0);
    expect_seen(&file, 0);
    ck_assert_int_eq(chmod(folder, 0700), 0);
    make_file(in_folder("b"));
    ck_assert_int_eq(rename(in_folder("b"), in_folder("a")), 0);
    expect_seen(&file, kRLNoteReplace);
    append(in_folder("a"));
    expect_seen(&file, kRLNoteWrite);
    /* A link to itself is known to stand for no file. */
    ck_assert_int_eq(unlink(in_folder("a")), 0);
    ck_assert_int_eq(symlink(in_folder("a"), in_folder("a")), 0);
    expect_seen(&file, kRLNoteDelete);
    RLSourceInvalidate(file.source);
    remove_folder();
    /* The leak sanitizer looks at the process from another one, which may not trace a process that changed its user. */
    ck_assert_int_eq(seteuid(getuid()), 0);
    prctl(PR_SET_DUMPABLE, 1);
}

static void never_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    _exit(1);
}

/* What the client opens then has the numbers that the library had, and something to be read. */
static void lose_all_descriptors(void *argument) {
    enum { PAIRS = 60, FIRST = 3 };
    RLKernelEvent *event = argument;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    if (event->filter == kRLKernelFilterProcess) event->ident = (uintptr_t)child;
    RLSourceRef source = RLKernelEventSourceCreate(event, never_report, NULL);
    if (!source) _exit(2);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    syscall(SYS_close_range, FIRST, ~0U, 0);
    struct stat before[PAIRS * 2], now;
    for (int i = 0, ends[2]; i < PAIRS; i++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || write(ends[0], "word", 4) != 4 || write(ends[1], "word", 4) != 4) _exit(3);
    for (int i = 0; i < PAIRS * 2; i++) fstat(FIRST + i, &before[i]);
    for (int turn = 0; turn < 3; turn++) RLRunInMode(kRLDefaultMode, 0.01, false);
    RLSourceInvalidate(source);
    RLRelease(source);
    kill(child, SIGKILL);
    for (int i = 0; i < PAIRS * 2; i++) {
        char word[8];
        if (fstat(FIRST + i, &now) != 0 || now.st_ino != before[i].st_ino) _exit(4);
        if (recv(FIRST + i, word, sizeof word, MSG_DONTWAIT) != 4) _exit(5);
    }
    _exit(0);
}

RL_TEST(a_number_that_was_lost_is_the_client_s, "S-FD-18 S-KEV-10",
        "Nothing is read from what has taken the number of a kernel event source, nothing reported of it, and it is not closed") {
    RLKernelEvent events[] = {
        {.filter = kRLKernelFilterTimer, .ident = 1, .data = 1},
        {.filter = kRLKernelFilterProcess, .fflags = kRLNoteExit},
        {.filter = kRLKernelFilterVnode, .ident = STDERR_FILENO, .fflags = kRLNoteWrite},
        {.filter = kRLKernelFilterVnode, .path = "/dev/null", .fflags = kRLNoteAttrib},
    };
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        ChildResult result = run_child(lose_all_descriptors, &events[i]);
        ck_assert_msg(result.status == 0, "source %zu: status %#x, wrote: %s", i, result.status, result.output);
    }
}

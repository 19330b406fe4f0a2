/* SPDX-License-Identifier: MIT */
#include "support_descriptor.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void *count_retain(void *info) {
    Descriptor *descriptor = info;
    __atomic_add_fetch(&descriptor->retains, 1, __ATOMIC_SEQ_CST);
    return info;
}

static void count_release(void *info) {
    Descriptor *descriptor = info;
    __atomic_add_fetch(&descriptor->releases, 1, __ATOMIC_SEQ_CST);
}

static void report(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    Descriptor *descriptor = info;
    ck_assert_ptr_eq(file, descriptor->file);
    descriptor->thread = pthread_self();
    trace("%s:%s%s", descriptor->name, types & kRLFileDescriptorReadCallBack ? "r" : "",
          types & kRLFileDescriptorWriteCallBack ? "w" : "");
    if (descriptor->reads) read_byte(descriptor->fd);
    if (descriptor->again) RLFileDescriptorEnableCallBacks(file, descriptor->again);
    __atomic_add_fetch(&descriptor->calls, 1, __ATOMIC_SEQ_CST);
    if (descriptor->action) descriptor->action(descriptor);
}

void descriptor_make(Descriptor *descriptor, int fd, bool close_on_invalidate) {
    RLFileDescriptorContext context = {0, descriptor, count_retain, count_release, NULL};
    descriptor->fd = fd;
    descriptor->file = RLFileDescriptorCreate(fd, close_on_invalidate, report, &context);
    ck_assert_ptr_nonnull(descriptor->file);
}

void add_descriptor(Descriptor *descriptor, int fd, RLOptionFlags types) {
    descriptor_make(descriptor, fd, false);
    if (types) RLFileDescriptorEnableCallBacks(descriptor->file, types);
    descriptor->source = RLFileDescriptorCreateRunLoopSource(descriptor->file, 0);
    RLAddSource(RLGetCurrent(), descriptor->source, kRLDefaultMode);
    RLRelease(descriptor->source);
}

void make_pair(int ends[2]) {
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

void expect_quiet_run(double seconds) {
    Probe wait = {0};
    RLObserverRef observer = add_observer(&wait, kRLBeforeWaiting, kRLDefaultMode);
    expect_run(kRLDefaultMode, seconds, true, TimedOut);
    ck_assert_int_eq(wait.calls, 1);
    expect_trace("");
    RLObserverInvalidate(observer);
}

static bool is_library_descriptor(int fd, const char *kind) {
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return false;
    target[length] = 0;
    return strcmp(target, kind) == 0;
}

int library_descriptors(const char *kind, int fds[8]) {
    int count = 0;
    for (int fd = 64; fd < 1024; fd++) {
        if (is_library_descriptor(fd, kind) && count < 8) fds[count++] = fd;
    }
    return count;
}

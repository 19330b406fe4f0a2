/* SPDX-License-Identifier: MIT */
#include "support_descriptor.h"

#include <sys/socket.h>

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

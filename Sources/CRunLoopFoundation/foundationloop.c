/* SPDX-License-Identifier: MIT */
#include "foundationloop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* The contexts of CFRunLoop.h. */
struct source_context {
    long version;
    void *info;
    const void *(*retain)(const void *);
    void (*release)(const void *);
    void *(*copy_description)(const void *);
    unsigned char (*equal)(const void *, const void *);
    unsigned long (*hash)(const void *);
    int (*get_port)(void *);
    void (*perform)(void *);
};

struct observer_context {
    long version;
    void *info;
    const void *(*retain)(const void *);
    void (*release)(const void *);
    void *(*copy_description)(const void *);
};

extern unsigned char is_mode_empty(void *loop, void *mode) __asm__("_CFRunLoopFinished");
extern void *make_source(const void *allocator, long order, struct source_context *context) __asm__("CFRunLoopSourceCreate");
extern void *make_observer(
    const void *allocator, unsigned long stages, unsigned char repeats, long order,
    void (*call)(void *, unsigned long, void *), struct observer_context *context) __asm__("CFRunLoopObserverCreate");
extern void *make_string(const void *allocator, const char *text, uint32_t encoding) __asm__("CFStringCreateWithCString");
extern unsigned char get_text(void *string, char *buffer, long size, uint32_t encoding) __asm__("CFStringGetCString");
extern void *const default_mode __asm__("kCFRunLoopDefaultMode");
extern void *const common_modes __asm__("kCFRunLoopCommonModes");
extern long get_length(void *string) __asm__("CFStringGetLength");

static const uint32_t utf8 = 0x08000100;

bool rlf_is_mode_empty(void *loop, void *mode) { return is_mode_empty(loop, mode) != 0; }

void *rlf_make_mode(const char *name) {
    void *made = make_string(NULL, name, utf8);
    if (made == NULL) return NULL;
    /* Foundation knows these by their addresses. */
    void *known = rlf_equal(made, default_mode) ? default_mode : rlf_equal(made, common_modes) ? common_modes : NULL;
    if (known == NULL) return made;
    rlf_release(made);
    return rlf_retain(known);
}

char *rlf_copy_text(void *string) {
    /* No character takes more bytes for each of its 16-bit units. */
    long size = get_length(string) * 3 + 1;
    char *text = malloc((size_t)size);
    if (text != NULL && !get_text(string, text, size, utf8)) {
        free(text);
        return NULL;
    }
    return text;
}

void *rlf_make_observer(
    unsigned long stages, void (*call)(void *, unsigned long, void *), void *info,
    const void *(*retain)(const void *), void (*release)(const void *)) {
    struct observer_context context = {0, info, retain, release, NULL};
    /* After the others: what they do is served in the wait that they precede. */
    return make_observer(NULL, stages, 1, INT32_MAX, call, &context);
}

void *rlf_make_source(int (*get)(void *), void (*perform)(void *), void *info) {
    struct source_context context = {.version = 1, .info = info, .get_port = get, .perform = perform};
    return make_source(NULL, 0, &context);
}

/* With a number that a program which closes one twice does not hit (S-FD-18), where the limit allows it. */
static int duplicate(int descriptor) {
    int high = fcntl(descriptor, F_DUPFD_CLOEXEC, 64);
    return high >= 0 ? high : fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

static int get_probe(void *info) { return *(int *)info; }
static void do_nothing(void *info) { (void)info; }

/*
 * The set is the one that has a descriptor which Foundation was just asked to watch. The kernel is asked to change that
 * registration: where there is none it says so and changes nothing, so that other programs' sets are not touched.
 */
static int find_set_with(int probe) {
    struct rlimit limit;
    int highest = 1 << 20;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)highest) highest = (int)limit.rlim_cur;
    for (int candidate = 0; candidate < highest; candidate++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = probe};
        if (epoll_ctl(candidate, EPOLL_CTL_MOD, probe, &event) == 0) return candidate;
    }
    return -1;
}

int rlf_copy_port_set(void *loop, void *mode) {
    int probe = rlf_make_event();
    if (probe < 0) return -1;
    int copy = -1;
    void *source = rlf_make_source(get_probe, do_nothing, &probe);
    if (source != NULL) {
        rlf_add_source(loop, source, mode);
        int found = find_set_with(probe);
        if (found >= 0) copy = duplicate(found);
        rlf_invalidate_source(source);
        rlf_release(source);
    }
    close(probe);
    return copy;
}

void rlf_discard_events(int port_set, void *loop, void *mode) {
    struct epoll_event events[8];
    int count = epoll_wait(port_set, events, 8, 0);
    if (rlf_is_mode_empty(loop, mode)) return;
    /* Somebody has added something meanwhile: its event is told once more. */
    for (int index = 0; index < count; index++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = events[index].data};
        epoll_ctl(port_set, EPOLL_CTL_MOD, event.data.fd, &event);
    }
}

int rlf_make_event(void) {
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int high = made >= 0 ? duplicate(made) : -1;
    if (high < 0) return made;
    close(made);
    return high;
}

bool rlf_is_readable(int descriptor) {
    struct pollfd one = {.fd = descriptor, .events = POLLIN};
    int count;
    do count = poll(&one, 1, 0);
    while (count < 0 && errno == EINTR);
    return count > 0;
}

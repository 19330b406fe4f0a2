/* SPDX-License-Identifier: MIT */
/* What servers use: listening with options, queues, orderly ends, descriptors on the way, persistent callbacks; and what threads wait for. */
#define _GNU_SOURCE
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct side {
    int accepted, received, ended, written, lost, released, descriptor;
} near_side, far_side;

static void side_reports(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    struct side *side = info;
    (void)socket, (void)address;
    if (type == kRLSocketAcceptCallBack) {
        side->descriptor = *(const int *)data;
        add_one(&side->accepted);
    } else if (type == kRLSocketDataCallBack) {
        int length = (int)RLDataGetLength((RLDataRef)data);
        if (length == 0) add_one(&side->ended);
        side->received += length;
    } else if (type == kRLSocketWriteCallBack) {
        if (data) add_one(&side->lost);
        add_one(&side->written);
    }
}

static void release_side(const void *info) { add_one(&((struct side *)(uintptr_t)info)->released); }

static RLSocketRef add_native(int descriptor, RLOptionFlags types, struct side *side) {
    RLSocketContext context = {.info = side, .release = release_side};
    RLSocketRef socket = RLSocketCreateWithNative(descriptor, types, side_reports, &context);
    RLSourceRef source = RLSocketCreateRunLoopSource(socket, 0);
    if (!source) {
        refused("a socket");
        if (!RLSocketIsValid(socket)) close(descriptor);
        RLSocketInvalidate(socket);
        RLRelease(socket);
        return NULL;
    }
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    return socket;
}

static void end_socket(RLSocketRef socket) {
    if (!socket) return;
    RLSocketInvalidate(socket);
    RLRelease(socket);
}

static bool make_ends(int ends[2]) {
    memset(&near_side, 0, sizeof near_side);
    memset(&far_side, 0, sizeof far_side);
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
}

/* Far more than the kernel takes at once is queued, arrives, and is followed by the end of the stream. */
static void queues(void) {
    enum { LENGTH = 600000 };
    int ends[2];
    if (!make_ends(ends)) return;
    RLSocketRef sends = add_native(ends[0], kRLSocketWriteCallBack, &near_side);
    RLSocketRef receives = add_native(ends[1], kRLSocketDataCallBack, &far_side);
    char *bytes = calloc(1, LENGTH);
    if (sends && receives) {
        RLIndex queued = RLSocketWrite(sends, bytes, LENGTH, LENGTH);
        if (queued < 0) {
            refused("a write");
        } else {
            run_until(&near_side.written, 1, "the end of a queue");
            if (near_side.lost) refused("queued bytes");
            if (RLSocketClose(sends, kRLSocketCloseOrderly) != kRLSocketSuccess) refused("an orderly end");
            run_until(&far_side.ended, 1, "the end of a stream");
            if (far_side.received != LENGTH && !outcome.is_refused && !near_side.lost) refused("some bytes");
            run_until(&near_side.released, 1, "the release of what was closed orderly");
        }
    }
    free(bytes);
    end_socket(sends);
    end_socket(receives);
    if (sends && near_side.released != 1) lost("the one release of the sender");
    if (receives && far_side.released != 1) lost("the one release of the receiver");
}

static void listening(void) {
    memset(&near_side, 0, sizeof near_side);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    near_side.descriptor = -1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    RLSocketRef listens = add_native(listener, kRLSocketAcceptCallBack, &near_side);
    if (listens && RLSocketListen(listens, &address, size, kRLSocketReuseAddress | kRLSocketReusePort, 8) != kRLSocketSuccess) {
        refused("an address");
    } else if (listens) {
        if (RLSocketSetOptions(listens, kRLSocketNoDelay | kRLSocketKeepAlive, true) != kRLSocketSuccess) refused("an option");
        if (getsockname(listener, (struct sockaddr *)&address, &size) != 0) abort();
        if (connect(client, (struct sockaddr *)&address, size) != 0)
            lost("a listener");
        else
            run_until(&near_side.accepted, 1, "a connection");
    }
    if (near_side.descriptor >= 0) {
        RLSocketRef accepted = add_native(near_side.descriptor, kRLSocketDataCallBack, &far_side);
        if (accepted && RLSocketClose(accepted, kRLSocketCloseAbort) != kRLSocketSuccess) lost("an abort");
        end_socket(accepted);
    }
    close(client);
    end_socket(listens);
}

static void descriptors_on_the_way(void) {
    int ends[2], sent[2] = {-1, -1}, taken[4] = {-1, -1, -1, -1};
    if (!make_ends(ends) || pipe2(sent, O_CLOEXEC) != 0) return;
    RLSocketRef sends = add_native(ends[0], kRLSocketReadCallBack, &near_side);
    RLSocketRef receives = add_native(ends[1], kRLSocketReadCallBack, &far_side);
    if (sends && receives) {
        if (RLSocketSetOptions(receives, kRLSocketPassCredentials, true) != kRLSocketSuccess) refused("credentials");
        RLSocketAncillary ancillary = {.descriptors = taken, .room = 4};
        char byte;
        if (RLSocketSendDescriptors(sends, "x", 1, sent, 2) != 1)
            refused("two descriptors");
        else if (RLSocketReceive(receives, &byte, 1, &ancillary) != 1)
            refused("two descriptors there");
        else if (ancillary.count != 2 || (!ancillary.hasCredentials && !outcome.is_refused))
            lost("two descriptors or their sender");
        for (size_t i = 0; i < ancillary.count; i++) close(taken[i]);
        if (RLSocketSend(sends, NULL, 0, "abc", 3) != 3) refused("three bytes");
    }
    close(sent[0]);
    close(sent[1]);
    end_socket(sends);
    end_socket(receives);
}

static int persistent_reports;
static void report_persistent(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)types, (void)info;
    add_one(&persistent_reports);
    if (persistent_reports == 3) RLFileDescriptorDisableCallBacks(file, kRLFileDescriptorReadCallBack);
}

static void persistent_callbacks(void) {
    int ends[2];
    if (!make_ends(ends)) return;
    persistent_reports = 0;
    RLFileDescriptorRef file = RLFileDescriptorCreate(ends[0], true, report_persistent, NULL);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLFileDescriptorEnablePersistentCallBacks(file, kRLFileDescriptorReadCallBack);
    (void)!write(ends[1], "x", 1);
    run_until(&persistent_reports, 3, "persistent reports");
    RLFileDescriptorInvalidate(file);
    RLRelease(file);
    close(ends[1]);
}

/* ---- what threads wait for */

static RLCondition condition = RL_CONDITION_INIT;
static RLLock lock = RL_LOCK_INIT;
static RLReadWriteLock read_write = RL_READ_WRITE_LOCK_INIT;
static RLConditionLock numbered = RL_CONDITION_LOCK_INIT(0);
static RLSemaphore semaphore = RL_SEMAPHORE_INIT(0);
static int ready;

/* All with limits: a wake-up that fails for what is not so may be lost, and nothing else. */
#define LONG (PATIENCE * 2)

static void *use_all(void *unused) {
    if (RLLockLockForSeconds(&lock, LONG)) {
        if (RLReadWriteLockLockForWritingForSeconds(&read_write, LONG)) {
            sleep_briefly();
            RLReadWriteLockUnlock(&read_write);
        }
        RLLockUnlock(&lock);
    }
    if (RLConditionLockLockWhenConditionForSeconds(&numbered, 1, LONG)) RLConditionLockUnlockWithCondition(&numbered, 2);
    sleep_briefly();
    if (RLLockLockForSeconds(&condition.lock, LONG)) {
        ready = 1;
        RLConditionBroadcast(&condition);
        RLLockUnlock(&condition.lock);
    }
    RLSemaphoreSignal(&semaphore);
    return unused;
}

static void waits(void) {
    ready = 0;
    numbered.value = 0;
    pthread_t thread = start_thread(use_all, NULL);
    sleep_briefly();
    if (!RLLockInMode(&lock, NULL, LONG)) return lost("a lock that was given back");
    if (RLReadWriteLockLockForReadingForSeconds(&read_write, LONG))
        RLReadWriteLockUnlock(&read_write);
    else
        lost("a lock for reading");
    RLLockUnlock(&lock);
    if (RLConditionLockLockForSeconds(&numbered, LONG)) RLConditionLockUnlockWithCondition(&numbered, 1);
    if (RLConditionLockLockWhenConditionForSeconds(&numbered, 2, LONG))
        RLConditionLockUnlock(&numbered);
    else
        lost("a number");
    if (RLLockLockForSeconds(&condition.lock, LONG)) {
        bool is_in_time = true;
        while (!ready && is_in_time) is_in_time = RLConditionWaitInMode(&condition, NULL, LONG);
        if (!ready) lost("a broadcast");
        RLLockUnlock(&condition.lock);
    }
    if (!RLSemaphoreWaitForSeconds(&semaphore, LONG)) lost("a signal of a semaphore");
    join_thread(thread);
}

const Part server_parts[] = {
    {"queues", queues}, {"listening", listening}, {"descriptors-on-the-way", descriptors_on_the_way},
    {"persistent-callbacks", persistent_callbacks}, {"waits", waits}, {0},
};

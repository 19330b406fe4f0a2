/* SPDX-License-Identifier: MIT */
/*
 * libcurl: the transfers of a multi handle on a run loop, by its socket interface.
 *
 *   RLCurlRef transfers = RLCurlAttach(curl_multi_init(), RLGetCurrent(), kRLDefaultMode, done, info);
 *   curl_multi_add_handle(multi, easy);
 *
 * From then on easy handles are added and removed as libcurl's manual says; a transfer is cancelled
 * by curl_multi_remove_handle. While there is no transfer nothing is in the mode, so that RLRun
 * returns when all are done and nothing else is there.
 * If a server vanishes, or exceeds a limit such as CURLOPT_TIMEOUT_MS, the transfer ends with
 * libcurl's code. From one that sends without end a pass reads one portion.
 * libcurl's own callbacks (write, progress) may run the loop, also those that curl_easy_pause makes;
 * in that run no transfer goes on. They must not add or remove handles, which libcurl refuses; done may do all of that.
 * Rules: Docs/semantics.md, section 40.
 */
#ifndef RUNLOOP_ADAPTERS_LIBCURL_H
#define RUNLOOP_ADAPTERS_LIBCURL_H

#include "adapter.h"
#include <curl/curl.h>

RL_HEADER_BEGIN

/**
 * What is called when a transfer is over, on the loop's thread.
 *
 * easy: its handle, which has left the multi handle: it may be cleaned up, or added again.
 * result: CURLE_OK or the error. info: that of RLCurlAttach.
 * It may do anything: add and remove handles, detach, and run the loop. Since 0.2.
 */
typedef void (*RLCurlDone)(CURL *easy, CURLcode result, void * info);

/** A multi handle in a loop. */
typedef struct RLCurl *RLCurlRef;

struct RLCurl {
    RLAdapter_ adapter;
    CURLM *multi;
    RLCurlDone done;
    void *info;
    int reporting; /* calls of RLCurlWork_ that report, each in a run that `done` makes */
};

static inline int RLCurlTime_(CURLM *multi, long milliseconds, void *info);

/* Lets libcurl work for a socket, or for its timer, and reports the transfers that are over. */
static inline void RLCurlWork_(RLCurlRef self, RLAdapterFile_ *file, curl_socket_t fd, int what) {
    int left;
    long milliseconds;
    bool isArmed = false;
    CURLMsg *message;
    if (!RLAdapterEnter_(&self->adapter, file)) return;
    if (curl_multi_socket_action(self->multi, fd, what, &left) == CURLM_RECURSIVE_API_CALL) {
        /* A callback that a call of the program's made, such as curl_easy_pause, runs the loop. It is tried again, and all that was
           put off goes on, when libcurl next says what it waits for, or after a while: nobody tells the end of that call. */
        (void)RLAdapterEnter_(&self->adapter, file);
        self->adapter.isBusy = self->adapter.isDue = false;
        RLAdapterArm_(&self->adapter, 0.01);
        RLAdapterDrop_(&self->adapter);
        return;
    }
    self->adapter.uses++;
    RLAdapterLeave_(&self->adapter);
    while (!self->adapter.isEnded && (message = curl_multi_info_read(self->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        CURL *easy = message->easy_handle;
        CURLcode result = message->data.result;
        curl_multi_remove_handle(self->multi, easy);
        /* Nothing else tells a run that the program makes there of the other transfers that are over; but with polls of many they would be as deep
           in each other as there are. */
        if (left > 0 && self->reporting < 100) RLAdapterArm_(&self->adapter, 0), isArmed = true;
        self->reporting++;
        if (self->done) self->done(easy, result, self->info);
        self->reporting--;
    }
    if (isArmed && !self->adapter.isEnded && curl_multi_timeout(self->multi, &milliseconds) == CURLM_OK)
        (void)RLCurlTime_(self->multi, milliseconds, self);
    RLAdapterDrop_(&self->adapter);
}

static inline void RLCurlReady_(RLFileDescriptorRef object, RLOptionFlags types, void *info) {
    RLAdapterFile_ *file = (RLAdapterFile_ *)info;
    int what = types & kRLFileDescriptorReadCallBack ? CURL_CSELECT_IN : 0;
    if (types & kRLFileDescriptorWriteCallBack) what |= CURL_CSELECT_OUT;
    RLCurlWork_((RLCurlRef)file->owner, file, RLFileDescriptorGetNativeDescriptor(object), what);
}

static inline void RLCurlDue_(RLAdapter_ *adapter) { RLCurlWork_((RLCurlRef)adapter, NULL, CURL_SOCKET_TIMEOUT, 0); }

/* libcurl says what it waits for on a socket. */
static inline int RLCurlSocket_(CURL *easy, curl_socket_t fd, int what, void *info, void *known) {
    RLCurlRef self = (RLCurlRef)info;
    RLAdapterFile_ *file = (RLAdapterFile_ *)known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (file) RLAdapterUnwatch_(file);
        return 0;
    }
    if (!file) file = RLAdapterWatch_(&self->adapter, fd, RLCurlReady_);
    if (!file) return -1;
    curl_multi_assign(self->multi, fd, file);
    RLAdapterWant_(file, RLAdapterTypes_(what & CURL_POLL_IN, what & CURL_POLL_OUT));
    return 0;
}

/* libcurl says when it wants to be called next; -1: not at all. */
static inline int RLCurlTime_(CURLM *multi, long milliseconds, void *info) {
    RLCurlRef self = (RLCurlRef)info;
    (void)multi;
    if (self->adapter.hasPutOff && !self->adapter.isBusy) milliseconds = 0; /* libcurl says it again then */
    if (milliseconds < 0) RLAdapterDisarm_(&self->adapter);
    else RLAdapterArm_(&self->adapter, (double)milliseconds / 1000);
    return 0;
}

/**
 * Puts the transfers of a multi handle into a mode of a loop.
 *
 * multi: one without transfers, whose socket and timer functions become the adapter's. NULL, or one
 *     that is attached already: NULL is returned. loop, mode: NULL: the same. done, info: see RLCurlDone; done may be NULL.
 * Returns: what RLCurlDetach takes; NULL if there is no memory.
 * Threads: the loop's own, which alone may call libcurl for this handle.
 * Ownership: the multi and easy handles stay the program's; the result is freed by RLCurlDetach.
 * Reentrancy: call-outs too; calls no call-out. Since 0.2.
 */
static inline RLCurlRef RLCurlAttach(CURLM *multi, RLRunLoopRef loop, RLMode mode, RLCurlDone done, void *info) {
    RLCurlRef self = multi ? (RLCurlRef)RLAdapterCreate_(sizeof *self, loop, mode, RLCurlDue_, multi) : NULL;
    if (!self) return NULL;
    self->multi = multi, self->done = done, self->info = info, self->adapter.measures = true;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, RLCurlSocket_);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, self);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, RLCurlTime_);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, self);
    return self;
}

/**
 * Takes a multi handle out of its loop.
 *
 * self: NULL does nothing. Transfers that are not over stop where they are, and done is not called
 *     for them: remove them next, or clean the multi handle up.
 * Threads: the loop's own. Call it before curl_multi_cleanup.
 * Reentrancy: call-outs too, done included, but not libcurl's callbacks; calls no call-out. Since 0.2.
 */
static inline void RLCurlDetach(RLCurlRef self) {
    if (!self) return;
    curl_multi_setopt(self->multi, CURLMOPT_SOCKETFUNCTION, (curl_socket_callback)NULL);
    curl_multi_setopt(self->multi, CURLMOPT_TIMERFUNCTION, (curl_multi_timer_callback)NULL);
    RLAdapterEnd_(&self->adapter);
}

RL_HEADER_END
#endif

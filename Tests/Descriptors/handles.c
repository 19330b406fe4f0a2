/* SPDX-License-Identifier: MIT */
#include "handles.h"

#include <string.h>
#include <sys/socket.h>

#include "contexts.h"
#include "model.h"
#include "outcome.h"
#include "telling.h"

static struct {
    RLFileDescriptorRef descriptor;
    RLSocketRef socket;
    RLSourceRef source;
    bool is_let_go; /* no reference is left, and the rules say how long they are good */
} handles[MAX_OBJECTS];

static int number_of(int index) { return FIRST_NUMBER + objects[index].what->number; }

static void descriptor_called(RLFileDescriptorRef descriptor, RLOptionFlags types, void *info) {
    (void)descriptor;
    if (callback_begins(context_index(info), context_generation(info), (int)types)) callback_acts(context_index(info));
    callback_ends(context_index(info), context_generation(info), (int)types);
}

static void port_called(void *info) {
    if (callback_begins(context_index(info), context_generation(info), READ)) callback_acts(context_index(info));
    callback_ends(context_index(info), context_generation(info), READ);
}

static void socket_called(RLSocketRef socket, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)socket;
    int index = context_index(info), types = type == kRLSocketWriteCallBack ? WRITE : type == kRLSocketConnectCallBack ? CONNECT : READ;
    bool is_told = callback_begins(index, context_generation(info), types);
    bool ends = type == kRLSocketDataCallBack && RLDataGetLength((RLDataRef)data) == 0 &&
                file_is_at_end(objects[index].what->number);
    if (is_told) {
        if (type == kRLSocketAcceptCallBack) told_connection(index, *(const int *)data, address);
        if (type == kRLSocketConnectCallBack) told_connect(index, data);
        if (type == kRLSocketDataCallBack) told_data(index, (RLDataRef)data);
        callback_acts(index);
    }
    /* S-SOCK-26: the end of a stream, after which the socket is invalid. */
    if (ends) socket_has_ended(context_index(info), context_generation(info));
    callback_ends(context_index(info), context_generation(info), types);
}

static RLPort port_number(void *info) { return number_of(context_index(info)); }

static void fail_to_release(const void *info) {
    (void)info;
    disagree("the context of a socket that is not made is released");
}

/* The socket that the number has; -1: none. */
static int other_socket(int index) {
    for (int i = 0; i < object_count; i++)
        if (i != index && handles[i].socket && objects[i].what->number == objects[index].what->number && handle_is_valid(i)) return i;
    return -1;
}

/* S-SOCK-2: the object is that one, and the context is not used. */
static void make_again(int index, int other) {
    RLSocketContext context = {.info = &handles[index], .release = fail_to_release};
    if (objects[other].is_stale || objects[other].is_closing) return;
    RLSocketRef again = RLSocketCreateWithNative(number_of(index), kRLSocketWriteCallBack, NULL, &context);
    if (again != handles[other].socket) disagree("object %d has another one beside it on its number (S-SOCK-2)", other);
    RLRelease(again);
}

static void descriptor_released(void *info) { context_release(info); }

bool handle_make(int index, int generation) {
    const struct object_definition *what = objects[index].what;
    if (what->kind == DESCRIPTOR) {
        void *info = context_make(index, generation);
        RLFileDescriptorContext context = {.info = info, .release = descriptor_released};
        handles[index].descriptor = RLFileDescriptorCreate(number_of(index), what->owns, descriptor_called, &context);
    } else if (what->kind == PORT) {
        void *info = context_make(index, generation);
        RLSourceContext1 context = {.version = 1, .info = info, .release = context_release, .getPort = port_number, .perform = port_called};
        handles[index].source = RLSourceCreate(what->order, (RLSourceContext *)&context);
    } else {
        const struct file *file = file_of(what->number);
        int other = other_socket(index);
        if (other >= 0) make_again(index, other);
        if (other >= 0) return false;
        /* Data is received, which only sockets do. */
        if (what->kind == SOCKET_DATA && (!file || !file_is_socket(file))) return false;
        /* The others have no connections to accept: the library would try again and again (S-SOCK-28). */
        if (what->kind == SOCKET_ACCEPT && (!file || !file->listener)) return false;
        void *info = context_make(index, generation);
        RLSocketContext context = {.info = info, .release = context_release};
        RLOptionFlags types = what->kind == SOCKET_READ ? kRLSocketReadCallBack : what->kind == SOCKET_DATA ? kRLSocketDataCallBack
            : what->kind == SOCKET_ACCEPT ? kRLSocketAcceptCallBack : 0;
        if (what->connects) types |= kRLSocketConnectCallBack;
        if (what->writes) types |= kRLSocketWriteCallBack;
        handles[index].socket = RLSocketCreateWithNative(number_of(index), types, socket_called, &context);
        /* S-SOCK-2: one whose end the other thread has reported may not be invalid yet. */
        RLSocketContext taken = {.version = 0};
        RLSocketGetContext(handles[index].socket, &taken);
        if (taken.info != info) {
            if (!model_sleeps) disagree("object %d: another socket is made for its number", index);
            context_unmake(index, generation);
            handle_release(index);
            return false;
        }
        handle_set_flags(index, READ);
    }
    return true;
}

static RLSourceRef source_of(int index) {
    const struct object_definition *what = objects[index].what;
    RLSourceRef *source = &handles[index].source;
    if (*source && !RLSourceIsValid(*source) && what->kind != PORT) {
        if (!handles[index].is_let_go) RLRelease(*source);
        *source = NULL;
    }
    if (!*source && handles[index].descriptor) *source = RLFileDescriptorCreateRunLoopSource(handles[index].descriptor, what->order);
    if (!*source && handles[index].socket) {
        *source = RLSocketCreateRunLoopSource(handles[index].socket, what->order);
        if (handles[index].is_let_go) RLRelease(*source);
    }
    return *source;
}

void handle_add(int index, RLRunLoopRef loop, RLMode mode) { RLAddSource(loop, source_of(index), mode); }
void handle_remove(int index, RLRunLoopRef loop, RLMode mode) {
    if (handles[index].source) RLRemoveSource(loop, handles[index].source, mode);
}

void handle_invalidate(int index) {
    if (handles[index].descriptor) RLFileDescriptorInvalidate(handles[index].descriptor);
    else if (handles[index].socket) RLSocketInvalidate(handles[index].socket);
    else RLSourceInvalidate(handles[index].source);
}
void handle_invalidate_source(int index) {
    if (handles[index].source) RLSourceInvalidate(handles[index].source);
}

static RLOptionFlags socket_types(int index, int types) {
    RLOptionFlags kinds = types & WRITE ? kRLSocketWriteCallBack : 0;
    enum object_kind kind = objects[index].what->kind;
    if (types & CONNECT) kinds |= kRLSocketConnectCallBack;
    if (types & READ) kinds |= kind == SOCKET_DATA ? kRLSocketDataCallBack : kind == SOCKET_ACCEPT ? kRLSocketAcceptCallBack : kRLSocketReadCallBack;
    return kinds;
}

void handle_enable(int index, int types, bool persistently) {
    if (handles[index].socket) RLSocketEnableCallBacks(handles[index].socket, socket_types(index, types));
    if (!handles[index].descriptor) return;
    if (persistently) RLFileDescriptorEnablePersistentCallBacks(handles[index].descriptor, (RLOptionFlags)types);
    else RLFileDescriptorEnableCallBacks(handles[index].descriptor, (RLOptionFlags)types);
}
void handle_disable(int index, int types) {
    if (handles[index].socket) RLSocketDisableCallBacks(handles[index].socket, socket_types(index, types));
    if (handles[index].descriptor) RLFileDescriptorDisableCallBacks(handles[index].descriptor, (RLOptionFlags)types);
}

void handle_set_flags(int index, int flags) {
    if (handles[index].socket)
        RLSocketSetSocketFlags(handles[index].socket, socket_types(index, flags & (READ | WRITE)) |
                                                          (objects[index].what->leaves_errors ? kRLSocketLeaveErrors : 0) |
                                                          (objects[index].what->owns ? kRLSocketCloseOnInvalidate : 0));
}

long handle_send(int index, const char *bytes, int count) {
    return handles[index].socket ? RLSocketSend(handles[index].socket, NULL, 0, bytes, (size_t)count) : -1;
}

long handle_write(int index, const char *bytes, int count) {
    return handles[index].socket ? RLSocketWrite(handles[index].socket, bytes, (size_t)count, HIGH_WATER) : -1;
}

long handle_queued(int index) { return handle_write(index, NULL, 0); }

void handle_end(int index, int how) { RLSocketClose(handles[index].socket, (RLSocketCloseType)how); }

bool handle_send_data(int index, const char *byte) {
    return RLSocketSendData(handles[index].socket, NULL, 0, byte, 1, 0.001) == kRLSocketSuccess;
}

RLSocketError handle_connect(int index, enum target target, bool waits) {
    const struct file *file = file_of(objects[index].what->number);
    const struct address *to = connection_target(file->kind == LOCAL_UNCONNECTED, target);
    return RLSocketConnectToAddress(handles[index].socket, &to->bytes, to->length, waits ? 0.02 : -1);
}

bool handle_is_valid(int index) {
    if (handles[index].is_let_go && (!objects[index].is_valid || context_is_released(index, objects[index].generation))) return false;
    if (handles[index].descriptor) return RLFileDescriptorIsValid(handles[index].descriptor);
    if (handles[index].socket) return RLSocketIsValid(handles[index].socket);
    return handles[index].source && RLSourceIsValid(handles[index].source);
}
bool handle_has_source(int index) { return handles[index].source && RLSourceIsValid(handles[index].source); }

static void release(int index) {
    if (handles[index].source) RLRelease(handles[index].source);
    if (handles[index].socket) RLRelease(handles[index].socket);
    if (handles[index].descriptor) RLRelease(handles[index].descriptor);
}

void handle_let_go(int index) {
    handles[index].is_let_go = true;
    release(index);
}

void handle_release(int index) {
    if (!handles[index].is_let_go) release(index);
    memset(&handles[index], 0, sizeof handles[index]);
}

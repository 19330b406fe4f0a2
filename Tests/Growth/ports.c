/* SPDX-License-Identifier: MIT */
/* What has descriptors: fewer of them, because a process may have few. */
#include "growth.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEAR 40

static int ends[KEPT][2];

static void open_ends(long n) {
    for (long i = 0; i < n; i++) require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) == 0, "a pair of sockets");
}

static void close_ends(long n) {
    for (long i = 0; i < n; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
}

static void descriptor_ready(RLFileDescriptorRef descriptor, RLOptionFlags types, void *info) {
    (void)types;
    (void)info;
    char byte;
    require(read(RLFileDescriptorGetNativeDescriptor(descriptor), &byte, 1) == 1, "a byte");
    calls++;
}

EACH_OF_FEW(descriptor_life, DEAR) {
    open_ends(n);
    counted();
    for (long i = 0; i < n; i++) {
        RLFileDescriptorRef descriptor = RLFileDescriptorCreate(ends[i][0], false, descriptor_ready, NULL);
        kept[i] = descriptor;
        RLFileDescriptorEnableCallBacks(descriptor, kRLFileDescriptorReadCallBack);
        RLSourceRef source = RLFileDescriptorCreateRunLoopSource(descriptor, 0);
        RLAddSource(own, source, kRLCommonModes);
        RLRelease(source);
    }
    for (long i = 0; i < n; i++) {
        require(write(ends[i][1], "x", 1) == 1, "a byte");
        RLRunInMode(kRLDefaultMode, 0, true);
    }
    require(calls == n, "reports");
    for (long i = 0; i < n; i++) RLFileDescriptorInvalidate((RLFileDescriptorRef)kept[i]);
    counted_end();
    release_kept(n);
    close_ends(n);
}

static void socket_ready(RLSocketRef s, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)s;
    (void)type;
    (void)address;
    (void)data;
    (void)info;
    calls++;
}

EACH_OF_FEW(socket_life, DEAR) {
    open_ends(n);
    counted();
    for (long i = 0; i < n; i++) {
        RLSocketRef s = RLSocketCreateWithNative(ends[i][0], kRLSocketDataCallBack, socket_ready, NULL);
        kept[i] = s;
        RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
        RLAddSource(own, source, kRLDefaultMode);
        RLRelease(source);
    }
    for (long i = 0; i < n; i++) {
        require(write(ends[i][1], "x", 1) == 1, "a byte");
        RLRunInMode(kRLDefaultMode, 0, true);
    }
    require(calls == n, "reports");
    for (long i = 0; i < n; i++) RLSocketInvalidate((RLSocketRef)kept[i]);
    counted_end();
    release_kept(n);
    for (long i = 0; i < n; i++) close(ends[i][1]);
}

static void message(RLMachPortRef port, const RLMachMessage *msg, void *info) {
    (void)port;
    (void)msg;
    (void)info;
    calls++;
}

EACH_OF(mach_port_life) {
    counted();
    for (long i = 0; i < n; i++) {
        RLMachPortRef port = RLMachPortCreate(message, NULL, NULL);
        kept[i] = port;
        RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
        RLAddSource(own, source, kRLCommonModes);
        RLRelease(source);
    }
    for (long i = 0; i < n; i++) RLMachPortSend((RLMachPortRef)kept[i * 7919 % n], 1, NULL, 0, NULL, 0);
    while (calls < n) RLRunInMode(kRLDefaultMode, 0, true);
    for (long i = 0; i < n; i++) RLMachPortInvalidate((RLMachPortRef)kept[i]);
    counted_end();
    release_kept(n);
}

EACH_OF(mach_port_queue) {
    RLMachPortRef port = RLMachPortCreate(message, NULL, NULL);
    RLMachPortSetQueueLimit(port, n);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLAddSource(own, source, kRLDefaultMode);
    counted();
    for (long i = 0; i < n; i++) require(RLMachPortSend(port, 1, "text", 4, NULL, 0) == 0, "room");
    while (calls < n) RLRunInMode(kRLDefaultMode, 0, true);
    counted_end();
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}

static RLDataRef reply(RLMessagePortRef local, int32_t msgid, RLDataRef data, void *info) {
    (void)local;
    (void)msgid;
    (void)data;
    (void)info;
    calls++;
    return NULL;
}

EACH_OF_FEW(message_port_life, 80) {
    char name[64];
    counted();
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "growth.%d.%ld", (int)getpid(), i);
        RLMessagePortRef local = RLMessagePortCreateLocal(name, reply, NULL, NULL);
        require(local != NULL, "a port");
        kept[i] = local;
        RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
        RLAddSource(own, source, kRLDefaultMode);
        RLRelease(source);
    }
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "growth.%d.%ld", (int)getpid(), i);
        RLMessagePortRef remote = RLMessagePortCreateRemote(name);
        require(remote != NULL, "a remote port");
        RLMessagePortSendRequest(remote, 1, NULL, 0, 10, 0, NULL, NULL);
        RLRunInMode(kRLDefaultMode, 0, true);
        RLRelease(remote);
    }
    while (calls < n) RLRunInMode(kRLDefaultMode, 1, true);
    for (long i = 0; i < n; i++) RLMessagePortInvalidate((RLMessagePortRef)kept[i]);
    counted_end();
    release_kept(n);
}

static pthread_mutex_t are_ended = PTHREAD_MUTEX_INITIALIZER;
static sem_t told;

static void peer_ended(RLMessagePortRef port, void *info) {
    (void)port;
    (void)info;
    /* The first one waits here for the ends of the others. */
    pthread_mutex_lock(&are_ended);
    pthread_mutex_unlock(&are_ended);
    sem_post(&told);
}

/* Peers that end at once, beside as many that live on. */
EACH_OF_FEW(message_ports_end, 40) {
    char name[64];
    RLMessagePortRef *remotes = malloc(sizeof(RLMessagePortRef) * (size_t)(2 * n));
    for (long i = 0; i < 2 * n; i++) {
        snprintf(name, sizeof name, "growth.%d.%ld", (int)getpid(), i);
        kept[i] = RLMessagePortCreateLocal(name, reply, NULL, NULL);
        remotes[i] = RLMessagePortCreateRemote(name);
        require(remotes[i] != NULL, "a remote port");
        RLMessagePortSetInvalidationCallBack(remotes[i], peer_ended);
    }
    sem_init(&told, 0, 0);
    pthread_mutex_lock(&are_ended);
    for (long i = n; i < 2 * n; i++) RLMessagePortInvalidate((RLMessagePortRef)kept[i]);
    counted();
    pthread_mutex_unlock(&are_ended);
    for (long i = 0; i < n; i++) sem_wait(&told);
    counted_end();
    for (long i = 0; i < n; i++) RLMessagePortInvalidate((RLMessagePortRef)kept[i]);
    for (long i = 0; i < n; i++) sem_wait(&told);
    for (long i = 0; i < 2 * n; i++) RLRelease(remotes[i]);
    free(remotes);
    release_kept(2 * n);
}

BESIDE_IDLE_FEW(message_ports_by_name, 80) {
    char name[160], other[160];
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "growth.%d.%0100ld", (int)getpid(), i);
        kept[i] = RLMessagePortCreateLocal(name, reply, NULL, NULL);
        require(kept[i] != NULL, "a port");
    }
    snprintf(other, sizeof other, "growth.%d.%0100d", (int)getpid(), -1);
    counted();
    for (int i = 0; i < 20; i++) {
        RLMessagePortRef local = RLMessagePortCreateLocal(other, reply, NULL, NULL);
        require(local != NULL && RLMessagePortSetName(local, "growth") && RLMessagePortSetName(local, other), "names");
        RLRelease(local);
    }
    counted_end();
    require(RLMessagePortCreateLocal(name, reply, NULL, NULL) == kept[n - 1], "the port that there is");
    RLRelease(kept[n - 1]);
    release_kept(n);
}

/* Where the socket of the only port in a directory of the case's own is. */
static struct sockaddr_un address_in(const char *directory) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[80];
    snprintf(path, sizeof path, "%s/runloop", directory);
    DIR *files = opendir(path);
    require(files != NULL, "the directory of names");
    for (struct dirent *file = readdir(files); file != NULL; file = readdir(files))
        if (strstr(file->d_name, ".port") != NULL) snprintf(address.sun_path, sizeof address.sun_path, "%.40s/%.60s", path, file->d_name);
    closedir(files);
    return address;
}

/* Peers that connect to a port, while others are connected and say nothing. */
BESIDE_IDLE_FEW(message_port_connections, 20) {
    enum { COUNTED = 20 };
    char directory[] = "/tmp/growth-XXXXXX", path[80];
    require(mkdtemp(directory) != NULL, "a directory");
    setenv("XDG_RUNTIME_DIR", directory, 1);
    RLMessagePortRef local = RLMessagePortCreateLocal("growth", reply, NULL, NULL);
    require(local != NULL, "a port");
    RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(own, source, kRLDefaultMode);
    RLRelease(source);
    struct sockaddr_un address = address_in(directory);
    int *peers = malloc(sizeof(int) * (size_t)(n + COUNTED));
    for (long i = 0; i < n + COUNTED; i++) {
        peers[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (i >= n) continue;
        require(connect(peers[i], (struct sockaddr *)&address, sizeof address) == 0, "a connection");
        RLRunInMode(kRLDefaultMode, 0, true);
    }
    counted();
    for (long i = n; i < n + COUNTED; i++) {
        require(connect(peers[i], (struct sockaddr *)&address, sizeof address) == 0, "a connection");
        RLRunInMode(kRLDefaultMode, 0, true);
    }
    counted_end();
    for (long i = 0; i < n + COUNTED; i++) close(peers[i]);
    free(peers);
    RLMessagePortInvalidate(local);
    RLRelease(local);
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(path, sizeof path, "%s/runloop", directory);
    rmdir(path);
    rmdir(directory);
}

static void event(RLSourceRef source, const RLKernelEvent *report, void *info) {
    (void)source;
    (void)report;
    (void)info;
    calls++;
}

static void event_life(long n, RLKernelFilter filter, uint32_t flags, int64_t data, const char *path) {
    counted();
    for (long i = 0; i < n; i++) {
        RLKernelEvent what = {.ident = filter == kRLKernelFilterSignal ? 28 : (uintptr_t)i, .filter = filter, .flags = flags,
                              .fflags = path != NULL ? kRLNoteWrite : 0, .data = data, .path = path};
        RLSourceRef source = RLKernelEventSourceCreate(&what, event, NULL);
        require(source != NULL, "a source");
        kept[i] = source;
        RLAddSource(own, source, kRLDefaultMode);
    }
    for (long i = 0; i < n; i++)
        if (filter == kRLKernelFilterUser) RLKernelEventSourceTrigger((RLSourceRef)kept[i], kRLNoteTrigger, 0);
    if (filter == kRLKernelFilterUser)
        while (calls < n) RLRunInMode(kRLDefaultMode, 0, true);
    for (long i = 0; i < n; i++) RLSourceInvalidate((RLSourceRef)kept[i]);
    counted_end();
    release_kept(n);
}

EACH_OF(event_user_life) { event_life(n, kRLKernelFilterUser, 0, 0, NULL); }
EACH_OF_FEW(event_signal_life, KNOWN) { event_life(n, kRLKernelFilterSignal, 0, 0, NULL); }
EACH_OF_FEW(event_timer_life, DEAR) { event_life(n, kRLKernelFilterTimer, 0, 1000000, NULL); }
EACH_OF_FEW(event_file_life, 200) { event_life(n, kRLKernelFilterVnode, 0, 0, "/tmp"); }

EACH_OF_FEW(event_files_removed, 4) {
    char directory[] = "/tmp/growth-XXXXXX", path[64];
    require(mkdtemp(directory) != NULL, "a directory");
    for (long i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%ld", directory, i);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        RLKernelEvent what = {.filter = kRLKernelFilterVnode, .fflags = kRLNoteDelete, .path = path};
        RLSourceRef source = RLKernelEventSourceCreate(&what, event, NULL);
        require(source != NULL, "a source");
        kept[i] = source;
        RLAddSource(own, source, kRLDefaultMode);
    }
    counted();
    for (long i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%ld", directory, i);
        unlink(path);
        if (i % 100 == 0) RLRunInMode(kRLDefaultMode, 0, false);
    }
    while (calls < n) RLRunInMode(kRLDefaultMode, 0, true);
    counted_end();
    for (long i = 0; i < n; i++) RLSourceInvalidate((RLSourceRef)kept[i]);
    release_kept(n);
    rmdir(directory);
}

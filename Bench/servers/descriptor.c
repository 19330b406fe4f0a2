/* SPDX-License-Identifier: MIT */
/* Over RLFileDescriptor: the program reads and writes. */
#include "server.h"

#include <runloop/runloop.h>

static void watch(int descriptor, RLFileDescriptorCallBack callout) {
    RLFileDescriptorRef file = RLFileDescriptorCreate(descriptor, true, callout, NULL);
    RLFileDescriptorEnablePersistentCallBacks(file, kRLFileDescriptorReadCallBack);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRelease(file);
}

static void echo(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)types, (void)info;
    if (!server_echo(RLFileDescriptorGetNativeDescriptor(file))) RLFileDescriptorInvalidate(file);
}

static void take(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)types, (void)info;
    int connection = server_accept(RLFileDescriptorGetNativeDescriptor(file));
    if (connection >= 0) watch(connection, echo);
}

int main(int count, char **arguments) {
    watch(server_listen(count, arguments), take);
    RLRun();
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Message ports. */
#include "requests.h"

#include <runloop/runloop.h>

#include <unistd.h>

static RLDataRef echo(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)info;
    return RLRetain(data);
}

void serve_requests(int socket, int ready, const char *name) {
    (void)socket;
    RLMessagePortRef port = RLMessagePortCreateLocal(name, echo, NULL, NULL);
    RLAddSource(RLGetCurrent(), RLMessagePortCreateRunLoopSource(port, 0), kRLDefaultMode);
    if (write(ready, "", 1) == 1) RLRun();
}

static RLMessagePortRef remote;

void open_requests(int socket, const char *name) {
    (void)socket;
    remote = RLMessagePortCreateRemote(name);
}

bool make_request(const char *bytes, size_t length) {
    RLDataRef data = NULL;
    int32_t code = RLMessagePortSendRequest(remote, 1, bytes, length, 60, 60, "reply", &data);
    if (code != kRLMessagePortSuccess) return false;
    const char *got = RLDataGetBytePtr(data);
    bool is_right = RLDataGetLength(data) == length &&
                    (length == 0 || (got[0] == bytes[0] && got[length - 1] == bytes[length - 1]));
    RLRelease(data);
    return is_right;
}

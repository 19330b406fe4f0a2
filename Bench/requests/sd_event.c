/* SPDX-License-Identifier: MIT */
/* D-Bus by libsystemd, straight between the two processes: a method call with an array of bytes. */
#include "requests.h"

#include <string.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

static sd_bus *bus;

static int echo(sd_bus_message *call, void *info, sd_bus_error *error) {
    const void *bytes;
    size_t length;
    (void)info, (void)error;
    if (!sd_bus_message_is_method_call(call, "bench.Echo", "Echo")) return 0;
    sd_bus_message *reply = NULL;
    bench_require(sd_bus_message_read_array(call, 'y', &bytes, &length) >= 0 &&
                      sd_bus_message_new_method_return(call, &reply) >= 0 &&
                      sd_bus_message_append_array(reply, 'y', bytes, length) >= 0 &&
                      sd_bus_send(NULL, reply, NULL) >= 0,
                  "no reply");
    sd_bus_message_unref(reply);
    return 1;
}

static void begin(int socket, bool serves) {
    bench_require(sd_bus_new(&bus) >= 0 && sd_bus_set_fd(bus, socket, socket) >= 0, "no bus");
    if (serves) {
        sd_id128_t id;
        sd_id128_randomize(&id);
        bench_require(sd_bus_set_server(bus, 1, id) >= 0, "no server");
        sd_bus_set_anonymous(bus, 1);
        sd_bus_set_trusted(bus, 1);
    } else {
        sd_bus_set_anonymous(bus, 1);
    }
    bench_require(sd_bus_start(bus) >= 0, "the bus does not start");
}

void serve_requests(int socket, int ready, const char *name) {
    (void)name;
    begin(socket, true);
    bench_require(sd_bus_add_filter(bus, NULL, echo, NULL) >= 0 && write(ready, "", 1) == 1,
                  "no filter");
    for (;;) {
        int done = sd_bus_process(bus, NULL);
        if (done < 0) return;
        if (done == 0 && sd_bus_wait(bus, UINT64_MAX) < 0) return;
    }
}

void open_requests(int socket, const char *name) {
    (void)name;
    begin(socket, false);
}

bool make_request(const char *bytes, size_t length) {
    sd_bus_message *call = NULL, *reply = NULL;
    const char *got;
    size_t count;
    sd_bus_message_new_method_call(bus, &call, NULL, "/bench", "bench.Echo", "Echo");
    bool is_right = call && sd_bus_message_append_array(call, 'y', bytes, length) >= 0 &&
                    sd_bus_call(bus, call, 60000000, NULL, &reply) >= 0 &&
                    sd_bus_message_read_array(reply, 'y', (const void **)&got, &count) >= 0 &&
                    count == length &&
                    (length == 0 || (got[0] == bytes[0] && got[length - 1] == bytes[length - 1]));
    sd_bus_message_unref(call);
    sd_bus_message_unref(reply);
    return is_right;
}

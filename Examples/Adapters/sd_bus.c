/* SPDX-License-Identifier: MIT */
/*
 * A service and a client of D-Bus by sd-bus, each with a bus of its own, in one loop: the client calls a method and hears a signal.
 * The argument is the address of a bus.
 */
#include <runloop/adapters/sd_bus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int greet(sd_bus_message *call, void *info, sd_bus_error *error) {
    const char *name;
    char words[64];
    (void)info, (void)error;
    sd_bus_message_read(call, "s", &name);
    snprintf(words, sizeof words, "hello, %s", name);
    sd_bus_reply_method_return(call, "s", words);
    return sd_bus_emit_signal(sd_bus_message_get_bus(call), "/greeter", "org.example.Greeter", "Greeted", NULL);
}

static const sd_bus_vtable table[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Greet", "s", "s", greet, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_SIGNAL("Greeted", "", 0),
    SD_BUS_VTABLE_END,
};

static int hear(sd_bus_message *message, void *info, sd_bus_error *error) {
    (void)message, (void)info, (void)error;
    printf("client: a signal\n");
    RLStop(RLGetCurrent());
    return 0;
}

static int answered(sd_bus_message *answer, void *info, sd_bus_error *error) {
    const char *words = "no answer";
    (void)info, (void)error;
    sd_bus_message_read(answer, "s", &words);
    printf("client: %s\n", words);
    return 1;
}

static int named(sd_bus_message *answer, void *client, sd_bus_error *error) {
    (void)answer, (void)error;
    return sd_bus_call_method_async(client, NULL, "org.example.Greeter", "/greeter", "org.example.Greeter", "Greet", answered, NULL, "s",
                                    "world");
}

static void lost(sd_bus *bus, int error, void *info) {
    (void)bus;
    fprintf(stderr, "%s: %s\n", (const char *)info, strerror(-error));
    exit(1);
}

static sd_bus *connect_to(const char *address, const char *name, RLSDBusRef *place) {
    sd_bus *bus;
    if (sd_bus_new(&bus) < 0 || sd_bus_set_address(bus, address) < 0 || sd_bus_set_bus_client(bus, 1) < 0 || sd_bus_start(bus) < 0) exit(1);
    *place = RLSDBusAttach(bus, RLGetCurrent(), kRLDefaultMode, lost, (void *)name);
    return bus;
}

int main(int count, char **arguments) {
    RLSDBusRef places[2];
    if (count < 2) return 2;
    sd_bus *server = connect_to(arguments[1], "server", &places[0]), *client = connect_to(arguments[1], "client", &places[1]);
    sd_bus_match_signal_async(client, NULL, NULL, "/greeter", "org.example.Greeter", "Greeted", hear, NULL, NULL);
    sd_bus_add_object_vtable(server, NULL, "/greeter", "org.example.Greeter", table, NULL);
    sd_bus_request_name_async(server, NULL, "org.example.Greeter", 0, named, client);
    RLRun();
    for (int i = 0; i < 2; i++) RLSDBusDetach(places[i]);
    sd_bus_flush_close_unref(client), sd_bus_flush_close_unref(server);
    return 0;
}

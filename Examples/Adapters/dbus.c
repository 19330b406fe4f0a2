/* SPDX-License-Identifier: MIT */
/*
 * A service and a client of D-Bus by libdbus, each with a connection of its own, in one loop: the client calls a method and hears a
 * signal. The argument is the address of a bus.
 */
#include <runloop/adapters/libdbus.h>

#include <stdio.h>
#include <stdlib.h>

static DBusHandlerResult serve(DBusConnection *connection, DBusMessage *call, void *info) {
    const char *name = "";
    char *words = info;
    if (!dbus_message_is_method_call(call, "org.example.Greeter", "Greet")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    dbus_message_get_args(call, NULL, DBUS_TYPE_STRING, &name, DBUS_TYPE_INVALID);
    sprintf(words, "hello, %.40s", name);
    DBusMessage *answer = dbus_message_new_method_return(call);
    dbus_message_append_args(answer, DBUS_TYPE_STRING, &words, DBUS_TYPE_INVALID);
    dbus_connection_send(connection, answer, NULL);
    dbus_message_unref(answer);
    DBusMessage *told = dbus_message_new_signal("/greeter", "org.example.Greeter", "Greeted");
    dbus_connection_send(connection, told, NULL);
    dbus_message_unref(told);
    return DBUS_HANDLER_RESULT_HANDLED;
}

static DBusHandlerResult hear(DBusConnection *connection, DBusMessage *message, void *info) {
    (void)connection, (void)info;
    if (!dbus_message_is_signal(message, "org.example.Greeter", "Greeted")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    printf("client: a signal\n");
    RLStop(RLGetCurrent());
    return DBUS_HANDLER_RESULT_HANDLED;
}

static void answered(DBusPendingCall *call, void *info) {
    const char *words = "no answer";
    (void)info;
    DBusMessage *answer = dbus_pending_call_steal_reply(call);
    dbus_message_get_args(answer, NULL, DBUS_TYPE_STRING, &words, DBUS_TYPE_INVALID);
    printf("client: %s\n", words);
    dbus_message_unref(answer);
}

static DBusConnection *connect_to(const char *address, RLDBusRef *place) {
    DBusConnection *connection = dbus_connection_open_private(address, NULL);
    if (!connection || !dbus_bus_register(connection, NULL)) exit(1);
    *place = RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode);
    return connection;
}

int main(int count, char **arguments) {
    static const DBusObjectPathVTable table = {.message_function = serve};
    char words[64];
    const char *name = "world";
    RLDBusRef places[2];
    if (count < 2) return 2;
    DBusConnection *server = connect_to(arguments[1], &places[0]), *client = connect_to(arguments[1], &places[1]);
    dbus_bus_request_name(server, "org.example.Greeter", 0, NULL);
    dbus_connection_register_object_path(server, "/greeter", &table, words);
    dbus_bus_add_match(client, "interface='org.example.Greeter'", NULL);
    dbus_connection_add_filter(client, hear, NULL, NULL);

    DBusPendingCall *pending;
    DBusMessage *call = dbus_message_new_method_call("org.example.Greeter", "/greeter", "org.example.Greeter", "Greet");
    dbus_message_append_args(call, DBUS_TYPE_STRING, &name, DBUS_TYPE_INVALID);
    if (!dbus_connection_send_with_reply(client, call, &pending, 1000)) return 1;
    dbus_pending_call_set_notify(pending, answered, NULL, NULL);
    dbus_pending_call_unref(pending);
    dbus_message_unref(call);
    RLRun();

    for (int i = 0; i < 2; i++) RLDBusDetach(places[i]);
    dbus_connection_close(client), dbus_connection_unref(client);
    dbus_connection_close(server), dbus_connection_unref(server);
    return 0;
}

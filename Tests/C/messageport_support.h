/* SPDX-License-Identifier: MIT */
/* What the tests of message ports share. */
#ifndef RUNLOOP_TESTS_MESSAGEPORT_SUPPORT_H
#define RUNLOOP_TESTS_MESSAGEPORT_SUPPORT_H

#include "support.h"

#include <sys/types.h>

/* A name that no other run of the tests has: the word and the number of this process. */
const char *port_name(const char *word);

typedef struct Service Service;
typedef void ServiceAction(Service *self, RLMessagePortRef port);

/* A port's info: what its callback records and does. */
struct Service {
    const char *word;               /* recorded by each message; NULL records nothing */
    const char *reply;              /* the reply's text; NULL replies with nothing */
    bool echoes;                    /* the reply is the message's data */
    ServiceAction *action;          /* in the callback */
    int32_t msgid;                  /* of the last message */
    size_t length;                  /* of the last message */
    char text[64];                  /* the first bytes of the last message */
    int calls;
    int retains, releases;          /* of a context made by service_context */
    pthread_t thread;               /* where it was called last */
    void *data;                     /* for the action */
    RLMessagePortRef port;
    RLSourceRef source;
};

/* A local port of the name with the service as its info; not in any mode. */
RLMessagePortRef service_port(Service *service, const char *name);
/* The same, with its source in the mode of the current loop. */
RLMessagePortRef add_service(Service *service, const char *name, RLMode mode);
RLMessagePortContext service_context(Service *service, bool counted);
RLDataRef serve_message(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info);

/* Sends text without waiting for a reply. */
int32_t send_text(RLMessagePortRef remote, int32_t msgid, const char *text);
/* Sends text and waits in the mode for the reply, which is returned as text until the next call;
 * NULL without success. */
const char *ask_text(RLMessagePortRef remote, int32_t msgid, const char *text, RLMode mode);
/* The code of this thread's last ask_text. */
extern __thread int32_t ask_code;

/* A child process that serves a name in its default mode until it is killed; returns once the name
 * is there. */
typedef struct Server {
    pid_t process;
} Server;
Server server_start(const char *name, const char *reply, ServiceAction *action);
/* Ends it with SIGKILL and waits for its end. */
void server_kill(Server *server);

/* A thread that serves a name in its default mode until it is stopped. */
typedef struct Worker {
    LoopThread thread;
    Service service;
    const char *name;
    Gate served;
} Worker;
/* Returns a remote port of the name, which the caller owns, once the name is there. */
RLMessagePortRef worker_start(Worker *worker, const char *name);
void worker_stop(Worker *worker);

#endif

/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "messageport_support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

__thread int32_t ask_code;

const char *port_name(const char *word) {
    static __thread char names[8][160];
    static __thread int next;
    char *name = names[next++ % 8];
    snprintf(name, sizeof names[0], "test.%s.%d", word, (int)getpid());
    return name;
}

RLDataRef serve_message(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    Service *service = info;
    service->msgid = msgid;
    service->length = RLDataGetLength(data);
    size_t length = service->length < sizeof service->text - 1
        ? service->length : sizeof service->text - 1;
    memcpy(service->text, RLDataGetBytePtr(data), length);
    service->text[length] = 0;
    service->thread = pthread_self();
    if (service->word) trace("%s%d", service->word, (int)msgid);
    __atomic_add_fetch(&service->calls, 1, __ATOMIC_SEQ_CST);
    if (service->action) service->action(service, port);
    if (service->echoes) return RLDataCreate(RLDataGetBytePtr(data), RLDataGetLength(data));
    return service->reply ? RLDataCreate(service->reply, strlen(service->reply)) : NULL;
}

static const void *count_retain(const void *info) {
    __atomic_add_fetch(&((Service *)info)->retains, 1, __ATOMIC_SEQ_CST);
    return info;
}
static void count_release(const void *info) {
    __atomic_add_fetch(&((Service *)info)->releases, 1, __ATOMIC_SEQ_CST);
}

RLMessagePortContext service_context(Service *service, bool counted) {
    RLMessagePortContext context = {.info = service};
    if (counted) {
        context.retain = count_retain;
        context.release = count_release;
    }
    return context;
}

RLMessagePortRef service_port(Service *service, const char *name) {
    RLMessagePortContext context = service_context(service, false);
    service->port = RLMessagePortCreateLocal(name, serve_message, &context, NULL);
    ck_assert_ptr_nonnull(service->port);
    return service->port;
}

RLMessagePortRef add_service(Service *service, const char *name, RLMode mode) {
    service_port(service, name);
    service->source = RLMessagePortCreateRunLoopSource(service->port, 0);
    ck_assert_ptr_nonnull(service->source);
    RLAddSource(RLGetCurrent(), service->source, mode);
    RLRelease(service->source);
    return service->port;
}

int32_t send_text(RLMessagePortRef remote, int32_t msgid, const char *text) {
    return RLMessagePortSendRequest(remote, msgid, text, text ? strlen(text) : 0, 60, 0, NULL,
                                    NULL);
}

const char *ask_text(RLMessagePortRef remote, int32_t msgid, const char *text, RLMode mode) {
    static __thread char answer[256];
    RLDataRef data = NULL;
    ask_code = RLMessagePortSendRequest(remote, msgid, text, text ? strlen(text) : 0, 60, 60, mode,
                                        &data);
    if (ask_code != kRLMessagePortSuccess) return NULL;
    ck_assert_ptr_nonnull(data);
    size_t length = RLDataGetLength(data);
    ck_assert_uint_lt(length, sizeof answer);
    memcpy(answer, RLDataGetBytePtr(data), length);
    answer[length] = 0;
    RLRelease(data);
    return answer;
}

Server server_start(const char *name, const char *reply, ServiceAction *action) {
    int ready[2];
    make_pipe(ready);
    Server server = {fork()};
    ck_assert_int_ge(server.process, 0);
    if (server.process == 0) {
        static Service service;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        service.reply = reply;
        service.echoes = reply == NULL;
        service.action = action;
        RLMessagePortContext context = service_context(&service, false);
        RLMessagePortRef port = RLMessagePortCreateLocal(name, serve_message, &context, NULL);
        if (!port) _exit(1);
        RLAddSource(RLGetCurrent(), RLMessagePortCreateRunLoopSource(port, 0), kRLDefaultMode);
        write_byte(ready[1]);
        for (;;) RLRunInMode(kRLDefaultMode, 1000, false);
    }
    close(ready[1]);
    read_byte(ready[0]);
    close(ready[0]);
    return server;
}

void server_kill(Server *server) {
    int status;
    kill(server->process, SIGKILL);
    ck_assert_int_eq(waitpid(server->process, &status, 0), server->process);
}

static void worker_body(LoopThread *self) {
    Worker *worker = self->data;
    add_service(&worker->service, worker->name, kRLDefaultMode);
    gate_open(&worker->served);
    RLRunInMode(kRLDefaultMode, 1000, false);
    RLRelease(worker->service.port);
}

RLMessagePortRef worker_start(Worker *worker, const char *name) {
    worker->name = name;
    worker->served = (Gate)GATE_INITIALIZER;
    loop_thread_start(&worker->thread, worker_body, worker);
    gate_wait(&worker->served);
    return RLMessagePortCreateRemote(name);
}

void worker_stop(Worker *worker) {
    wait_until_waiting(worker->thread.loop);
    RLStop(worker->thread.loop);
    thread_join(worker->thread.thread);
}

/* SPDX-License-Identifier: MIT */
#include "settle.h"

#include <time.h>

#include "handles.h"
#include "operations.h"
#include "outcome.h"
#include "stage.h"

/* A socket that is closed drops what comes in parts. */
enum { MAX_TURNS = 2000 };

/* Something of it has not come to its end that can. */
static bool is_under_way(int index) {
    const struct file *file = file_of(objects[index].what->number);
    if (objects[index].is_closing) return can_use(index);
    return can_use(index) &&
           (handle_queued(index) > 0 || (objects[index].has_ended_writing && file->peer >= 0 && !file->out_ended));
}

/* S-SOCK-58, 62, 63: a queue becomes empty if the peer reads and the socket's mode runs, and what is closed ends. */
static void finish_what_is_sent(void) {
    for (int i = 0; i < object_count; i++) {
        const struct object *object = &objects[i];
        const struct file *file = file_of(object->what->number);
        if (!file || object->is_put_off[0] || object->is_put_off[1] || object->is_stale) continue;
        if (!can_use(i) || !object_is_scheduled(object)) continue;
        /* A connect that has not begun, or of which nothing is known any more (S-SOCK-30). */
        if (object->types & CONNECT & ~object->told && !(file_ready(object->what->number) & CONNECT)) continue;
        if (file->peer < 0 && !object->is_closing) continue;
        for (int turn = 0; turn < MAX_TURNS && is_under_way(i); turn++) {
            file_peer_drain(object->what->number);
            if (file->out_ended && object->is_closing) file_peer_shut(object->what->number);
            if (file->peer >= 0) file_await_room(object->what->number);
            for (int place = 0; place < LOOPS * MODES; place++) {
                struct op op = {.kind = OP_RUN, .loop = place / MODES, .mode = place % MODES, .value = TIMEOUT_NONE};
                if (object->in_mode[op.loop][op.mode]) do_op(&op);
            }
        }
        if (is_under_way(i)) disagree("object %d does not send what is queued, or does not end", i);
        if (object->is_valid && handle_queued(i) == 0) model_wrote(i, 0);
    }
}

/* All bytes that were sent arrive, and in order. */
static void look_for_bytes(int number) {
    struct file *file = file_of(number);
    if (!file || (!file_is_connection(file) && file->kind != DATAGRAM)) return;
    for (int i = 0; i < object_count; i++)
        if (objects[i].is_queued) file->out.is_lossy[i] = true;
    if (file->peer >= 0 && !file_peer_take(number))
        disagree("number %d: %ld bytes are lost on their way to the peer", number, flow_left(&file->out));
    file_drain(number);
    if (flow_left(&file->in) > 0) disagree("number %d: %ld bytes are lost on their way from the peer", number, flow_left(&file->in));
}

/* S-SOCK-28: what could not be accepted for lack of a descriptor is tried again. */
static void accept_what_was_put_off(void) {
    time_t begin = time(NULL);
    for (bool is_left = true; is_left && !outcome->has_failed;) {
        is_left = false;
        for (int i = 0; i < object_count; i++)
            for (int place = 0; place < LOOPS * MODES; place++) {
                struct op op = {.kind = OP_RUN, .loop = place / MODES, .mode = place % MODES, .value = TIMEOUT_WAIT};
                if (objects[i].what->kind != SOCKET_ACCEPT || !objects[i].is_put_off[op.loop] || objects[i].is_stale) continue;
                if (!can_use(i) || !object_due(&objects[i], op.loop, op.mode)) continue;
                if (time(NULL) > begin + PATIENCE) disagree("object %d does not accept again (S-SOCK-28)", i);
                is_left = true;
                do_op(&op);
            }
    }
}

void settle(void) {
    is_quiet = true;
    if (second.sleeps) stop_sleep();
    for (int i = 0; i < object_count; i++) can_use(i);
    if (files_are_starving()) {
        files_starve(false);
        model_starved();
    }
    finish_what_is_sent();
    for (int loop = 0; loop < (second.is_started ? LOOPS : 1); loop++)
        for (int mode = 0; mode < MODES; mode++) {
            if (model_content(loop, mode) == 0) continue;
            struct op op = {.kind = OP_RUN, .loop = loop, .mode = mode, .value = TIMEOUT_WAIT, .handled = true};
            do_op(&op);
            op.value = TIMEOUT_NONE;
            op.handled = false;
            for (int i = 0; i < 2 * object_count + 2; i++) do_op(&op);
            op.value = TIMEOUT_WAIT;
            do_op(&op);
        }
    accept_what_was_put_off();
    /* No connection was taken and not told. */
    for (int i = 0; i < NUMBERS; i++)
        if (file_of(i) && file_of(i)->listener) file_drain(i);
        else look_for_bytes(i);
}

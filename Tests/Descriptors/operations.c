/* SPDX-License-Identifier: MIT */
#include "operations.h"

#include "handles.h"
#include "outcome.h"
#include "stage.h"

bool can_use(int index) {
    struct object *object = &objects[index];
    bool may_have_ended = object->is_valid && (object->is_stale || object->is_closing) && object_is_socket(object);
    if (may_have_ended && !handle_is_valid(index)) model_invalidated(index);
    return object->is_valid;
}

static bool has_kept_socket(int number) {
    for (int i = 0; i < object_count; i++)
        if (objects[i].is_valid && objects[i].is_let_go && object_is_socket(&objects[i]) && objects[i].what->number == number) return true;
    return false;
}

void do_file_op(const struct op *op) {
    int number = op->number;
    switch (op->kind) {
    case OP_OPEN:
    case OP_CLOSE:
        /* S-FD-15: a number that an object closes, or that has a socket of which the program has no reference, is not closed by others. */
        if (model_has_owner(number) || has_kept_socket(number)) return;
        if (file_of(number)) model_number_closed(number);
        if (op->kind == OP_OPEN) file_open(number, (enum file_kind)op->other);
        else file_close(number);
        break;
    case OP_DUP:
        file_dup(number, op->other);
        break;
    case OP_PUT:
        file_put(number, op->value);
        break;
    case OP_DRAIN:
        file_drain(number);
        break;
    case OP_FILL:
        file_fill(number);
        break;
    case OP_PEER_DRAIN:
        file_peer_drain(number);
        break;
    case OP_PEER_SHUT:
        file_peer_shut(number);
        break;
    case OP_SHUT:
        file_shut(number);
        break;
    case OP_PEER_CLOSE:
        file_peer_close(number);
        break;
    case OP_KNOCK:
        file_knock(number, op->value);
        break;
    case OP_LEAVE:
        file_leave(number);
        break;
    case OP_STARVE:
        files_starve(op->value == 1);
        model_starved();
        break;
    default:
        model_file_connected(number);
        file_connect(number, (enum target)op->other);
    }
    model_file_changed(number, top);
    if (second.frame && second.frame != top) model_file_changed(number, second.frame);
}

static void create(int index) {
    if (objects[index].is_valid) return;
    handle_release(index);
    int generation = objects[index].generation + 1;
    if (!file_of(objects[index].what->number) || !handle_make(index, generation)) return;
    model_created(index);
}

/* The file to which a socket sends; NULL: that is not known. */
static struct file *sends_to(int index) {
    return object_is_socket(&objects[index]) && !objects[index].is_stale ? file_of(objects[index].what->number) : NULL;
}

static void write_to(int index, int count) {
    static char bytes[WRITE_SIZE];
    struct file *file = sends_to(index);
    if (!file) return;
    long before = handle_queued(index);
    flow_make(&file->out, index, bytes, count);
    long queued = handle_write(index, bytes, count);
    /* S-SOCK-57, 62. */
    if (queued >= 0 && objects[index].has_ended_writing) disagree("object %d takes bytes after its end", index);
    if (queued >= 0 && before > HIGH_WATER && !model_sleeps) disagree("object %d takes bytes, and %ld are queued", index, before);
    if (queued >= 0) flow_sent(&file->out, index, count);
    model_wrote(index, queued);
    model_file_changed(objects[index].what->number, top);
}

static void send_to(int index, bool waits) {
    char byte;
    struct file *file = sends_to(index);
    if (!file) return;
    flow_make(&file->out, index, &byte, 1);
    long sent = waits ? handle_send_data(index, &byte) : handle_send(index, &byte, 1);
    if (sent > 0 && objects[index].has_ended_writing) disagree("object %d sends a byte after its end", index);
    flow_sent(&file->out, index, sent);
    model_file_changed(objects[index].what->number, top);
}

/* S-SOCK-41, 43. */
static void connect_to(int index, enum target target, bool waits) {
    struct file *file = sends_to(index);
    int number = objects[index].what->number;
    if (!file || !file_can_connect(number)) return;
    bool is_first = file->connect == -1, is_local = file->kind == LOCAL_UNCONNECTED;
    RLSocketError expected = target == TARGET_OPEN || !(is_local || waits) ? kRLSocketSuccess
        : waits && target == TARGET_FULL ? kRLSocketTimeout : kRLSocketError;
    RLSocketError result = handle_connect(index, target, waits);
    if (is_first && result != expected && !objects[index].is_closing) disagree("object %d: the connect has result %d", index, (int)result);
    file_connect_begun(number, target);
    /* The call has taken the error. */
    if (waits) file->connect = MANY;
    model_file_changed(number, top);
}

/* Of streams, because the others do not end. */
static void end(int index, int how) {
    struct file *file = sends_to(index);
    if (!file || !file_is_connection(file)) return;
    model_ended(index, how);
    handle_end(index, how);
    /* S-SOCK-63. */
    if (how == kRLSocketCloseOrderly && !object_is_scheduled(&objects[index]) && can_use(index))
        disagree("object %d is closed, is in no loop, and is valid", index);
    model_file_changed(objects[index].what->number, top);
}

void do_object_op(const struct op *op) {
    int i = op->object;
    if (op->kind == OP_CREATE) return create(i);
    if (!can_use(i) || (objects[i].is_let_go && objects[i].is_closing)) return;
    switch (op->kind) {
    case OP_ADD:
        model_added(i, op->loop, op->mode);
        handle_add(i, loops[op->loop], modes[op->mode]);
        break;
    case OP_REMOVE:
        if (!second.is_started && op->loop == 1) break;
        model_removed(i, op->loop, op->mode);
        handle_remove(i, loops[op->loop], modes[op->mode]);
        break;
    case OP_INVALIDATE:
        model_invalidated(i);
        handle_invalidate(i);
        break;
    case OP_INVALIDATE_SOURCE:
        model_source_invalidated(i);
        handle_invalidate_source(i);
        break;
    case OP_ENABLE:
    case OP_PERSIST:
        model_enabled(i, op->value, op->kind == OP_PERSIST);
        handle_enable(i, op->value, op->kind == OP_PERSIST);
        break;
    case OP_DISABLE:
        model_disabled(i, op->value, own_loop);
        handle_disable(i, op->value);
        break;
    case OP_FLAGS:
        model_flags_set(i, op->value);
        handle_set_flags(i, op->value);
        break;
    case OP_WRITE:
        write_to(i, op->value == 1 ? WRITE_SIZE / 100 : WRITE_SIZE);
        break;
    case OP_LET_GO:
        /* Of a socket that ends by itself nobody may keep a pointer then. */
        if (objects[i].is_let_go || objects[i].is_stale || objects[i].is_closing) break;
        if (object_is_socket(&objects[i]) && !objects[i].what->owns && model_has_owner(objects[i].what->number)) break;
        model_let_go(i);
        handle_let_go(i);
        break;
    case OP_END:
        end(i, op->value);
        break;
    case OP_CONNECT:
        connect_to(i, (enum target)op->other, op->value == 1);
        break;
    default:
        send_to(i, op->value == 1);
    }
    /* What is enabled or added in a run may be called in it. */
    for (struct frame *frame = top; frame; frame = frame->outer) frame->seen[i] |= file_ready(objects[i].what->number);
    if (second.frame) second.frame->seen[i] |= file_ready(objects[i].what->number);
}

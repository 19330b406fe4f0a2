/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <runloop/runloop.h>
#include <string.h>

#include "handles.h"
#include "outcome.h"

struct object objects[MAX_OBJECTS];
int object_count;
unsigned long instant;
unsigned long model_sleeps;

void model_start(const struct program *program) {
    memset(objects, 0, sizeof objects);
    object_count = program->objects;
    instant = 0;
    model_sleeps = 0;
    for (int i = 0; i < object_count; i++) objects[i].what = &program->object[i];
}

bool object_is_socket(const struct object *object) { return object->what->kind >= SOCKET_READ; }

bool object_is_awaited(const struct object *object, int mode) {
    return !object->is_stale && !(object_is_socket(object) && object->may_be_disabled) && object_due(object, 1, mode);
}

bool object_is_in_loop(const struct object *object, int loop) {
    for (int mode = 0; mode < MODES; mode++)
        if (object->in_mode[loop][mode]) return true;
    return false;
}

bool object_is_scheduled(const struct object *object) { return object_is_in_loop(object, 0) || object_is_in_loop(object, 1); }

/* S-SRC-44. */
bool object_is_last_port(const struct object *object, int loop, int mode) {
    for (int i = 0; i < object_count; i++) {
        const struct object *other = &objects[i];
        if (other->what->kind == PORT && other->what->number == object->what->number && other->in_mode[loop][mode] &&
            other->added[loop][mode] > object->added[loop][mode])
            return false;
    }
    return true;
}

int object_due(const struct object *object, int loop, int mode) {
    if (!object->is_valid || object->is_closing || !object->has_source || !object->in_mode[loop][mode]) return 0;
    const struct file *file = file_of(object->what->number);
    int ready = file_ready(object->what->number);
    /* S-SOCK-30: before the end of a connect that is to be told there is no room. */
    if (object->types & CONNECT && !(object->told & CONNECT) && !(ready & CONNECT)) ready &= ~WRITE;
    /* S-SOCK-32. */
    if (object->has_failed) ready &= ~WRITE;
    if (object->what->kind == SOCKET_ACCEPT && (!file || !file->listener || files_are_starving())) ready &= ~READ;
    ready &= object->enabled;
    /* The perform on the stack has both types, if both were ready: Write comes after Read (S-SOCK-22), and what is enabled by the flags is
       enabled when both have been called. */
    if (object->performs && object_is_socket(object)) return 0;
    /* S-SOCK-59. */
    if (object->is_queued) ready &= ~WRITE;
    if (object->what->kind == PORT) {
        /* S-SRC-43: epoll refuses it. */
        if (!file || file->kind == NULL_DEVICE || !object_is_last_port(object, loop, mode)) return 0;
    }
    return ready;
}

static void touch(struct object *object) {
    object->touched = ++instant;
    object->waited = 0;
}

static void enables(struct object *object, int types) {
    object->enabled |= types;
    for (int loop = 0; loop < LOOPS; loop++) object->off[loop] &= ~types;
}

void model_created(int index) {
    struct object *object = &objects[index];
    const struct object_definition *what = object->what;
    int generation = object->generation + 1;
    *object = (struct object){.what = what, .generation = generation, .is_valid = true, .has_source = what->kind == PORT};
    object->types = what->kind == DESCRIPTOR ? READ | WRITE
        : what->kind == PORT ? READ
        : (what->kind == SOCKET_NONE ? 0 : READ) | (what->writes ? WRITE : 0);
    if (what->connects && file_of(what->number) && (file_is_stream(file_of(what->number)) || file_of(what->number)->listener))
        object->types |= CONNECT;
    if (what->kind == PORT) object->enabled = object->persistent = READ;
    /* S-SOCK-4. */
    if (object_is_socket(object)) object->flags = object->types & READ;
    object->is_stale = !file_of(what->number);
    touch(object);
}

void model_added(int index, int loop, int mode) {
    struct object *object = &objects[index];
    if (object->in_mode[loop][mode]) return;
    bool was_scheduled = object_is_scheduled(object);
    object->has_source = true;
    object->in_mode[loop][mode] = true;
    object->added[loop][mode] = ++instant;
    /* S-SOCK-19. */
    if (object_is_socket(object) && !was_scheduled && !object->is_closing) {
        enables(object, object->types & ~object->told);
        object->has_failed = false;
    }
    if (!object_is_socket(object) && !was_scheduled && file_of(object->what->number)) object->is_stale = false;
    touch(object);
}

/* S-FD-13: without references of the program's it lives as long as a loop has it, or calls it. A socket lives until it is invalidated. */
static void end_if_forgotten(struct object *object) {
    if (object->is_let_go && object->is_valid && !object_is_socket(object) && !object_is_scheduled(object) && object->performs == 0)
        model_invalidated((int)(object - objects));
}

void model_let_go(int index) {
    objects[index].is_let_go = true;
    end_if_forgotten(&objects[index]);
}

bool model_has_owner(int number) {
    for (int i = 0; i < object_count; i++)
        if (objects[i].is_valid && objects[i].what->owns && objects[i].what->number == number) return true;
    return false;
}

static void unscheduled(struct object *object) {
    if (object_is_socket(object) && !object_is_scheduled(object)) object->enabled = object->again = 0;
    if (model_sleeps) object->may_be_disabled = true;
    touch(object);
    end_if_forgotten(object);
}

void model_removed(int index, int loop, int mode) {
    struct object *object = &objects[index];
    if (!object->in_mode[loop][mode]) return;
    object->in_mode[loop][mode] = false;
    object->removed[loop][mode] = ++instant;
    unscheduled(object);
}

void model_source_invalidated(int index) {
    struct object *object = &objects[index];
    if (!object->has_source) return;
    object->has_source = false;
    /* The rest of the perform on the stack may follow, if its types are enabled again. */
    for (int place = 0; object->performs && place < LOOPS * MODES; place++)
        if (object->in_mode[place / MODES][place % MODES]) object->removed[place / MODES][place % MODES] = ++instant;
    memset(object->in_mode, 0, sizeof object->in_mode);
    if (object->what->kind == PORT) object->is_valid = false;
    unscheduled(object);
}

void model_invalidated(int index) {
    struct file *file = file_of(objects[index].what->number);
    if (file && objects[index].is_queued) file->out.is_lossy[index] = true;
    objects[index].is_let_go = false;
    model_source_invalidated(index);
    objects[index].is_valid = false;
    /* S-FD-11, S-SOCK-10. */
    if (!file || !objects[index].what->owns || objects[index].is_stale) return;
    model_number_closed(objects[index].what->number);
    file_forget(objects[index].what->number);
}

void model_enabled(int index, int types, bool persistent) {
    struct object *object = &objects[index];
    if (!object->is_valid || object->is_closing || object->what->kind == PORT) return;
    /* S-SOCK-35. */
    if (object_is_socket(object) && !object_is_scheduled(object)) return;
    enables(object, types & object->types & ~object->told);
    if (types & WRITE) object->has_failed = false;
    if (object->what->kind != SOCKET_ACCEPT) memset(object->is_put_off, 0, sizeof object->is_put_off);
    if (persistent && !object_is_socket(object)) object->persistent |= types & object->types;
    touch(object);
}

void model_disabled(int index, int types, int own_loop) {
    struct object *object = &objects[index];
    if (!object->is_valid || object->what->kind == PORT) return;
    if (object_is_socket(object) && !object_is_scheduled(object)) return;
    object->enabled &= ~types;
    object->persistent &= ~types;
    object->again &= ~types;
    object->off[own_loop] |= types;
    if (model_sleeps) object->may_be_disabled = true;
    touch(object);
}

void model_wrote(int index, long queued) {
    struct object *object = &objects[index];
    if (queued < 0) return;
    object->is_queued = queued > 0;
    if (queued > 0) {
        if (!object->is_closing) enables(object, object->types & WRITE);
        outcome->queues++;
    }
    touch(object);
}

static void closes(struct object *object) {
    object->is_closing = true;
    object->enabled = object->again = 0;
    touch(object);
}

void model_ended(int index, int how) {
    struct object *object = &objects[index];
    struct file *file = file_of(object->what->number);
    outcome->ends++;
    if (how == kRLSocketCloseAbort) {
        flow_is_lossy(&file->in);
        flow_is_lossy(&file->out);
        return model_invalidated(index);
    }
    object->has_ended_writing = true;
    /* What other objects have queued is not taken after it. */
    for (int i = 0; i < object_count; i++)
        if (i != index && file_of(objects[i].what->number) == file) file->out.is_lossy[i] = true;
    if (how == kRLSocketCloseOrderly) {
        flow_is_lossy(&file->in);
        closes(object);
    }
}

void model_stream_ended(int index, bool is_queued) {
    if (!is_queued) return model_invalidated(index);
    objects[index].has_ended_writing = true;
    /* A callback may have connected it again. */
    if (file_of(objects[index].what->number)) flow_is_lossy(&file_of(objects[index].what->number)->in);
    closes(&objects[index]);
}

void model_flags_set(int index, int flags) {
    struct object *object = &objects[index];
    object->flags = flags & object->types;
    if (flags & WRITE) object->has_failed = false;
    if (model_sleeps) object->may_be_disabled = true;
}

void model_starved(void) {
    for (int i = 0; i < object_count; i++)
        if (objects[i].what->kind == SOCKET_ACCEPT) {
            memset(objects[i].is_put_off, true, sizeof objects[i].is_put_off);
            touch(&objects[i]);
        }
}

void model_file_connected(int number) {
    const struct file *file = file_of(number);
    if (!file || file->kind != LOCAL_UNCONNECTED) return;
    for (int i = 0; i < object_count; i++)
        if (object_is_socket(&objects[i]) && file_of(objects[i].what->number) == file)
            memset(objects[i].is_put_off, true, sizeof objects[i].is_put_off);
}

void model_number_closed(int number) {
    for (int i = 0; i < object_count; i++)
        if (objects[i].what->number == number && objects[i].is_valid) {
            objects[i].is_stale = true;
            if (file_of(number)->names > 1) objects[i].is_haunted = true;
            touch(&objects[i]);
        }
}

void model_file_changed(int number, struct frame *frames) {
    const struct file *file = file_of(number);
    for (int i = 0; i < object_count; i++) {
        const struct file *own = file_of(objects[i].what->number);
        if (objects[i].what->number != number && (!file || own != file)) continue;
        touch(&objects[i]);
        for (struct frame *frame = frames; frame; frame = frame->outer)
            frame->seen[i] |= file_ready(objects[i].what->number);
    }
}

void model_reports(struct object *object, int types, int loop) {
    if (object->what->kind == PORT) {
        struct file *file = file_of(object->what->number);
        if (file && file->kind == COUNTER) {
            file->count = 0;
            model_file_changed(object->what->number, NULL);
        }
    } else if (object_is_socket(object)) {
        /* Not of what was disabled when the call was under way on the other thread. */
        object->again |= types & object->enabled;
        object->enabled &= ~types;
        if (types == WRITE) object->is_queued = false;
        object->told |= types & CONNECT;
        if (!files_are_starving()) object->is_put_off[loop] = false;
    } else {
        object->enabled &= ~(types & ~object->persistent);
    }
    object->performs++;
    object->called = ++instant;
    object->waited = 0;
}

void model_returned(int index, int generation, int types) {
    struct object *object = &objects[index];
    if (generation != object->generation) return;
    object->performs--;
    end_if_forgotten(object);
    if (!object_is_socket(object)) return;
    object->enabled |= types & object->again & object->flags;
    object->again &= ~types;
}

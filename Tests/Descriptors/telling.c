/* SPDX-License-Identifier: MIT */
#include "telling.h"

#include "model.h"
#include "outcome.h"

/* S-SOCK-28: one callback for each connection, whose address is the peer's. */
void told_connection(int index, int fd, RLDataRef address) {
    outcome->connections++;
    if (!connection_told(fd, RLDataGetBytePtr(address), RLDataGetLength(address)))
        disagree("object %d is told of a connection that is not one of those that wait", index);
    if (files_are_starving() && !model_sleeps) disagree("object %d is told of a connection, and there is no descriptor for one", index);
}

/* S-SOCK-30, 37. */
void told_connect(int index, const int32_t *error) {
    struct object *object = &objects[index];
    struct file *file = file_of(object->what->number);
    outcome->connects++;
    /* S-SOCK-60. */
    if (file && (error || file->connect >= TARGET_REFUSES)) file->out.is_lossy[index] = true;
    object->has_failed = error && !(object->flags & WRITE);
    if (object->has_failed) object->enabled &= ~WRITE;
    if (object->what->leaves_errors && error) disagree("object %d is told an error that is left (S-SOCK-30)", index);
    if (object->is_stale || !file || object->what->leaves_errors) return;
    if (file->connect == TARGET_FULL) disagree("object %d is told of the end of a connect that is under way", index);
    if (file->connect == TARGET_REFUSES && !error) disagree("object %d is told that it is connected, and it was refused", index);
    if (file->connect == TARGET_OPEN && error && file->peer >= 0) disagree("object %d is told that it was refused, and it is connected",
                                                                             index);
}

/* S-SOCK-25, 26. */
void told_data(int index, RLDataRef data) {
    struct object *object = &objects[index];
    struct file *file = file_of(object->what->number);
    if (!file) return;
    long length = RLDataGetLength(data);
    outcome->data += (unsigned long)length;
    if (object->is_stale) return flow_is_lossy(&file->in);
    bool is_right = flow_received(&file->in, (const char *)RLDataGetBytePtr(data), length);
    if (model_sleeps) return;
    if (!is_right) disagree("object %d gets bytes in a wrong order, or from nowhere", index);
    if (length > 0 || !file_is_at_end(object->what->number)) return;
    if (file->peer >= 0 && !file->in_ends) disagree("object %d is told the end of a stream that goes on", index);
    if (flow_left(&file->in) > 0) disagree("object %d is told the end of a stream, and %ld bytes are missing", index, flow_left(&file->in));
}

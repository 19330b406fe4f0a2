/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <runloop/runloop.h>
#include <string.h>

#include "connections.h"
#include "random.h"

static const char *const object_names[] = {"descriptor", "port", "socket(Read)", "socket(Data)", "socket(Accept)", "socket(None)"};
static const char *const file_names[] = {"pipe(read end)", "pipe(write end)", "stream", "datagram", "counter", "/dev/null",
                                         "tcp", "records", "listener", "listener(Unix)", "unconnected", "unconnected(Unix)"};
static const char *const target_names[] = {"one that listens", "nobody", "one without room"};
static const char *const op_names[] = {
    "open", "close", "dup", "put", "drain", "fill", "peer-drain", "peer-shut", "shut", "peer-close",
    "knock", "leave", "starve", "connect-file",
    "create", "add", "remove", "invalidate", "invalidate-source", "enable", "persist", "disable", "flags",
    "send", "write", "connect", "end", "let-go",
    "run", "sleep", "stop-sleep"};

/* In the order of file_kind. */
static const int file_weights[FILE_KINDS] = {4, 2, 5, 2, 3, 1, 3, 2, 2, 2, 3, 1};
/* In the order of op_kind: at the top of a program, and in scripts. */
static const int top_weights[OP_KINDS] = {4, 2, 2, 12, 6, 4, 5, 1, 1, 2, 8, 2, 1, 2, 14, 14, 5, 2, 2, 10, 6, 6, 2, 2, 6, 5, 3, 2, 26, 4, 2};
static const int script_weights[OP_KINDS] = {1, 1, 1, 6, 10, 2, 4, 1, 1, 1, 3, 1, 1, 1, 2, 4, 4, 3, 1, 10, 3, 6, 1, 1, 4, 2, 2, 2, 6, 0, 0};

static bool concerns_reuse(enum op_kind kind) { return kind == OP_CLOSE || kind == OP_DUP; }

static void make_op(struct op *op, struct random *random, const struct program *program, const int *weights,
                    const struct generator_options *options) {
    do op->kind = (enum op_kind)random_weighted(random, weights, OP_KINDS);
    while ((options->no_reuse && concerns_reuse(op->kind)) || (options->no_second_loop && op->kind == OP_SLEEP));
    op->object = random_below(random, program->objects);
    op->number = random_percent(random, 50) ? program->object[op->object].number : random_below(random, NUMBERS);
    op->other = op->kind == OP_OPEN ? random_weighted(random, file_weights, FILE_KINDS)
        : op->kind == OP_CONNECT || op->kind == OP_CONNECT_FILE ? random_weighted(random, (int[]){4, 4, 1}, TARGETS)
        : random_below(random, NUMBERS);
    op->loop = !options->no_second_loop && random_percent(random, 25);
    op->mode = random_percent(random, 30);
    op->handled = random_percent(random, 40);
    switch (op->kind) {
    case OP_ENABLE:
    case OP_PERSIST:
    case OP_DISABLE:
        op->value = random_between(random, 1, 3) | (random_percent(random, 15) ? CONNECT : 0);
        break;
    case OP_PUT:
        op->value = random_between(random, 0, 4);
        break;
    case OP_END:
        op->value = random_weighted(random, (int[]){4, 4, 1}, 3);
        break;
    case OP_FLAGS:
        op->value = random_below(random, 4);
        break;
    case OP_RUN:
        op->value = random_percent(random, 35) ? TIMEOUT_WAIT : TIMEOUT_NONE;
        break;
    default:
        op->value = random_between(random, 1, 3);
    }
}

enum subject {
    ANYTHING,
    /* Streams without room whose end has come: the kernel tells of that all the time, whatever is asked for. */
    ENDS,
    CONNECTIONS,
    /* Bytes that sockets queue and send. */
    WRITING,
    /* Objects that both loops have. */
    SHARING,
    SUBJECTS
};

/* The files that the subject is about, of which the objects get so many. */
static int choose_files(struct program *program, enum subject subject, struct random *random) {
    if (subject == CONNECTIONS) {
        program->file[0] = random_percent(random, 50) ? LISTENER + random_below(random, 2) : UNCONNECTED;
        program->file[1] = random_percent(random, 50) ? UNCONNECTED : LISTENER;
    } else if (subject == SHARING) {
        static const enum file_kind files[] = {PIPE_READ, STREAM, COUNTER, TCP, RECORDS, LISTENER, LOCAL_LISTENER, UNCONNECTED};
        for (int i = 0; i < 2; i++) program->file[i] = files[random_below(random, sizeof files / sizeof files[0])];
    } else {
        program->file[0] = STREAM;
        static const enum file_kind files[] = {TCP, TCP, STREAM, RECORDS, UNCONNECTED};
        if (subject == WRITING) program->file[0] = files[random_below(random, sizeof files / sizeof files[0])];
    }
    return subject == ENDS ? 2 : random_between(random, 1, 2);
}

static void choose_weights(int *weights, int *acts, enum subject subject) {
    int often = weights[OP_RUN];
    weights[OP_OPEN] = weights[OP_CLOSE] = 0;
    if (subject == CONNECTIONS) {
        weights[OP_KNOCK] = weights[OP_CONNECT] = often;
        weights[OP_LEAVE] = weights[OP_STARVE] = 4;
        return;
    }
    if (subject == SHARING) {
        weights[OP_CONNECT] = weights[OP_CREATE] = often / 2;
        weights[OP_SLEEP] = weights[OP_KNOCK] = weights[OP_DISABLE] = often / 2;
        weights[OP_PUT] = weights[OP_ENABLE] = often;
        return;
    }
    weights[OP_FILL] = subject == ENDS ? often : often / 4;
    weights[OP_PEER_DRAIN] = often;
    if (subject == ENDS) {
        weights[OP_SHUT] = often / 3;
        weights[OP_DUP] = 0;
    } else {
        weights[OP_WRITE] = weights[OP_PUT] = often;
        weights[OP_END] = weights[OP_SEND] = weights[OP_CONNECT] = often / 3;
        acts[OP_WRITE] = acts[OP_PEER_DRAIN] = 12;
        acts[OP_END] = 4;
    }
}

/* An object that was chosen before. */
static bool has_owner(const struct program *program, int index) {
    for (int i = 0; i < index; i++)
        if (program->object[i].owns && program->object[i].number == program->object[index].number) return true;
    return false;
}

static enum object_kind object_kind_for(enum file_kind file, struct random *random) {
    if (file == LISTENER || file == LOCAL_LISTENER) return SOCKET_ACCEPT;
    if (file == PIPE_READ || file == COUNTER) return random_percent(random, 50) ? PORT : DESCRIPTOR;
    return random_percent(random, 50) ? SOCKET_DATA : SOCKET_READ;
}

void program_generate(struct program *program, uint64_t seed, const struct generator_options *options) {
    struct random random;
    static const int kind_weights[OBJECT_KINDS] = {8, 4, 4, 3, 3, 1};
    random_start(&random, seed);
    memset(program, 0, sizeof *program);
    program->seed = seed;
    program->objects = random_between(&random, 1, MAX_OBJECTS);
    /* Few numbers, so that objects share them. */
    int numbers = random_between(&random, 1, NUMBERS);
    for (int i = 0; i < NUMBERS; i++) program->file[i] = (enum file_kind)random_weighted(&random, file_weights, FILE_KINDS);
    int weights[OP_KINDS], acts[OP_KINDS];
    enum subject subject = (enum subject)random_weighted(&random, (int[]){7, 4, 4, 5, options->no_second_loop ? 0 : 4}, SUBJECTS);
    memcpy(weights, top_weights, sizeof weights);
    memcpy(acts, script_weights, sizeof acts);
    if (subject != ANYTHING) numbers = choose_files(program, subject, &random);
    if (subject != ANYTHING) choose_weights(weights, acts, subject);
    for (int i = 0; i < program->objects; i++) {
        struct object_definition *object = &program->object[i];
        object->kind = (enum object_kind)random_weighted(&random, kind_weights, OBJECT_KINDS);
        object->number = random_below(&random, numbers);
        if (subject >= CONNECTIONS && random_percent(&random, 60)) object->kind = object_kind_for(program->file[object->number], &random);
        object->order = random_between(&random, -1, 1);
        object->script = random_percent(&random, subject == ENDS ? 20 : 60) ? random_below(&random, SCRIPTS) : -1;
        object->writes = object->kind == SOCKET_NONE || random_percent(&random, subject == WRITING ? 70 : 40);
        object->connects = object->kind >= SOCKET_READ && object->kind != SOCKET_ACCEPT && random_percent(&random, 50);
        object->owns = object->kind != PORT && !has_owner(program, i) && random_percent(&random, 20);
        object->leaves_errors = object->connects && random_percent(&random, 15);
    }
    for (int s = 0; s < SCRIPTS; s++) {
        program->script[s].count = random_between(&random, 1, MAX_SCRIPT_OPS);
        for (int i = 0; i < program->script[s].count; i++)
            make_op(&program->script[s].op[i], &random, program, acts, options);
    }
    static const unsigned activities[] = {kRLBeforeSources, kRLBeforeWaiting, kRLAfterWaiting};
    program->observer_script = random_percent(&random, 30) ? random_below(&random, SCRIPTS) : -1;
    program->activities = activities[random_below(&random, 3)];
    /* Most programs begin with objects that are in a mode and enabled. */
    for (int i = 0; i < program->objects && program->count + 3 < MAX_OPS; i++) {
        if (random_percent(&random, 15)) continue;
        int mode = random_percent(&random, 20), types = subject == ENDS ? WRITE : random_between(&random, 1, 3);
        int loop = !options->no_second_loop && random_percent(&random, 15);
        program->op[program->count++] = (struct op){.kind = OP_CREATE, .object = i};
        program->op[program->count++] = (struct op){.kind = OP_ADD, .object = i, .mode = mode, .loop = loop};
        if (subject == SHARING && program->count + 3 < MAX_OPS)
            program->op[program->count++] = (struct op){.kind = OP_ADD, .object = i, .mode = 0, .loop = !loop};
        program->op[program->count++] =
            (struct op){.kind = random_percent(&random, 30) ? OP_PERSIST : OP_ENABLE, .object = i, .value = types};
    }
    if (subject == CONNECTIONS)
        for (int i = 0; i < 2; i++)
            program->op[program->count++] =
                (struct op){.kind = OP_KNOCK, .number = i, .value = random_between(&random, 1, 3)};
    for (int i = 0; i < options->length && program->count < MAX_OPS; i++)
        make_op(&program->op[program->count++], &random, program, weights, options);
}

static void append(char text[96], const char *format, int value) {
    size_t length = strlen(text);
    snprintf(text + length, 96 - length, format, value);
}

void op_describe(const struct op *op, char text[96]) {
    snprintf(text, 96, "%s", op_names[op->kind]);
    if (op->kind < OP_CREATE) append(text, " number %d", op->number);
    if (op->kind == OP_OPEN) {
        append(text, " as ", 0);
        strncat(text, file_names[op->other], 95 - strlen(text));
    }
    if (op->kind == OP_KNOCK) append(text, " times %d", op->value);
    if (op->kind == OP_STARVE) append(text, " %d", op->value == 1);
    if (op->kind == OP_DUP) append(text, " from %d", op->other);
    if (op->kind >= OP_CREATE && op->kind <= OP_LET_GO) append(text, " object %d", op->object);
    if ((op->kind == OP_CONNECT || op->kind == OP_SEND) && op->value == 1) append(text, " and waits", 0);
    if (op->kind == OP_END) append(text, " how %d", op->value);
    if (op->kind == OP_WRITE) append(text, " size %d", op->value);
    if (op->kind == OP_CONNECT || op->kind == OP_CONNECT_FILE) {
        append(text, " to ", 0);
        strncat(text, target_names[op->other], 95 - strlen(text));
    }
    if (op->kind == OP_ADD || op->kind == OP_REMOVE || op->kind == OP_RUN || op->kind == OP_SLEEP) {
        if (op->kind != OP_SLEEP) append(text, " loop %d", op->loop);
        append(text, " mode %d", op->mode);
    }
    if (op->kind >= OP_ENABLE && op->kind <= OP_FLAGS) append(text, " types %d", op->value);
    if (op->kind == OP_PUT) append(text, " size %d", op->value);
    if (op->kind == OP_RUN) append(text, op->value == TIMEOUT_WAIT ? " wait" : " poll", 0);
    if (op->kind == OP_RUN && op->handled) append(text, " handled", 0);
}

static void print_script(const struct program *program, int script, FILE *out) {
    char text[96];
    if (script < 0 || program->script[script].count == 0) return;
    fprintf(out, " script %d {", script);
    for (int k = 0; k < program->script[script].count; k++) {
        op_describe(&program->script[script].op[k], text);
        fprintf(out, "%s%s", k ? "; " : " ", text);
    }
    fprintf(out, " }");
}

void program_print(const struct program *program, FILE *out) {
    char text[96];
    for (int i = 0; i < NUMBERS; i++) fprintf(out, "number %d: %s\n", i, file_names[program->file[i]]);
    for (int i = 0; i < program->objects; i++) {
        const struct object_definition *object = &program->object[i];
        fprintf(out, "object %d: %s%s%s%s%s on number %d order %d", i, object_names[object->kind],
                object->writes && object->kind >= SOCKET_READ ? "+Write" : "", object->connects ? "+Connect" : "",
                object->leaves_errors ? "+LeaveErrors" : "", object->owns ? " that owns" : "", object->number, object->order);
        print_script(program, object->script, out);
        fprintf(out, "\n");
    }
    if (program->observer_script >= 0) {
        fprintf(out, "observer of activity %u", program->activities);
        print_script(program, program->observer_script, out);
        fprintf(out, "\n");
    }
    for (int i = 0; i < program->count; i++) {
        op_describe(&program->op[i], text);
        fprintf(out, "  %s\n", text);
    }
}

int program_size(const struct program *program) {
    int size = program->count;
    for (int s = 0; s < SCRIPTS; s++) size += program->script[s].count;
    return size;
}

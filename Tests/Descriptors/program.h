/* SPDX-License-Identifier: MIT */
/* What one random program is: objects on a few descriptor numbers, scripts for their callbacks, and a list of operations. */
#ifndef DESCRIPTORS_PROGRAM_H
#define DESCRIPTORS_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { NUMBERS = 4, MAX_OBJECTS = 7, SCRIPTS = 5, MAX_SCRIPT_OPS = 4, MAX_OPS = 64, LOOPS = 2, MODES = 2 };

/* Types of callbacks, as bits. READ is also that of connections that are accepted and of data. */
enum { READ = 1, WRITE = 2, CONNECT = 4 };

enum object_kind { DESCRIPTOR, PORT, SOCKET_READ, SOCKET_DATA, SOCKET_ACCEPT, SOCKET_NONE, OBJECT_KINDS };

/* What a number can name. STREAM, TCP, RECORDS (SOCK_SEQPACKET) and DATAGRAM are halves of pairs whose peers belong to the program; UNCONNECTED and LOCAL_UNCONNECTED
   become such halves. */
enum file_kind {
    PIPE_READ, PIPE_WRITE, STREAM, DATAGRAM, COUNTER, NULL_DEVICE, TCP, RECORDS, LISTENER, LOCAL_LISTENER, UNCONNECTED, LOCAL_UNCONNECTED, FILE_KINDS
};

struct object_definition {
    enum object_kind kind;
    int number;
    int order;
    int script; /* -1: none */
    bool writes, connects; /* a socket with the Write type, the Connect type */
    bool owns; /* Invalidate closes the number: of the objects on a number one at most */
    bool leaves_errors;    /* a socket with the flag LeaveErrors */
};

enum op_kind {
    /* The files. */
    OP_OPEN, OP_CLOSE, OP_DUP, OP_PUT, OP_DRAIN, OP_FILL, OP_PEER_DRAIN, OP_PEER_SHUT, OP_SHUT, OP_PEER_CLOSE, OP_KNOCK,
    OP_LEAVE, OP_STARVE, OP_CONNECT_FILE,
    /* The objects. */
    OP_CREATE, OP_ADD, OP_REMOVE, OP_INVALIDATE, OP_INVALIDATE_SOURCE, OP_ENABLE, OP_PERSIST, OP_DISABLE, OP_FLAGS, OP_SEND, OP_WRITE, OP_CONNECT,
    OP_END, OP_LET_GO,
    /* The loops. */
    OP_RUN, OP_SLEEP, OP_STOP_SLEEP,
    OP_KINDS
};

enum { TIMEOUT_NONE, TIMEOUT_WAIT, TIMEOUT_KINDS };

struct op {
    enum op_kind kind;
    int object, number, other; /* other: a second number, the kind of a file, or a target */
    int loop, mode;
    int value;                 /* types, flags, bytes, or a timeout */
    bool handled;              /* of a run: returnAfterSourceHandled */
};

struct script {
    int count;
    struct op op[MAX_SCRIPT_OPS];
};

struct program {
    uint64_t seed;
    int objects, count;
    struct object_definition object[MAX_OBJECTS];
    enum file_kind file[NUMBERS];
    struct script script[SCRIPTS];
    /* What an observer of all modes does, at these activities. */
    int observer_script; /* -1: none */
    unsigned activities;
    struct op op[MAX_OPS];
};

struct generator_options {
    int length;
    bool no_second_loop;
    bool no_reuse; /* no number is closed under its objects */
};

void program_generate(struct program *program, uint64_t seed, const struct generator_options *options);
void program_print(const struct program *program, FILE *out);
void op_describe(const struct op *op, char text[96]);
int program_size(const struct program *program);

#endif

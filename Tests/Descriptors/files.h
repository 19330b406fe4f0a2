/* SPDX-License-Identifier: MIT */
/* The files that the numbers of a program name. What each is ready for the kernel is asked: poll(2) shares nothing with epoll(7). */
#ifndef DESCRIPTORS_FILES_H
#define DESCRIPTORS_FILES_H

#include "connections.h"
#include "flow.h"
#include "program.h"

/* The first number; far above what the process has otherwise, so that only the program opens and closes them. */
enum { MANY = TARGETS };
enum { FIRST_NUMBER = 200, WRITE_SIZE = 12000 /* more than a stream takes at once */ };
/* A put of PUTS bytes is one of PUT_SIZE where the file takes that: more than a Data callback gets of a stream. */
enum { PUTS = 4, PUT_SIZE = 40000, HIGH_WATER = 4 * WRITE_SIZE };

struct file {
    enum file_kind kind;
    int peer;      /* -1: none, or closed */
    int names;     /* how many numbers name it */
    uint64_t count; /* of a counter: what a read gives */
    struct listener *listener; /* NULL: it does not listen */
    struct flow in, out; /* to the number, and from it to the peer */
    bool in_ends; /* the peer has ended, or either end was shut: the end of the stream may be told */
    bool out_ended; /* the peer has met the end of the stream */
    /* What became of the connects: -1: there was none; MANY: the last may tell of another one. */
    int connect;
};

bool file_is_socket(const struct file *file);
/* Half of a connection, which has an end. */
bool file_is_connection(const struct file *file);
/* What was read and has length 0 is the end (S-SOCK-26, 27). */
bool file_is_at_end(int number);
/* A socket that is, was or can be connected, and no datagrams. */
bool file_is_stream(const struct file *file);
/* NULL: the number is closed. */
struct file *file_of(int number);

void files_open_all(const struct program *program);
void files_close_all(void);

/* Gives the number, which may be open, a new file. */
void file_open(int number, enum file_kind kind);
void file_close(int number);
/* The library closes it. */
void file_forget(int number);
/* Those that the library was to close are closed by now. */
bool files_are_closed(void);
/* Gives the number, which is closed, the file of another one. */
void file_dup(int number, int from);
void file_put(int number, int count);
void file_drain(int number);
void file_fill(int number);
void file_peer_drain(int number);
void file_peer_shut(int number);
/* What is on its way to the peer arrives there. False: less than was sent. */
bool file_peer_take(int number);
/* Both halves of the program's end. */
void file_shut(int number);
void file_peer_close(int number);

void file_knock(int number, int count);
void file_leave(int number);
/* The program connects it without a wait; and whoever has begun a connect says so. */
void file_connect(int number, enum target target);
void file_connect_begun(int number, enum target target);
/* A socket object of the library can be made to connect it. */
bool file_can_connect(int number);
/* While it is so, nothing can be accepted, for lack of descriptors. */
void files_starve(bool is_so);
bool files_are_starving(void);

/* Waits until a TCP peer has acknowledged what it has read. */
void file_await_room(int number);

/* Moves a descriptor away from low numbers, which the library's own may take. */
int file_away(int fd);

/* CONNECT: a connect is over; READ and WRITE, as select(2) has it (S-SOCK-51). */
int file_ready(int number);

#endif

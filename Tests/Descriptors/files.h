/* SPDX-License-Identifier: MIT */
/* The files that the numbers of a program name. What each is ready for the kernel is asked: poll(2) shares nothing with epoll(7). */
#ifndef DESCRIPTORS_FILES_H
#define DESCRIPTORS_FILES_H

#include "program.h"

/* The first number; far above what the process has otherwise, so that only the program opens and closes them. */
enum { FIRST_NUMBER = 200, WRITE_SIZE = 12000 /* more than a stream takes at once */ };

struct file {
    enum file_kind kind;
    int peer;      /* -1: none, or closed */
    int names;     /* how many numbers name it */
    uint64_t count; /* of a counter: what a read gives */
};

/* NULL: the number is closed. */
struct file *file_of(int number);

void files_open_all(const struct program *program);
void files_close_all(void);

/* Gives the number, which may be open, a new file. */
void file_open(int number, enum file_kind kind);
void file_close(int number);
/* Gives the number, which is closed, the file of another one. */
void file_dup(int number, int from);
void file_put(int number, int count);
void file_drain(int number);
void file_fill(int number);
void file_peer_drain(int number);
void file_peer_shut(int number);
/* Both halves of the program's end. */
void file_shut(int number);
void file_peer_close(int number);

/* READ and WRITE, as select(2) has it (S-SOCK-51). */
int file_ready(int number);

#endif

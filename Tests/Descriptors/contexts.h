/* SPDX-License-Identifier: MIT */
/* The contexts of a program's objects: each is released once, and nothing is called with it afterwards. */
#ifndef DESCRIPTORS_CONTEXTS_H
#define DESCRIPTORS_CONTEXTS_H

#include <stdbool.h>

void contexts_start(void);
/* The info of the object that was made as the generation-th, from 1 on, with that index. */
void *context_make(int index, int generation);
/* It was not taken. */
void context_unmake(int index, int generation);
int context_index(const void *info);
int context_generation(const void *info);
/* For the contexts; any thread, without the lock of the model. */
void context_release(const void *info);
bool context_is_released(int index, int generation);
/* At the end of a program, when nothing refers to an object. */
void contexts_check(void);

#endif

/* SPDX-License-Identifier: MIT */
/* Operations on files and on objects: each is done to the model and by the library. */
#ifndef DESCRIPTORS_OPERATIONS_H
#define DESCRIPTORS_OPERATIONS_H

#include "program.h"

void do_file_op(const struct op *op);
void do_object_op(const struct op *op);

/* Whether the object is valid. A socket whose number was closed may have found out (S-SOCK-13), and one that is closed may be so by now. */
bool can_use(int index);

#endif

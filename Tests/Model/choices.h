/* SPDX-License-Identifier: MIT */
/* Where the specification leaves something open the model asks here. A search then looks for
   answers with which the model's trace is the observed one. */
#ifndef MODEL_CHOICES_H
#define MODEL_CHOICES_H

#include <stdbool.h>

enum { MAX_CHOICES = 4000 };

struct choices {
    int count;  /* asked so far in this run of the model */
    int prefix; /* as many answers are given; later ones are 0 */
    unsigned char answer[MAX_CHOICES];
    unsigned char options[MAX_CHOICES];
    int position[MAX_CHOICES]; /* entries in the trace when the question came */
};

/* Returns an answer in 0 ..< options; 0 is the one tried first. */
int choices_ask(struct choices *choices, int options, int position);

/* After a mismatch at a place of the trace: takes the last question before that place that has an
   answer left, answers it differently and forgets the later ones. Returns false if there is none.
   */
bool choices_advance(struct choices *choices, int mismatch);

#endif

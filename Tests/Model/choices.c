/* SPDX-License-Identifier: MIT */
#include "choices.h"

int choices_ask(struct choices *choices, int options, int position) {
    if (options <= 1 || choices->count == MAX_CHOICES) return 0;
    int index = choices->count++;
    if (index >= choices->prefix) choices->answer[index] = 0;
    choices->options[index] = (unsigned char)options;
    choices->position[index] = position;
    return choices->answer[index];
}

bool choices_advance(struct choices *choices, int mismatch) {
    /* A question that came after the mismatch cannot have caused it. */
    for (int i = choices->count - 1; i >= 0; i--) {
        if (choices->position[i] > mismatch || choices->answer[i] + 1 >= choices->options[i]) continue;
        choices->answer[i]++;
        choices->prefix = i + 1;
        choices->count = 0;
        return true;
    }
    return false;
}

/* SPDX-License-Identifier: MIT */
/* Which errors a call may return, by its page in section 2 or 3 of the manual. EFAULT is left out: it says that the caller is broken. */
#ifndef RUNLOOP_FAULTS_ERRORS_H
#define RUNLOOP_FAULTS_ERRORS_H

#include <stdbool.h>

typedef struct Error {
    const char *name;
    int number;
    /* The call is made all the same: it has an effect, or goes on, whatever it returns. */
    bool is_made;
    /* It says of the arguments what is not so: what the call was for may be lost, and nothing else. */
    bool is_false;
} Error;

/* The errors of a call, ended by one without a name. A call that is not known has none. */
const Error *errors_of(const char *call);

/* What a failing call leaves where it would have written: neither what it would have written nor, by chance, something harmless. The
 * arguments are those of the call. */
void spoil_results(const char *call, long a, long b, long c, long d, long e);

#endif

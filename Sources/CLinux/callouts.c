/* SPDX-License-Identifier: MIT */
/* The frames of the client's functions. */
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxCallOuts.h"

/* What the unwinder calls for a function that an exception passes through; its numbers are those of the Itanium C++ ABI. */
enum { FORCED_UNWIND = 8, CONTINUE_UNWIND = 8, NO_HANDLER_AND_NO_WAY_ON = 3 };

static void (*thread_leaves)(void);

void rl_on_leave(void (*function)(void)) { thread_leaves = function; }

/* The thread's end and its cancellation pass through as a forced unwind, and the library is notified that its part of the stack below is gone. An
 * exception ends its search here, so that the C++ runtime calls std::terminate while the stack is still as it was when the exception was thrown
 * (S-DBG-3). */
__attribute__((visibility("hidden"), used))
int rl_stop_exceptions(int version, int actions, uint64_t kind, void *exception, void *context) {
    (void)version;
    (void)kind;
    (void)exception;
    (void)context;
    if (actions & FORCED_UNWIND) {
        if (thread_leaves) thread_leaves();
        return CONTINUE_UNWIND;
    }
    static const char line[] = "RunLoop: an exception leaves a call-out; the process ends\n";
    rl_write_line(line, sizeof line - 1, true);
    return NO_HANDLER_AND_NO_WAY_ON;
}

/* Names the function above as the personality of the function it is used in; pc-relative, in four bytes. The function's name keeps the
 * compiler from merging two with equal code. */
#define STOPS_EXCEPTIONS(name) __asm__ volatile(".cfi_personality 0x1b, rl_stop_exceptions /* " #name " */")

/* The barrier keeps each call from becoming a jump, which would leave no frame. */
#define RL_DEFINE_CALL_OUT(name, parameters, arguments) \
    void RLCallOut##name(void (*function) parameters, RL_PARAMETERS parameters) { \
        STOPS_EXCEPTIONS(name); \
        function arguments; \
        rl_compiler_barrier(); \
    }
#define RL_DEFINE_CALL_OUT_WITH_RESULT(name, type, parameters, arguments) \
    type RLCallOut##name(type (*function) parameters, RL_PARAMETERS parameters) { \
        STOPS_EXCEPTIONS(name); \
        type result = function arguments; \
        rl_compiler_barrier(); \
        return result; \
    }

RL_CALL_OUTS(RL_DEFINE_CALL_OUT)
RL_CALL_OUTS_WITH_RESULT(RL_DEFINE_CALL_OUT_WITH_RESULT)

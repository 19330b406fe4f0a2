/* Functions queued for a loop: the form of CFRunLoopPerformBlock that needs no block support. */
#ifndef RUNLOOP_PERFORM_H
#define RUNLOOP_PERFORM_H

#include "base.h"

RL_HEADER_BEGIN

RL_EXPORT void RLPerformFunction(RLRunLoopRef RL_NULLABLE rl, RLMode RL_NULLABLE mode,
                                 void (*RL_NULLABLE perform)(void *RL_NULLABLE info), void *RL_NULLABLE info,
                                 void (*RL_NULLABLE release)(void *RL_NULLABLE info));

RL_EXPORT void RLPerformFunctionInModes(RLRunLoopRef RL_NULLABLE rl, const RLMode RL_NULLABLE *RL_NULLABLE modes,
                                        RLIndex count, void (*RL_NULLABLE perform)(void *RL_NULLABLE info),
                                        void *RL_NULLABLE info,
                                        void (*RL_NULLABLE release)(void *RL_NULLABLE info));

RL_HEADER_END

#endif

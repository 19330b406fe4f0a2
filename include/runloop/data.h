/* RLDataRef: an immutable, reference-counted run of bytes. */
#ifndef RUNLOOP_DATA_H
#define RUNLOOP_DATA_H

#include "base.h"

RL_HEADER_BEGIN

typedef const struct RLData *RLDataRef;

RL_EXPORT RLTypeID RLDataGetTypeID(void);

RL_EXPORT RLDataRef RL_NULLABLE RLDataCreate(const void *RL_NULLABLE bytes, size_t length) RL_WARN_UNUSED_RESULT;

RL_EXPORT const void *RL_NULLABLE RLDataGetBytePtr(RLDataRef RL_NULLABLE d);

RL_EXPORT size_t RLDataGetLength(RLDataRef RL_NULLABLE d);

RL_HEADER_END

#endif

/* SPDX-License-Identifier: MIT */
/* The RL interface over the toolchain's CoreFoundation.
 *
 * A C file that includes <runloop/runloop.h> and is linked with cf_shim.c instead of librunloop
 * runs on CoreFoundation. The handles are the CoreFoundation objects themselves, so a pointer
 * compares as it does there. The shim adds no rule of its own except where CoreFoundation would
 * crash on a NULL argument: such a call does nothing, so that a test of those rules ends with a
 * failed check and not with a signal.
 *
 * What has no counterpart does nothing: RLSetLogHandler, RLSetSpinLimit. */
#ifndef CF_SHIM_H
#define CF_SHIM_H

#include <CoreFoundation/CoreFoundation.h>
#include <runloop/runloop.h>

/* The string CoreFoundation sees for a mode. The pointers kRLDefaultMode and kRLCommonModes become
 * CoreFoundation's own constants; every other text becomes one string object per text, kept for
 * ever, so an equal text at another address is not the pseudo-mode, just as in CoreFoundation. */
CFStringRef RLShimString(RLMode mode);

/* The way back; the result is kept for ever. */
RLMode RLShimMode(CFStringRef string);

#endif

/* SPDX-License-Identifier: MIT */
/* Sending to a CFMachPortRef of this process: message.h. */
#ifndef RUNLOOP_CF_MACH_MACH_H
#define RUNLOOP_CF_MACH_MACH_H

#include "message.h"
#include "port.h"

#endif

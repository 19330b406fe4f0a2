/* SPDX-License-Identifier: MIT */
/*
 * Everything of the CoreFoundation interface: run loops, their sources, timers, observers, sockets, descriptors and ports, and
 * the objects that travel with them. Start with CFBase.h, which explains references, threads and mistakes.
 */
#ifndef RUNLOOP_CF_COREFOUNDATION_H
#define RUNLOOP_CF_COREFOUNDATION_H

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "CFArray.h"
#include "CFBase.h"
#include "CFByteOrder.h"
#include "CFData.h"
#include "CFDate.h"
#include "CFDictionary.h"
#include "CFFileDescriptor.h"
#include "CFMachPort.h"
#include "CFMessagePort.h"
#include "CFNumber.h"
#include "CFRunLoop.h"
#include "CFSet.h"
#include "CFSocket.h"
#include "CFString.h"

#endif

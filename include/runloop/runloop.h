/* RunLoop: everything a C program needs; each concept has its own header, which is its manual. */
#ifndef RUNLOOP_RUNLOOP_H
#define RUNLOOP_RUNLOOP_H

#include "base.h"
#include "blocks.h"
#include "data.h"
#include "loop.h"
#include "observer.h"
#include "perform.h"
#include "source.h"
#include "timer.h"

#endif

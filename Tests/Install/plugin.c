/* SPDX-License-Identifier: MIT */
/* A plug-in that contains librunloop.a, for unload.c. */
#include <runloop/runloop.h>

RLRunLoopRef plugin_loop(void);

RLRunLoopRef plugin_loop(void) { return RLGetCurrent(); }

/* SPDX-License-Identifier: MIT */
/* The installed headers as one Swift module; pkg-config says where they are. */
#ifndef RUNLOOP_INSTALLED_H
#define RUNLOOP_INSTALLED_H

#include <runloop/runloop.h>

#endif

/* SPDX-License-Identifier: MIT */
#include <runloop/runloop.h>

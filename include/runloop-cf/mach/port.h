/* SPDX-License-Identifier: MIT */
/* The number of a Mach port: here one of a CFMachPortRef of this process. */
#ifndef RUNLOOP_CF_MACH_PORT_H
#define RUNLOOP_CF_MACH_PORT_H

typedef unsigned int mach_port_t;
typedef mach_port_t mach_port_name_t;

/** No port, and a port that died. */
#define MACH_PORT_NULL ((mach_port_t)0)
#define MACH_PORT_DEAD ((mach_port_t)~0)
#define MACH_PORT_VALID(name) ((name) != MACH_PORT_NULL && (name) != MACH_PORT_DEAD)

#endif

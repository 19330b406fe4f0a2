/* SPDX-License-Identifier: MIT */
/*
 * RunLoop: everything a C program needs. Each concept has its own header, which is its manual:
 *
 *   base.h      conventions: references, time, NULL, threads, fork; read it first
 *   loop.h      the loop, its modes, running it, waking and stopping it
 *   source.h    sources: signalled by the program or by a file descriptor
 *   timer.h     timers
 *   filedescriptor.h  callbacks when a descriptor can be read or written
 *   socket.h    sockets: listening, connecting, receiving, sending
 *   socketio.h  sockets for servers: queues, orderly closing, options, descriptors
 *   clock.h     clocks that the program moves, to test in no time what would take hours
 *   observer.h  callbacks at the stages of a run
 *   perform.h   functions queued for a loop; blocks.h: the same for blocks
 *   mainqueue.h libdispatch's main queue, served by the main loop
 *   kernelevent.h  signals, processes, files and clocks as sources, in kqueue's shape
 *   foreign.h   runs that wait in another event loop: GLib, libuv, epoll
 *   machport.h  messages between the threads of a process
 *   thread.h    threads that run a loop
 *   distributedlock.h  locks that are files, for processes and hosts
 *   lock.h      locks (lockorder.h reports inconsistent orders); sync.h: conditions, once, semaphores
 *               and other things that threads wait for
 *   atomic.h    atomic operations with the meaning of OSAtomic
 *   insight.h   names, lists of items, and what keeps a loop from being finished
 *   watchdog.h  which callback blocks a loop, reported while the loop is blocked
 *   share.h     the same for other processes: runloop-top(1)
 *   trace.h     a file that records what the loops do, for pictures
 *   data.h      reference-counted bytes
 *   messageport.h  named ports, between threads and between processes
 *   portcodes.h  result codes of sending to a port
 *
 * Compile and link with the flags that `pkg-config --cflags --libs runloop` prints.
 * Rules: Docs/semantics.md numbers every behaviour; Docs/porting.md explains how to port a program
 * from CoreFoundation, and Docs/deviations.md lists the differences.
 */
#ifndef RUNLOOP_RUNLOOP_H
#define RUNLOOP_RUNLOOP_H

#include "atomic.h"
#include "base.h"
#include "blocks.h"
#include "clock.h"
#include "data.h"
#include "distributedlock.h"
#include "filedescriptor.h"
#include "foreign.h"
#include "insight.h"
#include "kernelevent.h"
#include "lock.h"
#include "lockorder.h"
#include "loop.h"
#include "machport.h"
#include "mainqueue.h"
#include "messageport.h"
#include "observer.h"
#include "perform.h"
#include "portcodes.h"
#include "share.h"
#include "socket.h"
#include "socketio.h"
#include "source.h"
#include "sync.h"
#include "thread.h"
#include "timer.h"
#include "trace.h"
#include "watchdog.h"

#endif

/*
 * RunLoop: everything a C program needs. Each concept has its own header, which is its manual:
 *
 *   base.h      the words of this manual, references, time, NULL, threads: read it first
 *   loop.h      the loop, its modes, running it, waking and stopping it
 *   source.h    sources: signalled by the program, or by a file descriptor
 *   timer.h     timers
 *   filedescriptor.h  callbacks when a descriptor can be read or written
 *   socket.h    sockets: listening, connecting, receiving, sending
 *   observer.h  callbacks at the stages of a run
 *   perform.h   functions queued for a loop; blocks.h: the same for blocks
 *   mainqueue.h libdispatch's main queue, served by the main loop
 *   kernelevent.h  signals, processes, files and clocks as sources, in kqueue's shape
 *   foreign.h   runs whose waits another loop makes: GLib's, libuv's, epoll
 *   machport.h  messages between the threads of a process
 *   thread.h    threads that live in their loops
 *   data.h      bytes with a reference count
 *   messageport.h  named ports, between threads and between processes
 *   portcodes.h  what sending to a port can end with
 *
 * A program compiles and links with what `pkg-config --cflags --libs runloop` says.
 * Rules: Docs/semantics.md numbers every behaviour; Docs/porting.md leads from CoreFoundation to
 * here, and Docs/deviations.md lists where the two differ.
 */
#ifndef RUNLOOP_RUNLOOP_H
#define RUNLOOP_RUNLOOP_H

#include "base.h"
#include "blocks.h"
#include "data.h"
#include "filedescriptor.h"
#include "foreign.h"
#include "kernelevent.h"
#include "loop.h"
#include "machport.h"
#include "mainqueue.h"
#include "messageport.h"
#include "observer.h"
#include "perform.h"
#include "portcodes.h"
#include "socket.h"
#include "source.h"
#include "thread.h"
#include "timer.h"

#endif

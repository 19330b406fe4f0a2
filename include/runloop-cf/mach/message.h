/* SPDX-License-Identifier: MIT */
/*
 * Messages to a CFMachPortRef of this process: a header and bytes behind it.
 *
 * A message is received by the run loop that has the port's source; there is no call to receive one by hand. It carries bytes and the
 * number of a port for the answer, neither ports nor memory (no MACH_MSGH_BITS_COMPLEX).
 */
#ifndef RUNLOOP_CF_MACH_MESSAGE_H
#define RUNLOOP_CF_MACH_MESSAGE_H

#include <CoreFoundation/CFBase.h>

#include "port.h"

CF_EXTERN_C_BEGIN

typedef unsigned int mach_msg_bits_t;
typedef unsigned int mach_msg_size_t;
typedef int mach_msg_id_t;
typedef unsigned int mach_msg_timeout_t;
typedef int mach_msg_option_t;
typedef int kern_return_t;
typedef kern_return_t mach_msg_return_t;

/** The first part of a message. msgh_size counts it and the bytes behind it; a sender's remote port is where the message goes. */
typedef struct {
    mach_msg_bits_t msgh_bits;
    mach_msg_size_t msgh_size;
    mach_port_t msgh_remote_port;
    mach_port_t msgh_local_port;
    mach_port_name_t msgh_voucher_port;
    mach_msg_id_t msgh_id;
} mach_msg_header_t;

/** Which right to a port goes along; none of these differ here. */
#define MACH_MSG_TYPE_MOVE_SEND 17
#define MACH_MSG_TYPE_MOVE_SEND_ONCE 18
#define MACH_MSG_TYPE_COPY_SEND 19
#define MACH_MSG_TYPE_MAKE_SEND 20
#define MACH_MSG_TYPE_MAKE_SEND_ONCE 21
#define MACH_MSGH_BITS(remote, local) ((mach_msg_bits_t)((remote) | ((local) << 8)))

/** Options of mach_msg: to send, for no longer than a time. */
#define MACH_MSG_OPTION_NONE 0x00000000
#define MACH_SEND_MSG 0x00000001
#define MACH_SEND_TIMEOUT 0x00000010
#define MACH_MSG_TIMEOUT_NONE ((mach_msg_timeout_t)0)

#define KERN_SUCCESS 0
#define MACH_MSG_SUCCESS 0x00000000
#define MACH_SEND_INVALID_DATA 0x10000002
#define MACH_SEND_INVALID_DEST 0x10000003
#define MACH_SEND_TIMED_OUT 0x10000004
#define MACH_SEND_MSG_TOO_SMALL 0x10000008
#define MACH_SEND_INVALID_REPLY 0x10000009
#define MACH_SEND_INVALID_TYPE 0x1000000f

/**
 * Queues a message of send_size bytes for the port msg->msgh_remote_port.
 *
 * option: MACH_SEND_MSG, with MACH_SEND_TIMEOUT or without; anything else traps. timeout: milliseconds to wait for room in the
 *     queue with MACH_SEND_TIMEOUT; without it the call waits as long as it takes. rcv_size, rcv_name, notify: not used.
 * Returns: MACH_MSG_SUCCESS; MACH_SEND_INVALID_DEST for a number that is not a valid port's, MACH_SEND_INVALID_REPLY if the local port is
 *     neither MACH_PORT_NULL nor a valid port, MACH_SEND_MSG_TOO_SMALL, MACH_SEND_TIMED_OUT.
 * Threads: any. Ownership: the message stays the caller's. Reentrancy: calls nothing out.
 */
CF_EXPORT mach_msg_return_t mach_msg(mach_msg_header_t *msg, mach_msg_option_t option, mach_msg_size_t send_size,
                                     mach_msg_size_t rcv_size, mach_port_name_t rcv_name, mach_msg_timeout_t timeout,
                                     mach_port_name_t notify) RLCF_(mach_msg);
/** Sends a message of msg->msgh_size bytes without a time limit. */
CF_EXPORT mach_msg_return_t mach_msg_send(mach_msg_header_t *msg) RLCF_(mach_msg_send);

CF_EXTERN_C_END

#endif

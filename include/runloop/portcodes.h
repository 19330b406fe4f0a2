/* SPDX-License-Identifier: MIT */
/*
 * Result codes of sending to a port, for machport.h and messageport.h.
 *
 * Rules: Docs/semantics.md, sections 17 and 18.
 */
#ifndef RUNLOOP_PORTCODES_H
#define RUNLOOP_PORTCODES_H

/** How a send or a request ended. CF: the kCFMessagePort… codes, with the same values. */
enum {
    /** The message is queued; for a request with a reply mode: the reply has arrived. */
    kRLMessagePortSuccess = 0,
    /** The queue stayed full for as long as the call may wait. */
    kRLMessagePortSendTimeout = -1,
    /** There was no reply in time. */
    kRLMessagePortReceiveTimeout = -2,
    /** The port was NULL or invalid, or cannot be sent to. */
    kRLMessagePortIsInvalid = -3,
    /** The message cannot be sent: it is too large, or there is no memory or descriptor for it. */
    kRLMessagePortTransportError = -4,
    /** The remote port became invalid while the caller waited for the reply. */
    kRLMessagePortBecameInvalidError = -5
};

#endif

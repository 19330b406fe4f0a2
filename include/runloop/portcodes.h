/*
 * What sending to a port can end with: the codes of machport.h and messageport.h.
 *
 * Rules: Docs/semantics.md, sections 17 and 18.
 */
#ifndef RUNLOOP_PORTCODES_H
#define RUNLOOP_PORTCODES_H

/** What a send or a request ends with. CF: the kCFMessagePort… codes, with the same values. */
enum {
    /** The message is queued; for a request with a reply mode: the reply is there. */
    kRLMessagePortSuccess = 0,
    /** The queue stayed full for as long as the call may wait. */
    kRLMessagePortSendTimeout = -1,
    /** There was no reply in time. */
    kRLMessagePortReceiveTimeout = -2,
    /** The port was NULL or invalid, or not one to send to. */
    kRLMessagePortIsInvalid = -3,
    /** The message cannot travel: too large, or no memory or descriptor for it. */
    kRLMessagePortTransportError = -4,
    /** The remote port became invalid while its reply was waited for. */
    kRLMessagePortBecameInvalidError = -5
};

#endif

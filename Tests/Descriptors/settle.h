/* SPDX-License-Identifier: MIT */
/* The end of a program: what is left to report is reported, and what is left to send arrives. */
#ifndef DESCRIPTORS_SETTLE_H
#define DESCRIPTORS_SETTLE_H

void settle(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Which system a program is compiled for, in the words that Mac sources ask for it: Linux. What asks for the Mac's other
 * frameworks or for its kernel is thereby left out.
 */
#ifndef RUNLOOP_CF_TARGETCONDITIONALS_H
#define RUNLOOP_CF_TARGETCONDITIONALS_H

#define TARGET_OS_LINUX 1
#define TARGET_OS_UNIX 1
#define TARGET_OS_MAC 0
#define TARGET_OS_OSX 0
#define TARGET_OS_IPHONE 0
#define TARGET_OS_IOS 0
#define TARGET_OS_TV 0
#define TARGET_OS_WATCH 0
#define TARGET_OS_SIMULATOR 0
#define TARGET_OS_EMBEDDED 0
#define TARGET_OS_WIN32 0
#define TARGET_OS_WINDOWS 0
#define TARGET_RT_64_BIT 1
#define TARGET_RT_LITTLE_ENDIAN 1
#define TARGET_RT_BIG_ENDIAN 0

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Byte order: reversing integers, and converting them between the processor's order and big or little endian.
 */
#ifndef RUNLOOP_CF_BYTEORDER_H
#define RUNLOOP_CF_BYTEORDER_H

#include "CFBase.h"

CF_EXTERN_C_BEGIN

/** What CFByteOrderGetCurrent returns. */
enum { CFByteOrderUnknown, CFByteOrderLittleEndian, CFByteOrderBigEndian };
typedef CFIndex CFByteOrder;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define RLCF_FROM_BIG(size, x) (x)
#define RLCF_FROM_LITTLE(size, x) __builtin_bswap##size(x)
#define RLCF_BYTE_ORDER CFByteOrderBigEndian
#else
#define RLCF_FROM_BIG(size, x) __builtin_bswap##size(x)
#define RLCF_FROM_LITTLE(size, x) (x)
#define RLCF_BYTE_ORDER CFByteOrderLittleEndian
#endif

/** The processor's order. */
CF_INLINE CFByteOrder CFByteOrderGetCurrent(void) { return RLCF_BYTE_ORDER; }
/** Reverses the bytes. */
CF_INLINE uint16_t CFSwapInt16(uint16_t arg) { return __builtin_bswap16(arg); }
CF_INLINE uint32_t CFSwapInt32(uint32_t arg) { return __builtin_bswap32(arg); }
CF_INLINE uint64_t CFSwapInt64(uint64_t arg) { return __builtin_bswap64(arg); }
/** From big endian, which is the network's order, to the processor's, and back. */
CF_INLINE uint16_t CFSwapInt16BigToHost(uint16_t arg) { return RLCF_FROM_BIG(16, arg); }
CF_INLINE uint32_t CFSwapInt32BigToHost(uint32_t arg) { return RLCF_FROM_BIG(32, arg); }
CF_INLINE uint64_t CFSwapInt64BigToHost(uint64_t arg) { return RLCF_FROM_BIG(64, arg); }
CF_INLINE uint16_t CFSwapInt16HostToBig(uint16_t arg) { return RLCF_FROM_BIG(16, arg); }
CF_INLINE uint32_t CFSwapInt32HostToBig(uint32_t arg) { return RLCF_FROM_BIG(32, arg); }
CF_INLINE uint64_t CFSwapInt64HostToBig(uint64_t arg) { return RLCF_FROM_BIG(64, arg); }
/** From little endian to the processor's order, and back. */
CF_INLINE uint16_t CFSwapInt16LittleToHost(uint16_t arg) { return RLCF_FROM_LITTLE(16, arg); }
CF_INLINE uint32_t CFSwapInt32LittleToHost(uint32_t arg) { return RLCF_FROM_LITTLE(32, arg); }
CF_INLINE uint64_t CFSwapInt64LittleToHost(uint64_t arg) { return RLCF_FROM_LITTLE(64, arg); }
CF_INLINE uint16_t CFSwapInt16HostToLittle(uint16_t arg) { return RLCF_FROM_LITTLE(16, arg); }
CF_INLINE uint32_t CFSwapInt32HostToLittle(uint32_t arg) { return RLCF_FROM_LITTLE(32, arg); }
CF_INLINE uint64_t CFSwapInt64HostToLittle(uint64_t arg) { return RLCF_FROM_LITTLE(64, arg); }

CF_EXTERN_C_END

#endif

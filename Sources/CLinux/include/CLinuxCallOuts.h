/* SPDX-License-Identifier: MIT */
/* The only functions that call the client. Each has a frame of its own with a name that a backtrace shows, so they are exported,
 * and an exception never leaves one: S-DBG-2, S-DBG-3. The library holds no lock in any of them (S-THR-3). */
#ifndef CLINUX_CALL_OUTS_H
#define CLINUX_CALL_OUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#define RL_GIVEN _Nonnull
#define RL_OR_NULL _Nullable
#else
#define RL_GIVEN
#define RL_OR_NULL
#endif

/* Registers a function that is called each time that the end of a thread leaves a call-out. Before the first call-out. */
void rl_on_leave(void (*RL_GIVEN function)(void)) __attribute__((visibility("hidden")));

/* What a handle points to. */
struct rl_object;
typedef struct rl_object *rl_handle;

/* A function without a result: its name, its parameters as declared and as passed. */
#define RL_CALL_OUTS(call) \
    call(Source, (void *RL_OR_NULL info), (info)) \
    call(PortSource, (void *RL_OR_NULL info), (info)) \
    call(Function, (void *RL_OR_NULL info), (info)) \
    call(FunctionRelease, (void *RL_OR_NULL info), (info)) \
    call(MainQueue, (void *RL_OR_NULL info), (info)) \
    call(Release, (const void *RL_OR_NULL info), (info)) \
    call(Timer, (rl_handle RL_OR_NULL timer, void *RL_OR_NULL info), (timer, info)) \
    call(Observer, (rl_handle RL_OR_NULL observer, uintptr_t activity, void *RL_OR_NULL info), (observer, activity, info)) \
    call(FileDescriptor, (rl_handle RL_OR_NULL file, uintptr_t types, void *RL_OR_NULL info), (file, types, info)) \
    call(Socket, (rl_handle RL_OR_NULL socket, uintptr_t type, rl_handle RL_OR_NULL address, const void *RL_OR_NULL data, \
        void *RL_OR_NULL info), (socket, type, address, data, info)) \
    call(KernelEvent, (rl_handle RL_OR_NULL source, const void *RL_GIVEN event, void *RL_OR_NULL info), (source, event, info)) \
    call(MachPort, (rl_handle RL_GIVEN port, const void *RL_GIVEN message, void *RL_OR_NULL info), (port, message, info)) \
    call(Reply, (rl_handle RL_GIVEN port, int32_t result, rl_handle RL_OR_NULL data, void *RL_OR_NULL info), \
        (port, result, data, info)) \
    call(Invalidation, (rl_handle RL_GIVEN port, void *RL_OR_NULL info), (port, info)) \
    call(Schedule, (void *RL_OR_NULL info, rl_handle RL_OR_NULL loop, const char *RL_OR_NULL mode), (info, loop, mode)) \
    call(Cancel, (void *RL_OR_NULL info, rl_handle RL_OR_NULL loop, const char *RL_OR_NULL mode), (info, loop, mode)) \
    call(Thread, (rl_handle RL_GIVEN thread, void *RL_OR_NULL info), (thread, info)) \
    call(SlowCallout, (const void *RL_GIVEN callout, void *RL_OR_NULL info), (callout, info)) \
    call(LogHandler, (const char *RL_GIVEN line, void *RL_OR_NULL info), (line, info))

/* The same with a result. */
#define RL_CALL_OUTS_WITH_RESULT(call) \
    call(Message, rl_handle RL_OR_NULL, (rl_handle RL_GIVEN port, int32_t msgid, rl_handle RL_GIVEN data, void *RL_OR_NULL info), \
        (port, msgid, data, info)) \
    call(GetPort, int, (void *RL_OR_NULL info), (info)) \
    call(Retain, const void *RL_OR_NULL, (const void *RL_OR_NULL info), (info)) \
    call(Equal, bool, (const void *RL_OR_NULL first, const void *RL_OR_NULL second), (first, second)) \
    call(Hash, uintptr_t, (const void *RL_OR_NULL info), (info)) \
    call(CopyDescription, char *RL_OR_NULL, (const void *RL_OR_NULL info), (info))

#define RL_PARAMETERS(...) __VA_ARGS__
#define RL_DECLARE_CALL_OUT(name, parameters, arguments) \
    __attribute__((visibility("default"))) \
    void RLCallOut##name(void (*RL_GIVEN function) parameters, RL_PARAMETERS parameters);
#define RL_DECLARE_CALL_OUT_WITH_RESULT(name, result, parameters, arguments) \
    __attribute__((visibility("default"))) \
    result RLCallOut##name(result (*RL_GIVEN function) parameters, RL_PARAMETERS parameters);
RL_CALL_OUTS(RL_DECLARE_CALL_OUT)
RL_CALL_OUTS_WITH_RESULT(RL_DECLARE_CALL_OUT_WITH_RESULT)

#endif

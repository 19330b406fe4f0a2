# SPDX-License-Identifier: MIT
"""Serves a RunLoop inside an asyncio event loop.

A thread waits in one place: here in asyncio. A `Host` puts a mode of the thread's run loop into the running event loop by a
foreign run (foreign.h): its sources, timers and functions are served between asyncio's callbacks, and both sides wait together.

    import asyncio
    import runloop_asyncio as runloop

    async def main():
        with runloop.Host() as host:
            timer = runloop.Timer(0.5, lambda timer: print("tick"), interval=0.5)
            await asyncio.sleep(2)
            timer.invalidate()
            print(await host.finished())

    asyncio.run(main())

C libraries that use the run loop of their thread need no more than the Host. `lib` has the C functions by ctypes; the environment's
RUNLOOP_LIBRARY names the library where it is not installed for all.

All of it belongs to the event loop's thread, except `perform` and `wake_up`, which any thread may call. SystemExit and
KeyboardInterrupt of a function that a Host serves end the event loop, as asyncio's own do; other exceptions of functions go to
sys.unraisablehook.
"""
import asyncio
import ctypes
import enum
import itertools
import os
import threading
import weakref

__all__ = ["Host", "Result", "Timer", "lib", "perform", "current", "wake_up", "stop", "DEFAULT_MODE"]

lib = ctypes.CDLL(os.environ.get("RUNLOOP_LIBRARY", "librunloop.so.0.2"))
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_TIMER_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_MODE = ctypes.c_char_p


def _declare(name, result, *arguments):
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


_declare("RLGetCurrent", ctypes.c_void_p)
_declare("RLRetain", ctypes.c_void_p, ctypes.c_void_p)
_declare("RLRelease", None, ctypes.c_void_p)
_declare("RLStop", None, ctypes.c_void_p)
_declare("RLWakeUp", None, ctypes.c_void_p)
_declare("RLIsModeEmpty", ctypes.c_bool, _MODE)
_declare("RLRunInMode", ctypes.c_int32, _MODE, ctypes.c_double, ctypes.c_bool)
_declare("RLAbsoluteTimeGetCurrent", ctypes.c_double)
_declare("RLPerformFunction", None, ctypes.c_void_p, _MODE, _FUNCTION, ctypes.c_void_p, _FUNCTION)
_declare("RLTimerCreate", ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_ulong, ctypes.c_long, _TIMER_FUNCTION,
         ctypes.c_void_p)
_declare("RLTimerInvalidate", None, ctypes.c_void_p)
_declare("RLTimerIsValid", ctypes.c_bool, ctypes.c_void_p)
_declare("RLAddTimer", None, ctypes.c_void_p, ctypes.c_void_p, _MODE)
_declare("RLForeignRunCreate", ctypes.c_void_p, _MODE)
_declare("RLForeignRunGetDescriptor", ctypes.c_int, ctypes.c_void_p)
_declare("RLForeignRunPrepare", ctypes.c_double, ctypes.c_void_p)
_declare("RLForeignRunDispatch", ctypes.c_int32, ctypes.c_void_p)
_declare("RLForeignRunInvalidate", None, ctypes.c_void_p)

#: The mode in which most items are.
DEFAULT_MODE = ctypes.c_char_p.in_dll(lib, "kRLDefaultMode").value.decode()


class Result(enum.IntEnum):
    """How a run ended: RLRunResult."""

    FINISHED = 1
    STOPPED = 2


class _OfThread(threading.local):
    dispatches = 0  #: calls of Host._dispatch that are under way
    error = None  #: what ends the event loop when they have returned

    def __init__(self):
        self.timers = set()  #: those that can fire; the end of the thread lets them go


_of_thread = _OfThread()


def _guarded(function, *arguments):
    """Calls a function that is called by the library, through which no exception can pass."""
    try:
        function(*arguments)
    except (SystemExit, KeyboardInterrupt) as error:
        if not _of_thread.dispatches:
            raise
        _of_thread.error = error


def _look_for_the_end():
    """A run that waits does not notice that nothing is left; a pass does."""
    lib.RLWakeUp(lib.RLGetCurrent())


class Host:
    """A mode of this thread's run loop, served by the running event loop until `close`, or to the end of a `with`.

    When nothing is left in the mode, or the run was stopped, `finished` tells, also if it is called after that; the next item begins
    a new run. A run loop has one Host at a time: another raises OSError. In a callback of the run loop it serves its mode, but sees
    no end of a run. In the child of fork it is closed, so that the child can have one of its own. One that is never closed stays
    while its event loop is open or something refers to it.
    """

    _open = weakref.WeakSet()
    _run = None
    _untold = None  #: how the last run ended, if nobody waited for that

    def __init__(self, mode=DEFAULT_MODE):
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting = []
        self._mode = mode.encode()
        self._run = lib.RLForeignRunCreate(self._mode)
        if not self._run:
            raise OSError("this run loop has a foreign run already, the mode cannot be run, or no descriptor is free")
        self._descriptor = lib.RLForeignRunGetDescriptor(self._run)
        try:
            self._loop.add_reader(self._descriptor, self._dispatch)
        except BaseException:
            self._end_run()
            raise
        Host._open.add(self)

    def _dispatch(self):
        _of_thread.dispatches += 1
        try:
            result = lib.RLForeignRunDispatch(self._run)
        finally:
            _of_thread.dispatches -= 1
        if self._run:  # no callback closed it
            if result:
                waiting = [future for future in self._waiting if not future.done()]
                self._waiting = []
                for future in waiting:
                    future.set_result(Result(result))
                self._untold = None if waiting else Result(result)
            # So that the next wait is one: the descriptor tells of the rest.
            lib.RLForeignRunPrepare(self._run)
        # Last: the program may go on with the event loop.
        if not _of_thread.dispatches and _of_thread.error:
            error, _of_thread.error = _of_thread.error, None
            raise error

    async def finished(self):
        """Waits for the end of the run: a Result. Raises CancelledError if the Host is closed, or is closed before that.

        An end for which nobody waited is told at once, and once: STOPPED until another run has ended, FINISHED while nothing is in
        the mode. Otherwise this waits, also for a run that is still to begin. A run ends after a pass. Where code of a C library that
        is called by asyncio takes the last item away, call wake_up.
        """
        if not self._run:
            raise asyncio.CancelledError
        result, self._untold = self._untold, None
        if result is Result.STOPPED or result and lib.RLIsModeEmpty(self._mode):
            return result
        _look_for_the_end()
        future = self._loop.create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            # It was told, and given up before it had heard of it.
            if not future.cancelled() and future.done():
                self._untold = future.result()
            raise
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def close(self):
        """Takes the run loop out of the event loop; its items stay in it. A second call does nothing."""
        if not self._run:
            return
        is_served = not self._loop.is_closed()
        if is_served:
            self._loop.remove_reader(self._descriptor)
        self._end_run()
        # Nobody waits any more in a loop that is closed, which refuses to be told.
        for future in list(self._waiting) if is_served else []:
            future.cancel()

    def _end_run(self):
        """On another thread, where garbage may be collected, the run stays until its own thread ends."""
        run, self._run = self._run, None
        if run and self._thread == threading.get_ident():
            lib.RLForeignRunInvalidate(run)
        if run:
            lib.RLRelease(run)

    def __del__(self):
        self._end_run()

    @staticmethod
    def _close_in_child():
        """The event loop is the parent's, and stays as it is."""
        for host in list(Host._open):
            host._end_run()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


os.register_at_fork(after_in_child=Host._close_in_child)


class Timer:
    """Calls function(timer) after so many seconds, and then each interval, if there is one, until it is invalidated.

    It stays alive while it is valid and its thread has not ended.
    """

    def __init__(self, delay, function, interval=0, mode=DEFAULT_MODE):
        def fire(_timer, _info):
            if not interval:
                _of_thread.timers.discard(self)
            _guarded(function, self)

        name = mode.encode()
        self._function = _TIMER_FUNCTION(fire)
        self._timer = lib.RLTimerCreate(lib.RLAbsoluteTimeGetCurrent() + delay, interval, 0, 0, self._function, None)
        if not self._timer:
            raise ValueError("the interval is not a number")
        _of_thread.timers.add(self)
        lib.RLAddTimer(lib.RLGetCurrent(), self._timer, name)

    def invalidate(self):
        """Ends the timer; in its function, too."""
        lib.RLTimerInvalidate(self._timer)
        _of_thread.timers.discard(self)
        _look_for_the_end()

    def is_valid(self):
        """Tells whether it can still fire."""
        return lib.RLTimerIsValid(self._timer)

    def __del__(self):
        if getattr(self, "_timer", None):
            lib.RLTimerInvalidate(self._timer)
            lib.RLRelease(self._timer)


#: What is queued, by the number that the library hands back.
_queued = {}
_keys = itertools.count(1)


@_FUNCTION
def _call(key):
    try:
        _guarded(_queued[key])
    finally:
        _look_for_the_end()


@_FUNCTION
def _forget(key):
    _queued.pop(key, None)


class RunLoop:
    """A run loop, as `current` returns it: it can be named as long as this lives, also when its thread has ended."""

    def __init__(self):
        self._as_parameter_ = lib.RLRetain(lib.RLGetCurrent())

    def __del__(self):
        lib.RLRelease(self._as_parameter_)

    def __eq__(self, other):
        return isinstance(other, RunLoop) and self._as_parameter_ == other._as_parameter_

    def __hash__(self):
        return hash(self._as_parameter_)


def current():
    """The run loop of this thread, for `perform`, `wake_up`, `stop` and functions of `lib`."""
    return RunLoop()


def _checked(loop):
    """Nothing else reaches the library, which would take a number for an address."""
    if not isinstance(loop, RunLoop):
        raise TypeError(f"a RunLoop, as current() returns it, is expected instead of {loop!r}")
    return loop


def perform(function, loop=None, mode=DEFAULT_MODE):
    """Queues a function for a run loop, that of this thread or a given one, and wakes it. Any thread may call this."""
    loop = lib.RLGetCurrent() if loop is None else _checked(loop)
    name, key = mode.encode(), next(_keys)
    _queued[key] = function
    lib.RLPerformFunction(loop, name, _call, key, _forget)
    lib.RLWakeUp(loop)


def wake_up(loop):
    """Makes a run loop look for what there is to do. Any thread may call this."""
    lib.RLWakeUp(_checked(loop))


def stop(loop=None):
    """Ends the present run of a run loop: `Host.finished` gives STOPPED."""
    lib.RLStop(lib.RLGetCurrent() if loop is None else _checked(loop))

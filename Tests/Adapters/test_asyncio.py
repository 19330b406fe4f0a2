#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Section 26: a run loop inside an asyncio event loop, whose other side are TCP connections, threads and asyncio's own timers."""
import asyncio
import ctypes
import gc
import os
import sys
import threading
import time
import unittest
import weakref

import runloop_asyncio as runloop


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def main(body):
    """Runs a coroutine function on a fresh thread, which has a run loop and an event loop of its own."""
    outcome = []

    def work():
        try:
            outcome.append(asyncio.run(asyncio.wait_for(body(), 60)))
        except BaseException as error:  # noqa: the test's thread raises it again
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


class Asyncio(unittest.TestCase):
    def test_both_sides_are_served(self):
        """S-FRN-1 S-FRN-3: the run loop's timers fire in order while asyncio's tasks, timers and connections go on."""

        async def body():
            fires, echoes, ticks = [], [], []

            async def echo(reader, writer):
                while line := await reader.readline():
                    writer.write(line)
                writer.close()

            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())

            def fire(timer):
                fires.append(len(fires))
                writer.write(b"%d\n" % len(fires))
                if len(fires) == 50:
                    timer.invalidate()

            async def tick():
                while len(fires) < 50:
                    ticks.append(time.monotonic())
                    await asyncio.sleep(0.001)

            with runloop.Host() as host:
                runloop.Timer(0.001, fire, interval=0.002)
                ticking = asyncio.create_task(tick())
                for count in range(1, 51):
                    echoes.append(int(await reader.readline()))
                self.assertEqual(echoes, list(range(1, 51)))
                await ticking
                self.assertGreater(len(ticks), 10)
            writer.close()
            server.close()

        main(body)

    def test_a_run_ends_and_another_begins(self):
        """S-FRN-6: `finished` gives how a run ended; the next item begins another run."""

        async def body():
            with runloop.Host() as host:
                for result in (runloop.Result.FINISHED, runloop.Result.STOPPED, runloop.Result.FINISHED):
                    ends = asyncio.create_task(host.finished())
                    await asyncio.sleep(0)
                    if result is runloop.Result.STOPPED:
                        keep = runloop.Timer(1000, lambda timer: None)
                        runloop.Timer(0.01, lambda timer: runloop.stop())
                    else:
                        runloop.Timer(0.01, lambda timer: None)
                    self.assertIs(await ends, result)
                    if result is runloop.Result.STOPPED:
                        keep.invalidate()

        main(body)

    def test_a_run_ends_where_a_task_takes_the_last_item(self):
        """S-FRN-6: `finished` also tells when the last item was invalidated by a task, or was a function."""

        is_waiting = runloop.lib.RLIsWaiting
        is_waiting.restype, is_waiting.argtypes = ctypes.c_bool, [ctypes.c_void_p]

        async def body():
            loop = runloop.current()
            with runloop.Host() as host:
                for waits_first in (False, True):
                    fired = asyncio.get_running_loop().create_future()
                    timer = runloop.Timer(0, lambda timer: fired.done() or fired.set_result(None), interval=1000)
                    await fired
                    while not is_waiting(loop):
                        await asyncio.sleep(0)
                    ends = asyncio.create_task(host.finished())
                    if waits_first:
                        await asyncio.sleep(0)
                    timer.invalidate()
                    self.assertIs(await ends, runloop.Result.FINISHED)
                    calls = []
                    ends = asyncio.create_task(host.finished())
                    if waits_first:
                        await asyncio.sleep(0)
                    runloop.perform(lambda: calls.append(None))
                    self.assertIs(await ends, runloop.Result.FINISHED)
                    self.assertEqual(len(calls), 1)

        main(body)

    def test_the_end_of_a_run_is_told_later(self):
        """S-FRN-6: who asks after the end of a run is told at once how it ended, once, and not if there is something in the mode again."""

        is_waiting = runloop.lib.RLIsWaiting
        is_waiting.restype, is_waiting.argtypes = ctypes.c_bool, [ctypes.c_void_p]

        async def begun():
            """In the wait of a run."""
            while not is_waiting(runloop.current()):
                await asyncio.sleep(0)

        async def ended(host):
            """After the end of the run that is under way."""
            while not host._untold:
                await asyncio.sleep(0)

        async def body():
            with runloop.Host() as host:
                runloop.Timer(0.001, lambda timer: None)
                await ended(host)
                # At once: the call does not wait.
                with self.assertRaises(StopIteration) as returned:
                    host.finished().send(None)
                self.assertIs(returned.exception.value, runloop.Result.FINISHED)
                # Once: this one waits for the next run.
                next_end = asyncio.create_task(host.finished())
                await asyncio.sleep(0)
                self.assertFalse(next_end.done())
                runloop.perform(lambda: None)
                self.assertIs(await next_end, runloop.Result.FINISHED)
                # Something is in the mode again.
                runloop.perform(lambda: None)
                await ended(host)
                keep = runloop.Timer(1000, lambda timer: None)
                end = asyncio.create_task(host.finished())
                await asyncio.sleep(0)
                self.assertFalse(end.done())
                await begun()
                keep.invalidate()
                self.assertIs(await end, runloop.Result.FINISHED)
                # A stop is not forgotten because something is left.
                keep = runloop.Timer(1000, lambda timer: None)
                runloop.perform(runloop.stop)
                await ended(host)
                self.assertIs(await host.finished(), runloop.Result.STOPPED)
                # An end that has come is not lost because who waited for it was cancelled at that moment.
                given_up = host.finished()
                future = given_up.send(None)
                await begun()
                keep.invalidate()
                while not future.done():
                    await asyncio.sleep(0)
                self.assertRaises(asyncio.CancelledError, given_up.throw, asyncio.CancelledError())
                self.assertIs(await host.finished(), runloop.Result.FINISHED)

        main(body)

    def test_another_thread_performs(self):
        """S-FRN-3: what other threads queue is called at once, on the event loop's thread."""

        async def body():
            calls = []
            loop, thread = runloop.current(), threading.get_ident()
            done = asyncio.get_running_loop().create_future()

            def call():
                calls.append(threading.get_ident())
                if len(calls) == 3000:
                    done.set_result(None)

            with runloop.Host():
                keep = runloop.Timer(1000, lambda timer: None)
                workers = [threading.Thread(target=lambda: [runloop.perform(call, loop) for _ in range(1000)]) for _ in range(3)]
                for worker in workers:
                    worker.start()
                await done
                for worker in workers:
                    worker.join()
                keep.invalidate()
            self.assertEqual(set(calls), {thread})
            self.assertEqual(runloop._queued, {})

        main(body)

    def test_an_idle_run_loop_costs_nothing(self):
        """S-FRN-3: while nothing is due the descriptor is not readable, and the event loop sleeps."""

        async def body():
            with runloop.Host() as host:
                keep = runloop.Timer(1000, lambda timer: None)
                await asyncio.sleep(0.05)
                calls, dispatch = [], host._dispatch
                asyncio.get_running_loop().remove_reader(host._descriptor)
                asyncio.get_running_loop().add_reader(host._descriptor, lambda: (calls.append(1), dispatch()))
                await asyncio.sleep(0.2)
                self.assertLess(len(calls), 5)
                keep.invalidate()

        main(body)

    def test_callbacks_may_do_anything(self):
        """S-FRN-9 S-FRN-10: a callback runs the loop, raises, closes the host; nothing is served afterwards."""

        async def body():
            loop = asyncio.get_running_loop()
            told, nested, late = [], [], []
            closed = loop.create_future()

            def fails(timer):
                raise ValueError("for the test")

            def runs_the_loop(timer):
                runloop.Timer(0.001, lambda inner: (nested.append(1), runloop.stop()))
                while not nested:
                    runloop.lib.RLRunInMode(runloop.DEFAULT_MODE.encode(), 60, False)

            hook, sys.unraisablehook = sys.unraisablehook, lambda error: told.append(error.exc_type)
            try:
                host = runloop.Host()
                runloop.Timer(0.001, fails)
                runloop.Timer(0.002, runs_the_loop)

                def closes(timer):
                    host.close()
                    runloop.Timer(0.001, lambda timer: late.append(1))
                    closed.set_result(None)

                runloop.Timer(0.05, closes)
                waiting = asyncio.create_task(host.finished())
                await closed
                await asyncio.sleep(0.02)
                self.assertTrue(waiting.cancelled())
            finally:
                sys.unraisablehook = hook
            self.assertEqual(told, [ValueError])
            self.assertEqual(nested, [1])
            self.assertEqual(late, [])
            host.close()

        main(body)

    def test_a_loop_outlives_its_thread(self):
        """S-LOOP-9: what another thread performs on a loop whose thread has ended is forgotten, and harms nothing."""

        async def body():
            with runloop.Host():
                self.assertEqual(runloop.current(), runloop.current())
                return runloop.current()

        loop = main(body)
        self.assertNotEqual(loop, runloop.current())
        others = [ctypes.create_string_buffer(size) for size in range(16, 4096, 16) for _ in range(10)]
        runloop.perform(lambda: others.clear(), loop)
        runloop.wake_up(loop)
        self.assertTrue(others)
        self.assertEqual(runloop._queued, {})

    def test_exits_end_the_event_loop(self):
        """S-FRN-3: SystemExit and KeyboardInterrupt of a timer's or a performed function end the event loop as asyncio's own do."""
        for begin in (lambda function: runloop.Timer(0.001, lambda timer: function()), runloop.perform):
            for error in (SystemExit, KeyboardInterrupt):

                async def body():
                    def fails():
                        raise error(3)

                    with runloop.Host() as host:
                        begin(fails)
                        await asyncio.sleep(30)

                self.assertRaises(error, main, body)

    def test_an_exit_does_not_lose_the_end_of_a_run(self):
        """S-FRN-3: whoever waits for the end of a run is told also if the last function ended the event loop, which may go on."""
        for error in (SystemExit, KeyboardInterrupt):
            loop = asyncio.new_event_loop()
            results = []

            def fails(timer):
                raise error(3)

            async def begin():
                host = runloop.Host()
                runloop.Timer(0.001, fails)
                return host

            async def wait(host):
                results.append(await asyncio.wait_for(host.finished(), 30))

            host = loop.run_until_complete(begin())
            waiting = loop.create_task(wait(host))
            self.assertRaises(error, loop.run_forever)
            loop.run_until_complete(waiting)
            self.assertEqual(results, [runloop.Result.FINISHED])
            host.close()
            loop.close()

    def test_nothing_grows(self):
        """S-FRN-6: neither waits for the end of a run that are given up nor timers of threads that have ended stay."""

        async def body():
            with runloop.Host() as host:
                timers.add(runloop.Timer(1000, lambda timer: None))
                for _ in range(20):
                    waiting = asyncio.create_task(host.finished())
                    await asyncio.sleep(0)
                    waiting.cancel()
                    await asyncio.wait([waiting])
                self.assertEqual(host._waiting, [])

        timers = weakref.WeakSet()
        main(body)
        gc.collect()
        self.assertEqual(list(timers), [])

    def test_a_loop_is_no_number(self):
        """S-FRN-12: what is no run loop is refused with an exception, also where it could be taken for an address or for none."""
        for loop in (0, 5, -1, True, False, 1.5, "loop", b"loop", "", [], object()):
            self.assertRaises(TypeError, runloop.perform, print, loop)
            self.assertRaises(TypeError, runloop.wake_up, loop)
            self.assertRaises(TypeError, runloop.stop, loop)
        self.assertRaises(TypeError, runloop.wake_up, None)
        self.assertEqual(runloop._queued, {})

    def test_what_is_refused_leaves_nothing(self):
        """S-FRN-12: a timer, a function or a host that cannot be made keeps nothing, and stands in nothing's way."""

        async def body():
            def refuse(*_):
                raise OSError("no room")

            function = Function()
            functions.add(function)
            for call in (
                lambda: runloop.Timer(1000, function, mode=3),
                lambda: runloop.perform(function, mode=3),
                lambda: runloop.perform(function, object()),
            ):
                self.assertRaises((AttributeError, TypeError), call)
            loop = asyncio.get_running_loop()
            loop.add_reader = refuse
            self.assertRaises(OSError, runloop.Host)
            del loop.add_reader
            runloop.Host().close()
            del function
            gc.collect()
            self.assertEqual(list(functions), [])

        class Function:
            def __call__(self, *_):
                """It is never called."""

        functions = weakref.WeakSet()
        main(body)

    def test_a_child_has_a_host(self):
        """S-FRN-13: in the child of fork the parent's Host is closed, another serves the loop, and the parent's goes on."""

        async def child():
            with runloop.Host() as host:
                runloop.Timer(0.001, lambda timer: None)
                return await asyncio.wait_for(host.finished(), 30)

        async def body():
            fires = []
            with runloop.Host():
                ticking = runloop.Timer(0.001, lambda timer: fires.append(1), interval=0.001)
                process = os.fork()
                if process == 0:
                    try:
                        ticking.invalidate()
                        os._exit(0 if asyncio.run(child()) is runloop.Result.FINISHED else 1)
                    except BaseException as error:  # noqa: the child must not go on
                        print(repr(error), file=sys.stderr)
                        os._exit(2)
                while not (ended := os.waitpid(process, os.WNOHANG))[0]:
                    await asyncio.sleep(0.005)
                self.assertEqual(ended[1], 0)
                before = len(fires)
                while len(fires) < before + 5:
                    await asyncio.sleep(0.001)
                ticking.invalidate()

        main(body)

    def test_a_closed_host_has_no_end(self):
        """S-FRN-10: waiting for the end of the run of a Host that is closed ends at once, in the way of one that is closed meanwhile."""

        async def body():
            host = runloop.Host()
            host.close()
            waiting = asyncio.create_task(host.finished())
            done, _ = await asyncio.wait([waiting], timeout=30)
            self.assertTrue(done and waiting.cancelled())

        main(body)

    def test_a_host_outlives_its_event_loop(self):
        """S-FRN-10: a Host with a task that waits for its end can be closed after the event loop was."""
        hosts = []

        async def leaves_one():
            hosts.append(runloop.Host())
            hosts.append(asyncio.ensure_future(hosts[0].finished()))
            await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        # It would complain of the task that will never be done.
        loop.set_exception_handler(lambda loop, context: None)
        loop.run_until_complete(leaves_one())
        loop.close()
        hosts[0].close()
        hosts[0].close()

    def test_a_host_that_is_left_open(self):
        """S-FRN-10 S-FRN-12: a Host that is never closed goes with its event loop: the thread's next one can have a Host, and no descriptor stays."""

        async def leaves_one():
            runloop.Host()
            await asyncio.sleep(0)

        asyncio.run(leaves_one())
        gc.collect()
        before = descriptors()
        for _ in range(3):
            asyncio.run(leaves_one())
            gc.collect()
        self.assertEqual(descriptors(), before)

    def test_nothing_is_left(self):
        """S-FRN-10 S-FRN-12: hosts that are closed leave no descriptor; a second one at a time is refused."""

        async def body():
            with runloop.Host():
                self.assertRaises(OSError, runloop.Host)
            before = descriptors()
            for _ in range(100):
                with runloop.Host():
                    await asyncio.sleep(0)
            self.assertEqual(descriptors(), before)
            common = ctypes.c_char_p.in_dll(runloop.lib, "kRLCommonModes").value.decode()
            self.assertRaises(OSError, runloop.Host, common)

        main(body)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: MIT
"""A run loop served by asyncio: its timer ticks between asyncio's tasks, and a thread hands it a function."""
import asyncio
import threading

import runloop_asyncio as runloop


async def main():
    ticked = asyncio.Event()

    def tick(timer):
        print("run loop: tick")
        ticked.set()
        tick.count += 1
        if tick.count == 3:
            timer.invalidate()

    tick.count = 0
    with runloop.Host() as host:
        runloop.Timer(0.02, tick, interval=0.02)
        loop = runloop.current()
        worker = threading.Thread(target=runloop.perform, args=(lambda: print("run loop: from a thread"), loop))
        worker.start()
        await ticked.wait()
        print("asyncio: a task goes on")
        print("asyncio: the run has", (await host.finished()).name.lower())
        worker.join()


asyncio.run(main())

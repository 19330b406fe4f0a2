# SPDX-License-Identifier: MIT
"""S-TRC-11: an arrow leads from a post to its own call, also where the first records were written over and where a loop ended with its posts.
usage: rewritten.py RUNLOOP-TRACE REWRITTEN"""
import json
import os
import subprocess
import sys
import tempfile

tool, program = sys.argv[1:]


def pairs(folder, posts, function):
    """The posts of a function, its calls, and the numbers of those that an arrow connects."""
    trace = f"{folder}/{posts}.trace"
    subprocess.run([program, str(posts)], env={**os.environ, "RUNLOOP_TRACE": trace}, check=True)
    subprocess.run([sys.executable, tool, "--output", trace + ".json", trace], check=True)
    events = json.load(open(trace + ".json"))["traceEvents"]
    # An arrow stands behind the slice at which it begins or ends.
    made, called, starts, ends = [], [], {}, {}
    for event in events:
        if event["ph"] == "X":
            latest = event
            if event["name"] == f"post {function}":
                made.append(event)
            elif event["name"] == function:
                called.append(event)
        elif event["ph"] == "s":
            starts[event["id"]] = latest
        elif event["ph"] == "f":
            ends[event["id"]] = latest
    order = {id(event): number for events in (made, called) for number, event in enumerate(events)}
    arrows = [(order[id(starts[flow])], order[id(ends[flow])]) for flow in ends if ends[flow]["name"] == function]
    return made, called, arrows


with tempfile.TemporaryDirectory() as folder:
    # Everything is there: each call is that of its post.
    made, called, arrows = pairs(folder, 0, "at_once")
    assert len(made) == len(called) == 200 and sorted(arrows) == [(n, n) for n in range(200)], (len(made), len(called), arrows)
    # A post of a loop that ended is not the one that a later loop in its memory calls.
    made, called, arrows = pairs(folder, 0, "never_called")
    assert len(made) == 8 and all(made[one]["tid"] == made[0]["tid"] for one, _ in arrows)
    for one, other in arrows:
        assert one > 0 and made[one]["args"]["loop"] == made[one - 1]["args"]["loop"], (one, other)
        assert not any(made[one]["ts"] < post["ts"] <= called[other]["ts"] for post in made), (one, other)
    # The loop's ring has its last calls, and the ring for all has more posts.
    made, called, arrows = pairs(folder, 1000, "at_once")
    assert 0 < len(called) < len(made) == 200, (len(called), len(made))
    assert sorted(arrows) == [(n + len(made) - len(called), n) for n in range(len(called))], arrows
    # Both rings were written over.
    made, called, arrows = pairs(folder, 40000, "in_a_queue")
    assert 0 < len(called) < len(made) < 40000, (len(called), len(made))
    assert sorted(arrows) == [(n + len(made) - len(called), n) for n in range(len(called))], arrows[:10]

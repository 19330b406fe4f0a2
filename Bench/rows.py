# SPDX-License-Identifier: MIT
"""The rows of the table: what is run, and what the library is to reach."""
from dataclasses import dataclass
from typing import Callable, Optional

# In the order of the table's columns: name of the program, heading.
PEERS = [
    ("runloop", "RunLoop"),
    ("full", "RunLoop, full Swift"),
    ("raw", "raw"),
    ("raw-wheel", "raw wheel"),
    ("cf", "CF"),
    ("glib", "GLib"),
    ("libuv", "libuv"),
    ("libevent", "libevent"),
    ("libev", "libev"),
    ("sd_event", "sd-event"),
]
# Programs that do nothing, beside the row of starting.
EMPTY = ["empty", "empty_libbsd"]
OTHERS = ["cf", "glib", "libuv", "libevent", "libev", "sd_event"]


# What the program `machine` prints, in its order.
CHARGES = ["a clock", "a coarse clock", "the processor's counter", "an atomic exchange", "a lock taken and given back",
           "a system call", "a switch between threads of one core", "a read of memory that is in no cache"]


@dataclass
class Goal:
    words: str
    # From the medians of all columns of the row, the limit; a KeyError or a ValueError where one that it needs is missing.
    # `charge:` and a name is what the machine charges, `of:` and a key what the library takes in another row.
    limit: Callable


@dataclass
class Row:
    key: str
    title: str
    workload: str
    # The arguments after the number of operations; or all of them, if operations is 0.
    arguments: tuple = ()
    # 0: not counted in operations; None: as many as fit; otherwise that many.
    operations: Optional[int] = None
    unit: str = "ns"
    # Which number of the program's output.
    column: int = 0
    # What the library is to reach. None: no more than the best peer.
    goals: Optional[list] = None
    only: Optional[list] = None
    # One run in place of rounds.
    once: bool = False
    # The first part of the programs' names.
    program: str = "bench"
    # What the second raw program is called in the table.
    other_raw: str = "wheel"
    # The row whose figures stand for the others, who have one kind of what this row is about.
    like: str = ""
    # Runs in a round: more where the machine's own wake-ups scatter most.
    times: int = 1


def at_most(value):
    return Goal("≤ %g" % value if value else "0", lambda m: value)


def of(factor, peer, words=None):
    words = words or peer
    return Goal("≤ %g %s" % (factor, words) if factor != 1 else "≤ " + words, lambda m: factor * m[peer])


def of_raw(factor):
    return Goal("≤ %g raw" % factor, lambda m: factor * min(m[p] for p in ("raw", "raw-wheel") if p in m))


BEST = Goal("≤ best peer", lambda m: min(m[p] for p in OTHERS if p in m))
RAW_AND_A_CALL = Goal("≤ raw + a system call", lambda m: m["raw"] + m["charge:a system call"])


def size(n):
    for power, suffix in ((10**6, "M"), (10**3, "k")):
        if n >= power:
            return "%g%s" % (n / power, suffix)
    return str(n)


ROWS = [
    Row("ping_pong_same", "ping-pong, one core", "ping_pong", (1, 0), goals=[of_raw(1.15), BEST]),
    Row("ping_pong_same_fd", "the same, a descriptor in the mode", "ping_pong", (1, 1), goals=[of_raw(1.15), BEST]),
    Row("ping_pong_each", "ping-pong, a core each", "ping_pong", (2, 0), goals=[of_raw(1.05), BEST]),
    Row("ping_pong_each_fd", "the same, a descriptor in the mode", "ping_pong", (2, 1), goals=[of_raw(1.05), BEST]),
    Row("ping_pong_spin", "a core each, watching 50 µs before sleeping", "ping_pong", (2, 0, 50), goals=[at_most(400)],
        only=["runloop", "full", "raw"]),
    Row("post_1_other", "post, one producer on the other core", "post", (1, 2), operations=10**6),
    Row("post_1_same", "post, one producer on the same core", "post", (1, 1), operations=10**6),
    Row("post_2_other", "post, two producers on the other core", "post", (2, 2), operations=10**6),
    Row("post_2_each", "post, two producers, a core each", "post", (2, 3), operations=10**6),
    Row("pass", "pass", "pass", (0,)),
    Row("pass_observers", "pass, 8 observers", "pass", (8,)),
    Row("pass_fd", "pass, an idle descriptor", "pass", (0, 1), goals=[of_raw(1.15), BEST]),
]
for n in (10, 100, 1000, 10**4, 10**5):
    ROWS.append(Row("idle_%d" % n, "pass, %s idle sources" % size(n), "pass_idle_sources", (n,)))
ROWS[-1].goals = [Goal("≤ 1.1 × with 10", lambda m: 1.1 * m["of:idle_10"]), BEST]
for n, active in ((1, 1), (1000, 1), (1000, 100), (10**4, 1), (10**4, 100)):
    which = "one descriptor" if n == 1 else "%s descriptors, %d active" % (size(n), active)
    key = "descriptors_%d_%d" % (n, active)
    # What it costs that no callback of an object is told what another has taken, the peers do not pay.
    ROWS.append(Row(key, "event of " + which, "descriptors", (n, active),
                    goals=[RAW_AND_A_CALL] + [of(1, "libuv")] * (active == 1)))
    for kind, suffix, name in ((1, "_v1", "version 1 sources"), (2, "_socket", "sockets")):
        ROWS.append(Row(key + suffix, "the same, " + name, "descriptors", (n, active, kind), only=["runloop", "full"], like=key,
                        goals=[of_raw(1.15 if active == 1 else 1.1), BEST]))
for n in (10, 1000, 10**4, 10**5, 10**6):
    ROWS.append(Row("remove_set_add_%d" % n, "timer remove + set date + add, %s live" % size(n), "timer_remove_set_add", (n,),
                    goals=[of(1, "libev"), BEST]))
for n in (10, 1000, 10**4, 10**5, 10**6):
    ROWS.append(Row("move_%d" % n, "timer reschedule in a callout, %s live" % size(n), "timer_move", (n,),
                    goals=[of(1, "libev"), BEST]))
for n in (1000, 10**6):
    ROWS.append(Row("move_outside_%d" % n, "timer reschedule from another thread, %s live" % size(n), "timer_move_outside", (n,),
                    goals=[of_raw(3), BEST]))
for n in (1000, 10**6):
    ROWS.append(Row("life_%d" % n, "timer replaced by a new one, %s live" % size(n), "timer_life", (n,), goals=[of(1.1, "libev")]))
for n in (1000, 10**5):
    ROWS.append(Row("fire_%d" % n, "fire %s one-shots due at once, each" % size(n), "fire_at_once", (n, max(1, 20000 // n)),
                    operations=0, goals=[BEST, of_raw(1.6)]))
for n, tolerance in ((10**4, 0), (10**4, 1000), (10**5, 0), (1000, 1000)):
    ROWS.append(Row("spread_%d_%d" % (n, tolerance),
                    "fire %s one-shots over 50 ms%s, processor time of each" % (size(n), ", 1 ms tolerance" if tolerance else ""),
                    "fire_spread", (n, tolerance), operations=0, goals=[of_raw(1.2 if tolerance else 1.1), BEST]))
for length in (0, 4096, 16 << 20):
    what = "16 MiB, a core each" if length > 4096 else "4 KiB, one core" if length else "no bytes, one core"
    ROWS.append(Row("request_%d" % length, "request and reply between processes, " + what, "request",
                    (length, 2 if length > 4096 else 1), program="request", goals=[of(1, "libuv"), BEST]))
for n in (5, 64, 1024):
    ROWS.append(Row("mach_port_%d" % n, "message to a loop of another thread, queue of %d" % n, "mach_port", (n,),
                    program="machport", other_raw="lock-free"))
ROWS += [
    Row("late_50", "lateness of a 1 ms timer, p50", "lateness", (1000,), operations=0, unit="µs", goals=[of_raw(1.05), BEST]),
    Row("late_99", "lateness of a 1 ms timer, p99", "lateness", (1000,), operations=0, unit="µs", column=1),
    Row("memory_timer", "memory of an idle timer", "memory_timer", (200000,), operations=0, unit="bytes", once=True),
    Row("memory_source", "memory of an idle source", "memory_source", (200000,), operations=0, unit="bytes", once=True),
    Row("memory_descriptor", "memory of an idle descriptor", "memory_descriptor", (10000,), operations=0, unit="bytes",
        goals=[at_most(208)]),
    Row("memory_descriptor_v1", "the same, version 1 sources", "memory_descriptor", (10000, 1), operations=0, unit="bytes",
        only=["runloop", "full"], like="memory_descriptor"),
    Row("start", "start, one timer, exit: the whole process", "start", (), program="start", operations=0, unit="ms",
        goals=[of(1.22, "empty_libbsd", "empty with libbsd")]),
    Row("libraries", "shared libraries loaded, stripped", "libraries", (), operations=0, unit="MB", once=True),
    Row("idle", "wake-ups of a loop with nothing to do, 10 s", "idle", (0,), operations=0, unit="", goals=[at_most(0)]),
    Row("idle_fd", "the same, a descriptor in the mode", "idle", (1,), operations=0, unit="", goals=[at_most(0)]),
    Row("idle_calls", "its system calls", "idle", (0,), operations=0, unit="", goals=[at_most(0)]),
    Row("idle_fd_calls", "the same, a descriptor in the mode", "idle", (1,), operations=0, unit="", goals=[at_most(0)]),
]
for row in ROWS:
    if row.goals is None:
        row.goals = [BEST]
    if row.workload == "ping_pong":
        row.times = 3
BY_KEY = {row.key: row for row in ROWS}

# These do a tenth of their operations first.
WARM = ("post", "pass", "pass_idle_sources", "descriptors", "timer_remove_set_add", "timer_move", "timer_move_outside", "timer_life",
        "request")

# System calls per operation: key of the row, what an operation is, fewer and more operations (None: the arguments
# say it themselves), the goal.
CALLS = [
    ("ping_pong_same", "round trip", 500, 2500, "≤ 4"),
    ("ping_pong_same_fd", "round trip", 500, 2500, "≤ 4"),
    ("post_1_other", "post", 20000, 220000, ""),
    ("post_1_same", "post", 20000, 220000, ""),
    ("pass", "pass", 200, 5200, "0"),
    ("pass_fd", "pass", 200, 5200, ""),
    ("idle_1000", "pass", 200, 1200, "0"),
    ("descriptors_1000_100", "event", 1000, 6000, ""),
    ("descriptors_1000_100_v1", "event", 1000, 6000, ""),
    ("descriptors_1000_100_socket", "event", 1000, 6000, ""),
    ("remove_set_add_1000", "remove + set date + add", 1000, 6000, "0"),
    ("move_1000", "reschedule", 1000, 6000, "0"),
    ("move_outside_1000", "reschedule", 1000, 6000, "0"),
    ("life_1000", "replacement", 1000, 6000, "0"),
    ("late_50", "tick", 200, 1200, "1"),
]

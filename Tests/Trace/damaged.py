# SPDX-License-Identifier: MIT
"""S-TRC-11: runloop-trace says what is wrong with a file that is cut, damaged or no trace at all, and never fails by an exception.
usage: damaged.py RUNLOOP-TRACE TRACED [ROUNDS]"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import shutil
import subprocess
import sys
import struct
import tempfile
import time

tool, traced = sys.argv[1:3]
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 150
loader = importlib.machinery.SourceFileLoader("runloop_trace", tool)
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runloop_trace", loader))
loader.exec_module(module)


def convert(*arguments):
    """The status and what was said. In this process: starting one takes longer than a conversion."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = module.main(arguments)
    return status, said.getvalue()


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "trace")
    subprocess.run([traced, path], check=True, timeout=60)
    whole = open(path, "rb").read()
    bad = os.path.join(folder, "bad")

    def refused(contents, words):
        with open(bad, "wb") as file:
            file.write(contents)
        status, said = convert(bad)
        assert status == 1 and words in said and said.count("\n") == 1, (status, said)

    refused(b"", "no trace")
    refused(b"x" * 5000, "no trace")
    refused(whole[:135], "no trace")
    for length in (136, 4096, len(whole) // 2, len(whole) - 1):
        refused(whole[:length], "is cut")
    # Each number of the header is the greatest that there is.
    for at in range(8, 136, 4):
        with open(bad, "wb") as file:
            file.write(whole[:at] + b"\xff" * 4 + whole[at + 4:])
        status, said = convert(bad)
        assert status in (0, 1) and (status == 0 or "damaged" in said or "cut" in said or "no trace" in said), (at, status, said)
    assert convert(os.path.join(folder, "nothing"))[0] == 1
    assert convert(folder)[0] == 1
    assert convert("/dev/null")[0] == 1
    # What it writes to has no such characters, no room, or does not exist.
    good = os.path.join(folder, "\u65e5")
    shutil.copy(path, good)

    def says(words, output, *arguments, **environment):
        done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {output}', sys.executable, tool, *arguments, good], capture_output=True, timeout=60,
                              env=dict(os.environ, **environment))
        assert words in done.stdout + done.stderr and b"Traceback" not in done.stderr, done
        return done.returncode

    assert says(b"u65e5.json: ", "", PYTHONIOENCODING="ascii") == 0
    assert says(b"No space left", ">/dev/full") == 1
    assert says(b"No space left", ">/dev/full", "--output", "-") == 1
    assert says(b"Bad file descriptor", ">&-", "--output", "-") == 1
    assert says(b"Bad file descriptor", ">&-") == 1
    os.mkfifo(os.path.join(folder, "pipe"))
    assert convert(os.path.join(folder, "pipe"))[0] == 1
    assert convert("--output", "/nowhere/at/all", path)[0] == 1
    assert convert("--format", "xml", path)[0] == convert("--what", path)[0] == convert()[0] == 2

    # A file's name is not for the terminal either.
    strange = os.path.join(folder, "a\x1b[31m\udcff")
    shutil.copy(path, strange)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        assert module.main([strange]) == 0
    assert told.getvalue().strip().isprintable(), told.getvalue()

    # Anything anywhere in what is used, also in the header: a message or a picture, but no exception.
    header = module.HEADER.unpack_from(whole)
    names, used, rings = header[9], header[18], header[11]
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    places = [(0, 136), (4096, 4096 + 64 * 60), (names, names + used), (rings, rings + 48), (rings + 4096, rings + 4096 + 32 * 400)]
    for _ in range(rounds):
        contents = bytearray(whole)
        for _ in range(dice.choice((1, 3, 30, 300))):
            begin, end = dice.choice(places)
            at = dice.randrange(begin, end)
            value = dice.choice((b"\0", b"\xff" * 8, b"\x7f", b"\x80", bytes([dice.randrange(256)]), b"/dev/zero\0", b"/dev/tty"))
            contents[at:at + len(value)] = value
        with open(bad, "wb") as file:
            file.write(contents)
        status, said = convert(bad)
        assert status in (0, 1) and (status == 0 or said.count("\n") == 1), (seed, status, said)
        if status == 0:
            json.load(open(bad + ".json"))

    # A ring, names and posts in which each record looks for all the others, if it can be made to: time grows with the file, not with its square.
    count = 40_000
    ring, name = module.RING.size + count * 32, struct.pack("<QQQQHHI", 150, 9, 0, 0, 2, 0, 1) + b"n" + bytes(7)
    posts = b"".join(module.SHARED.pack(i + 1, 200 + i, module.POST, 5, 0x5000, 9, 8, 0, 0) for i in range(count))
    offsets = 4096, 4096 + len(posts), 4096 + len(posts) + count * len(name)
    head = module.HEADER.pack(
        b"RLTRACE1", module.HEADER.size, 1234, 1, 1, count, count, offsets[2] + ring, offsets[0], offsets[1], count * len(name), offsets[2],
        ring, 100, 100, 100, 0, 0, count * len(name), 0, 0)
    for records in (
        [(module.SLEEP_BEGIN, 0, 0)] * (count // 2) + [(module.RUN_END, 0, 0), (module.CALL_END, 0, 9)] * (count // 4),
        [(module.CALL_BEGIN, module.TIMER, 9), (module.CALL_END, 0, 9)] * (count // 2),
        [(module.CALL_BEGIN, module.FUNCTION, 9), (module.CALL_END, 0, 9)] * (count // 2),
    ):
        packed = b"".join(module.RECORD.pack(300 + count + i, kind, detail, 0, 0, item, 8) for i, (kind, detail, item) in enumerate(records))
        with open(bad, "wb") as file:
            file.write(head.ljust(4096, b"\0") + posts + name * count + module.RING.pack(count, 0x5000, 100, 77, 0, 100, 100) + packed)
        began = time.process_time()
        assert convert("--output", "/dev/null", bad)[0] == 0
        assert time.process_time() - began < 20, "a conversion without end"

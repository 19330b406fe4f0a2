"""S-TRC-11: runloop-trace says what is wrong with a file that is cut, damaged or no trace at all, and never fails by an exception.
usage: damaged.py RUNLOOP-TRACE TRACED [ROUNDS]"""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import subprocess
import sys
import tempfile

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
    os.mkfifo(os.path.join(folder, "pipe"))
    assert convert(os.path.join(folder, "pipe"))[0] == 1
    assert convert("--output", "/nowhere/at/all", path)[0] == 1
    assert convert("--format", "xml", path)[0] == convert("--what", path)[0] == convert()[0] == 2

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

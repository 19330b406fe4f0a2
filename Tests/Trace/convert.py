# SPDX-License-Identifier: MIT
"""S-TRC-11, S-TRC-8: what runloop-trace makes of a real trace of two processes answers what one would ask it, as JSON, as protobuf if the package
perfetto is there, and in SQL if $TRACE_PROCESSOR names Perfetto's trace_processor_shell.
usage: convert.py RUNLOOP-TRACE TRACED"""
import importlib.util
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

tool, traced = sys.argv[1:]


def convert(*arguments):
    return subprocess.run([sys.executable, tool, *arguments], text=True, capture_output=True)


def nested(slices):
    """Slices of a thread lie inside each other or apart."""
    ends = []
    for begin, end in sorted(slices, key=lambda slice: (slice[0], -slice[1])):
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1], (begin, end, ends)
        ends.append(end)


def check_json(path):
    events = json.load(open(path))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
               if event["ph"] == "M" and event["name"] == "thread_name"}
    assert len(names) == 2 and set(names.values()) == {os.path.basename(traced)}, names
    painter, = [key for key, name in threads.items() if name == "painter (run loop)"]
    for thread in threads:
        # Microseconds with three digits are not exact.
        nested([(round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000)) for e in slices
                if (e["pid"], e["tid"]) == thread and e["dur"] >= 1])

    def named(name):
        return [event for event in slices if event["name"] == name]

    assert 1 <= len(named("paint_frame")) <= 10
    assert all(event["args"]["late"] and event["dur"] >= 400 for event in named("paint_frame"))
    assert named("run kCFRunLoopDefaultMode") and named("pass") and named("sleep")
    assert len(named("show_result")) == len(named("post show_result")) == 5
    assert 1 <= len(named("commands")) <= 5 and all(e["args"]["function"] == "obey_commands" for e in named("commands"))
    assert all(event["args"]["called by"] == "give_work" for event in named("post show_result") + named("signal commands"))
    assert {event["args"]["msgid"] for event in slices if event["name"].startswith("receive")} == {100, 101, 102}
    # Flows: each has a beginning and an end, none goes back in time, and three cross from one process to the other.
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert set(starts) == set(ends) and all(starts[flow]["ts"] <= ends[flow]["ts"] for flow in starts)
    crossing = [flow for flow in starts if starts[flow]["pid"] != ends[flow]["pid"]]
    assert len(crossing) == 3, crossing
    assert all((ends[flow]["pid"], ends[flow]["tid"]) == painter for flow in crossing)
    return len(slices), len(starts)


def check_protobuf(path, slices, flows):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
    trace = Trace()
    trace.ParseFromString(open(path, "rb").read())
    tracks, depth, begun, latest = {}, {}, [], {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            uuid = packet.track_event.track_uuid
            assert packet.timestamp >= latest.get(uuid, 0)
            latest[uuid] = packet.timestamp
            assert uuid in tracks
            is_begin = packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN
            depth[uuid] = depth.get(uuid, 0) + (1 if is_begin else -1)
            assert depth[uuid] >= 0
            if is_begin:
                begun.append(packet)
    assert not any(depth.values())
    assert len(begun) == slices
    assert "painter (run loop)" in {track.thread.thread_name for track in tracks.values()}
    started = [flow for packet in begun for flow in packet.track_event.flow_ids]
    ended = [flow for packet in begun for flow in packet.track_event.terminating_flow_ids]
    assert sorted(started) == sorted(ended) and len(started) == flows
    frames = [packet for packet in begun if packet.track_event.name == "paint_frame"]
    assert frames and all(any(note.name == "late" for note in packet.track_event.debug_annotations) for packet in frames)


def check_sql(path, slices, flows):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=os.environ["TRACE_PROCESSOR"])) as processor:
        def ask(question):
            return next(iter(processor.query(question))).answer
        assert ask("select count(*) as answer from slice") == slices
        assert ask("select count(*) as answer from flow") == flows
        assert ask("select count(*) as answer from slice where name = 'paint_frame' and dur >= 400000") >= 1
        assert ask("select count(*) as answer from flow join slice s on slice_out = s.id join slice r on slice_in = r.id "
                   "where s.name like 'send %' and r.name like 'receive %'") == 3


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "trace")
    subprocess.run([traced, file], check=True, timeout=60)
    done = convert(file, file + "-client")
    assert done.returncode == 0, done.stderr
    slices, flows = check_json(file + ".json")
    print(f"{slices} slices, {flows} flows in JSON")
    # The client is stopped for 1 ms between the readings of its counter and of the clock, at the start or at the stop: messages do not arrive
    # before they are sent. (88 and 112 are the places of these times in Docs/trace-format.md; stamps that are times already are not converted.)
    client = open(file + "-client", "rb").read()
    if not client[16] & 1:
        for offset in (88, 112):
            later = client[:offset] + struct.pack("<Q", struct.unpack_from("<Q", client, offset)[0] + 1_000_000) + client[offset + 8:]
            with open(file + "-stopped", "wb") as stopped:
                stopped.write(later)
            done = convert("--output", file + "-stopped.json", file, file + "-stopped")
            assert done.returncode == 0, done.stderr
            check_json(file + "-stopped.json")
    # Where there is no room for all of it nothing is left, and what was there stays.
    whole = open(file + ".json", "rb").read()
    folder_before = sorted(os.listdir(folder))
    for output in (file + ".json", file + ".other"):
        done = subprocess.run([sys.executable, tool, "--output", output, file], text=True, capture_output=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        assert done.returncode == 1 and "Traceback" not in done.stderr and output in done.stderr, done.stderr
        assert sorted(os.listdir(folder)) == folder_before
    assert open(file + ".json", "rb").read() == whole
    # One alone, to the standard output.
    done = convert("--output", "-", file)
    assert done.returncode == 0 and json.loads(done.stdout)["traceEvents"]
    if importlib.util.find_spec("perfetto") is None:
        done = convert("--format", "perfetto", file)
        assert done.returncode == 1 and "Traceback" not in done.stderr and "needs the Python package" in done.stderr
        print("not as protobuf: the package perfetto is missing")
    else:
        done = convert("--format", "perfetto", file, file + "-client")
        assert done.returncode == 0, done.stderr
        check_protobuf(file + ".pftrace", slices, flows)
        print("the same in protobuf")
        if os.environ.get("TRACE_PROCESSOR"):
            check_sql(file + ".pftrace", slices, flows)
            print("the same in SQL")
        else:
            print("not in SQL: $TRACE_PROCESSOR names no trace_processor_shell")

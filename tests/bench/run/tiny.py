"""Tiny benches on the software device: they run to their end, check their results, and print what the tables read.
Nothing here is a measurement.

    tiny.py FOLDER PRELOAD SIM [VULKAN]     FOLDER holds tiny-NAME-LINK and bench-companion, SIM the software
                                            device; VULKAN is a loader for it, for mapped memory
"""
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import benches
import record_torch
import refuse
import rounds
import table
import tap

FOLDER, PRELOAD, SIM = (os.path.abspath(path) for path in sys.argv[1:4])
ENVIRONMENT = rounds.environment_here(SIM)
NAMES = ("pair", "seen", "threads", "larson", "deep", "pinned", "pack", "random", "power", "growth", "trace", "calls", "copies", "startup",
         "peers")
COMPANION = tuple(name for name in benches.BENCHES if name.startswith("companion-"))
ran = {}  # name of a bench: its lines
scratch = tempfile.TemporaryDirectory()


def place():
    """Links the programs under the names that benches.py expects."""
    folder = pathlib.Path(scratch.name) / "bin"
    if not folder.exists():
        folder.mkdir()
        for path in pathlib.Path(FOLDER).glob("tiny-*-*"):
            if path.is_file():
                (folder / path.name.removeprefix("tiny-")).symlink_to(path)
        (folder / "bench-companion").symlink_to(pathlib.Path(FOLDER) / "bench-companion")
    small = benches.Place(folder, PRELOAD, time_ms=2, is_tiny=True, trace=write_trace(folder))
    if len(sys.argv) > 4:
        small.companion_env = {"CUSHIM_LIBVULKAN": os.path.abspath(sys.argv[4])}
    return small


def write_trace(folder):
    path = folder / "small.trace"
    path.write_text("cushim-trace 1\n# three blocks before the timed part\na 4096\na 3000000\na 900\nf 2\nt\na 512\nf 1\nf 3\n")
    return path


def lines(name):
    if name not in ran:
        bench = rounds.Bench(rounds.run_here(ENVIRONMENT), ENVIRONMENT, {"device": "software device"}, io.StringIO(),
                             scratch.name, n_rounds=1)
        faults, _ = benches.run_one(bench, place(), name)
        assert not faults, faults
        ran[name] = bench.rows
    return ran[name]


def of(name, case, variant):
    found = [line for line in lines(name) if line["case"] == case and line["variant"] == variant]
    assert len(found) == 1, (case, variant, [(line["case"], line["variant"]) for line in lines(name)])
    return found[0]


@tap.test
def every_bench_runs_to_its_end():
    for name in NAMES + COMPANION:
        timed = [line for line in lines(name) if "skipped" not in line]
        assert timed or name == "companion-mapped", name  # it may lack Vulkan
        for line in timed:
            assert line["n"] > 0, line
            assert 0 <= line["p0_ns"] <= line["p50_ns"] and line["p99_ns"] <= line["max_ns"], line


@tap.test
def native_and_both_modes_are_in_one_line():
    for name in ("pair", "larson", "deep", "pinned", "pack", "random", "power", "growth", "trace"):
        by_case = {}
        for line in lines(name):
            if "skipped" not in line:
                by_case.setdefault(line["case"], set()).add(line["variant"])
        for case, variants in by_case.items():
            assert {"native", "cushim exact", "cushim relaxed"} <= variants, (case, variants)


@tap.test
def a_bench_that_cannot_run_prints_a_line_that_says_why():
    skipped = [line for line in lines("pair") if "skipped" in line]
    assert {line["variant"] for line in skipped} == set(benches.RMM), skipped
    assert all(line["skipped"] for line in skipped)


@tap.test
def a_trace_has_live_and_held_bytes():
    for variant in ("native", "cushim exact"):
        line = of("trace", "trace/small", variant)
        assert line["peak_live_bytes"] == 4096 + 3000000 + 900, line
        assert line["n"] == 2 * line["rounds"], line  # frees of the timed part
        assert line["peak_held_bytes"] >= line["peak_live_bytes"], line
    packed = of("pack", "pack/1000x1100000", "native")
    assert packed["peak_live_bytes"] == 20 * 1100000, packed
    assert 1.8 < packed["held_by_live"] < 2.0, packed  # whole pages of 2 MiB


@tap.test
def driver_calls_come_from_the_report():
    native, ours = of("pack", "pack/1000x1100000", "native"), of("pack", "pack/1000x1100000", "cushim exact")
    assert native["driver_calls_per_pair"] == 2.0
    assert 0 < ours["driver_calls_per_pair"] < 2.0, ours


@tap.test
def staged_copies_are_beside_native_and_pinned_ones():
    for direction in ("up", "down"):
        for threads in (1, 2):
            staged = of("copies", f"copies/{direction}/pageable/4M/{threads}", "cushim staged")
            assert staged["gb_per_s"] > 0 and staged["cpu_ns"] >= 0 and staged["native_by"] > 0, staged
            assert of("copies", f"copies/{direction}/pinned/4M/{threads}", "native")


@tap.test
def a_free_after_queued_work_is_compared_with_a_synchronise():
    free = of("deep", "deep/free", "native")
    assert free["added_low_ns"] <= free["added_ns"] <= free["added_high_ns"], free
    assert of("deep", "deep/sync", "native") and of("deep", "deep/malloc", "native")


@tap.test
def generated_traces_are_the_same_everywhere_and_keep_the_fill_limit():
    with tempfile.TemporaryDirectory() as folder:
        for work, limit_bytes in (("random/10000x64M", 16000 << 20), ("power/20000", 4096 << 20)):
            texts = []
            for _ in range(2):
                subprocess.run([place().program("alloc"), "--work", work, "--dump", folder], check=True,
                               env={**os.environ, "LD_LIBRARY_PATH": SIM}, capture_output=True)
                path = pathlib.Path(folder) / (work.replace("/", "-") + ".trace")
                texts.append(path.read_text())
            assert texts[0] == texts[1]
            live, peak, sizes = 0, 0, []
            for line in texts[0].splitlines()[1:]:
                if line[0] == "a":
                    sizes.append(int(line[2:]))
                    live += sizes[-1]
                else:
                    live -= sizes[int(line[2:])]
                peak = max(peak, live)
            assert live == 0 and limit_bytes / 4 < peak <= limit_bytes, (work, live, peak)


@tap.test
def python_plays_the_traces_that_C_wrote():
    for name, case in (("trace", "trace/small"), ("random", "random/10000x64M"), ("pack", "pack/1000x2200000")):
        in_c, in_python = of(name, case, "native"), of("peers", case, "Python, no allocator")
        assert in_c["peak_live_bytes"] == in_python["peak_live_bytes"], (in_c, in_python)
        assert in_c["n"] / in_c["rounds"] == in_python["n"] / in_python["rounds"], (in_c, in_python)


@tap.test
def a_broken_trace_is_refused():
    for text in ("a 1\n", "cushim-trace 1\nf 0\n", "cushim-trace 1\na 512\nf 0\nf 0\n", "cushim-trace 1\nx\n"):
        path = pathlib.Path(scratch.name) / "broken.trace"
        path.write_text(text)
        done = subprocess.run([place().program("alloc"), "--work", "trace", "--trace", path], capture_output=True,
                              env={**os.environ, "LD_LIBRARY_PATH": SIM})
        assert done.returncode == 1 and not done.stdout, (text, done)


@tap.test
def a_complaint_of_cushim_is_a_fault():
    bench = rounds.Bench(rounds.run_here(ENVIRONMENT), ENVIRONMENT, {}, io.StringIO(), scratch.name, n_rounds=1)
    command = place().alloc("growth/3")
    for env, is_fine in ((place().cushim("relaxed"), True), (place().cushim("sometimes"), False)):
        bench.by_turns("growth", [rounds.Variant("cushim", command, env)])
        assert (not bench.faults) == is_fine, (env, bench.faults)


@tap.test
def a_recording_becomes_a_trace():
    events = [(16, 512), (32, 1024), (0, 0), (16, 0), (16, 2048), (0, 0), (32, 0), (32, 0), (48, 0)]
    got, n_marks = record_torch.trace_of(events, 1)
    assert n_marks == 2
    assert got == ["a 512", "a 1024", "t", "f 0", "a 2048", "# step 2 ends", "f 1"], got


@tap.test
def tables_show_the_numbers_of_the_lines():
    rows = [line for name in NAMES + COMPANION for line in lines(name)]
    path = pathlib.Path(scratch.name) / "bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for kind, wanted in (("all", "| pair/512 | native |"), ("modes", "| case | native | exact |"),
                         ("peers", "cudaMallocAsync"), ("memory", "pack/1000x1100000"),
                         ("companion", "| case | companion |"), ("companion", "| pool/64K |")):
        done = subprocess.run([sys.executable, table.__file__, path, "--kind", kind], capture_output=True, text=True)
        assert done.returncode == 0 and wanted in done.stdout, (kind, done.stdout[:500], done.stderr)


@tap.test
def the_companion_and_the_driver_take_turns_in_one_process():
    for name, case, others in (("companion-pool", "pool/64K", {"native", "cuMemAllocAsync, kept"}),
                               ("companion-arena", "arena/256", {"cuMemAllocAsync, kept", "companion, ALL"}),
                               ("companion-graph", "graph/launch-1", {"native"}),
                               ("companion-launch", "launch/4-args", {"native", "companion, unprepared"}),
                               ("companion-copy", "copy/1M", {"native", "compute alone", "copy alone"})):
        assert others | {"companion"} <= {line["variant"] for line in lines(name) if line["case"] == case}, (name, case)
    for name, case in (("companion-graph", "graph/launch-1"), ("companion-launch", "launch/4-args")):
        line = of(name, case, "companion")
        assert line["added_low_ns"] <= line["added_ns"] <= line["added_high_ns"] and line["time_by_native"] > 0, line
    assert "exposed_by_shorter" in of("companion-copy", "copy/1M", "companion")


@tap.test
def mapped_memory_is_timed_or_the_line_says_why_not():
    mapped = lines("companion-mapped")
    if len(sys.argv) > 4:
        assert of("companion-mapped", "mapped/write/64", "companion")["p50_ns"] > 0, mapped
    else:
        assert [line["skipped"] for line in mapped if line["case"] != "host"], mapped


@tap.test
def the_host_of_the_companion_is_one_row_that_says_which_pin_was_measured():
    def table_of(line):
        return list(table.render_companion({"host": {"companion": line}}))[2]
    for name in COMPANION:
        assert of(name, "host", "companion")["locked_add_ns"] > 0, lines(name)
    granted = of("companion-launch", "host", "companion")
    assert granted["current_context_ns"] > 0 and granted["membarrier"] in (0, 1), granted
    assert table_of({**granted, "membarrier": 1}).startswith("| host | membarrier granted: a pin is a store and a load;")
    assert "a locked add 6.2 ns, cuCtxGetCurrent 7.4 ns" in table_of(
        {**granted, "locked_add_ns": 6.2, "current_context_ns": 7.4})
    command = [pathlib.Path(FOLDER) / "bench-companion", "--work", "launch", "--ms", "2", "--tiny"]
    try:
        done = subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": SIM}, preexec_fn=refuse.membarrier,
                              capture_output=True, text=True, check=True)
    except subprocess.SubprocessError:
        tap.skip("this kernel has no seccomp filters")
    refused = json.loads(done.stdout.splitlines()[0])
    assert (refused["case"], refused["membarrier"]) == ("host", 0), refused
    assert "membarrier refused: a pin is a locked exchange" in table_of(refused)


@tap.test
def a_goal_is_met_or_not():
    assert table.judged("39 ns", 39, "pair/64K", "cushim relaxed", "ns") == "39 ns [40 ns: met]"
    assert table.judged("41 ns", 41, "pair/64K", "cushim relaxed", "ns") == "41 ns [40 ns]"
    assert table.judged("80 ns", 80, "pair/64K", "cushim relaxed, driver entry", "ns") == "80 ns [90 ns: met]"
    assert table.judged("41 ns", 41, "pair/64K", "native", "ns") == "41 ns"
    assert table.judged("1.01", 1.01, "graph/launch-1", "companion", "time_by_native") == "1.01 [1.02: met]"
    assert table.judged("9 ns", 9, "arena/256", "companion, ALL", "ns") == "9 ns"


tap.run()

"""The exit report and the options, from outside: where the report goes, what is in it, who writes
none, and what a bad option says.

    report.py --preload ... --sim ... --options options.def SHARED STATIC
"""
import sys
import json
import os
import pathlib
import re
import subprocess
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments("options")
SHARED, STATIC = OPTIONS.programs
LINKS = {"shared": SHARED, "static": STATIC}
LINE = re.compile(rb"cushim\[\d+\] error options: .*\n")


def run(scenario, program=SHARED, **settings):
    return fixture.Run(OPTIONS, [program, scenario], **settings)


def run_into(pattern, scenario="count", code=0, prepare=None, **settings):
    """Run with CUSHIM_STATS=FOLDER/pattern: {name of a file that lies there afterwards: mode, text},
    and standard error."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if prepare:
            prepare(folder)
        done = run(scenario, stats=False, CUSHIM_STATS=str(folder / pattern), **settings)
        assert done.code == code, (done.code, done.err)
        files = {file.name: (file.stat().st_mode & 0o777, file.read_text())
                 for file in folder.iterdir() if file.exists()}
        return files, done.err


@fixture.tap.test
def a_report_is_one_file_that_only_its_owner_reads():
    files, err = run_into("report.json")
    assert list(files) == ["report.json"], files
    assert files["report.json"][0] == 0o600, oct(files["report.json"][0])
    assert err == b"", err


@fixture.tap.test
def the_name_of_a_report_may_hold_the_process_and_the_host():
    files, _ = run_into("r-%p-%h.json")
    name, = files
    assert re.fullmatch(rf"r-\d+-{re.escape(os.uname().nodename)}\.json", name), name
    assert f'"pid": {name.split("-")[1]},' in files[name][1]


@fixture.tap.test
def a_report_never_goes_through_a_link():
    def prepare(folder):
        (folder / "precious").write_text("as it was")
        (folder / "report.json").symlink_to(folder / "precious")

    files, err = run_into("report.json", prepare=prepare)
    assert files["precious"][1] == "as it was", files
    assert err.count(b"\n") == 1 and b"no report in" in err, err


@fixture.tap.test
def a_report_that_cannot_be_written_is_one_line():
    _, err = run_into("no/such/folder.json")
    assert err.count(b"\n") == 1 and b"no report in" in err, err


@fixture.tap.test
def a_pipe_without_a_reader_holds_nobody():
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(os.path.join(folder, "pipe"))
        assert run("count", stats=False, CUSHIM_STATS=os.path.join(folder, "pipe")).code == 0


@fixture.tap.test
def a_pipe_that_nobody_reads_any_more_leaves_the_exit_code():
    environment = {**os.environ, "LD_PRELOAD": OPTIONS.preload, "LD_LIBRARY_PATH": OPTIONS.sim, "CUSHIM_STATS": "stderr"}
    for scenario, code in (("count", 0), ("leave_with_code", 9)):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([SHARED, scenario], env=environment, stderr=writer, timeout=fixture.TIMEOUT_SECONDS)
        os.close(writer)
        assert done.returncode == code, (scenario, done)


@fixture.tap.test
def a_report_reaches_its_file_whatever_standard_descriptors_are_closed():
    closings = ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-")
    for closing in closings:
        for live in ("0", "1"):
            done = fixture.Run(OPTIONS, ["sh", "-c", f'exec "$@" {closing}', "sh", SHARED, "count"], CUSHIM_LIVE=live)
            assert done.code == 0 and done.out == b"" and done.err == b"", (closing, live, done.code, done.err)
            done.check_report()


@fixture.tap.test
def a_report_on_a_full_disk_is_one_line_and_leaves_what_was_there():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "report.json"
        for before in (None, '{"old": 1}'):
            if before:
                file.write_text(before)
            done = run("leave_with_small_files", stats=False, CUSHIM_STATS=str(file))
            assert done.code == 9, (done.code, done.err)
            assert done.err.count(b"\n") == 1 and b"no report in" in done.err and b"large" in done.err, done.err
            assert [entry.name for entry in pathlib.Path(folder).iterdir()] == (["report.json"] if before else [])
            assert not before or file.read_text() == before
    done = run("leave_with_code", stats=False, CUSHIM_STATS="/dev/full")
    assert done.code == 9 and done.err.count(b"\n") == 1 and b"No space" in done.err, (done.code, done.err)


@fixture.tap.test
def processes_that_share_a_name_leave_the_report_of_one_of_them():
    environment = {**os.environ, "LD_PRELOAD": OPTIONS.preload, "LD_LIBRARY_PATH": OPTIONS.sim}
    scenarios = ("count", "sums", "copies", "findings")
    with tempfile.TemporaryDirectory() as folder:
        environment["CUSHIM_STATS"] = os.path.join(folder, "report.json")
        for _ in range(4):
            running = [subprocess.Popen([SHARED, scenarios[i % len(scenarios)]], env=environment) for i in range(12)]
            pids = [process.pid for process in running]
            assert [process.wait(fixture.TIMEOUT_SECONDS) for process in running] == [0] * 12
            assert os.listdir(folder) == ["report.json"]
            with open(environment["CUSHIM_STATS"], encoding="ascii") as stream:
                assert json.load(stream)["pid"] in pids


@fixture.tap.test
def a_program_that_clears_its_environment_keeps_what_it_was_started_with():
    for scenario in ("count", "clear_at_first", "clear_at_last"):
        with tempfile.TemporaryDirectory() as live:
            files, err = run_into("%q{JOB}-%r.json", scenario, JOB="a", RANK="3", WORLD_SIZE="4", CUSHIM_FREE="relaxed",
                                  CUSHIM_LIVE="1", CUSHIM_LIVE_DIR=live)
            assert list(files) == ["a-3.json"] and err == b"", (scenario, files, err)
            report = json.loads(files["a-3.json"][1])
            assert (report["rank"], report["ranks"]) == (3, 4) and "free=relaxed" in report["options"], report
            assert os.listdir(live) == [], (scenario, os.listdir(live))  # its page went as it ended


@fixture.tap.test
def a_relative_name_means_the_folder_where_the_process_started():
    for scenario in ("count", "go_elsewhere"):
        with tempfile.TemporaryDirectory() as folder:
            command = ["sh", "-c", 'cd "$1"; exec "$2" "$3"', "sh", folder, SHARED, scenario]
            done = fixture.Run(OPTIONS, command, stats=False, CUSHIM_STATS="./report.json")
            assert done.code == 0 and done.err == b"", (done.code, done.err)
            assert os.listdir(folder) == ["report.json"], scenario


@fixture.tap.test
def words_and_devices_for_standard_output_and_standard_error_mean_these():
    for words, stream, other in ((("-", "stdout", "/dev/stdout"), "out", "err"),
                                 (("1", "stderr", "/dev/stderr"), "err", "out")):
        for word in words:
            done = run("count", stats=False, CUSHIM_STATS=word)
            assert b"\nverdict: " in getattr(done, stream) and getattr(done, other) == b"", (word, done.out, done.err)
            assert done.code == 0, (word, done.code)


@fixture.tap.test
def the_file_that_a_program_has_in_place_of_standard_error_gets_nothing():
    for stats in ({"stats": False}, {"stats": False, "CUSHIM_STATS": "stderr"}):
        for word in ("CUSHIM_NOSUCH", "CUSHIM_LOG"):  # a line of the log at the first call of CUDA, or none
            done = run("take_over_errors", **stats, **{word: "1" if word == "CUSHIM_NOSUCH" else "error"})
            assert done.code == 0 and done.out == b"the program's own\n" and done.err == b"", (done.out, done.err)


@fixture.tap.test
def a_report_is_text_where_its_name_does_not_end_in_json():
    files, _ = run_into("report.txt")
    text = files["report.txt"][1]
    assert text.startswith("cushim ") and "\nverdict: " in text and "{" not in text, text


@fixture.tap.test
def refused_calls_have_a_place_and_a_hint_without_the_check():
    done = run("findings")
    assert done.err == b"", done.err
    kinds = {(harm["fault"], harm["call"]) for harm in done.report["harms"]}
    assert {("overrun", "cuMemcpyHtoD_v2"), ("use after free", "cuMemsetD8_v2"), ("interior free", "cudaFree")} <= kinds, kinds
    for harm in done.report["harms"]:
        assert harm["called_at"] and not harm["allocated"] and not harm["freed"], harm
        assert harm["fault"] != "overrun" or (harm["bytes"], harm["call_bytes"], harm["offset"]) == (1000, 1001, 0), harm
    assert done.report["advice"][0]["id"] == "refused", done.report["advice"]
    files, err = run_into("report.txt", "findings")
    told = " ".join(files["report.txt"][1].split())
    assert "cuMemcpyHtoD_v2 of 1001 bytes at offset 0 of the block of 1000 bytes at 0x" in told, told
    assert "calls were refused: --check names who allocated" in told and "finding of the check" not in told and err == b"", told


@fixture.tap.test
def a_program_that_goes_on_after_many_refusals_pays_for_a_few():
    done = run("refused_often")
    assert done.report["n_harms"] == len(done.report["harms"]) == 16 and done.report["findings"]["overruns"] == 100, done.report
    done = run("refused_often", CUSHIM_CHECK="frees")
    assert done.report["n_harms"] == 100, done.report


@fixture.tap.test
def each_column_of_the_text_has_a_head_of_its_own():
    files, _ = run_into("report.txt", "sums")
    lines = files["report.txt"][1].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("  memory "))
    heads, *rows = (re.split("  +", line.strip()) for line in lines[first:first + 4])
    assert heads == ["memory", "requests", "no call", "driver", "frees", "live", "peak live"], heads
    assert [row[0] for row in rows] == ["device", "managed", "pinned"], rows
    for row in rows:
        assert len(row) == len(heads), row
        requests, without_call, driver = (int(text) for text in row[1:4])
        assert requests == without_call + driver, row


@fixture.tap.test
def what_is_held_is_the_sum_of_its_parts():
    for scenario in ("sums", "count_threads", "host_kinds"):
        done = run(scenario)
        for kind in ("device", "managed", "pinned"):
            for row in done.kinds(kind):
                parts = [row[name] for name in ("live_bytes", "rounding_bytes", "spare_bytes", "idle_bytes")]
                assert not row["held_bytes"] or sum(parts) == row["held_bytes"], (scenario, kind, row)


@fixture.tap.test
def no_line_of_the_text_is_wider_than_80_columns():
    for scenario in ("sums", "copies", "findings", "in_all_ways"):
        files, _ = run_into("report.txt", scenario)
        wide = [line for line in files["report.txt"][1].splitlines() if len(line) > 80]
        assert not wide, wide


@fixture.tap.test
def staged_copies_are_counted_with_their_bytes_and_time():
    for value, is_on in (("on", True), ("off", False)):
        files, _ = run_into("report.json", "copies", CUSHIM_COPY_STAGE=value, CUSHIM_COPY_STAGE_MIN="1")
        report = json.loads(files["report.json"][1])
        copied, staged, driven = report["copies"], report["staged"], report["large_copies"]
        for direction in ("host_to_device", "device_to_host"):
            one = staged[direction]
            assert one["count"] <= copied[direction]["pageable"]["count"], report
            for count in (one, driven[direction]):
                assert (count["count"] > 0) == (count["bytes"] > 0) == (count["ns"] > 0), report
            for what in ("count", "bytes"):
                assert one[what] + driven[direction][what] == copied[direction]["pageable"][what], report
        n_staged = staged["host_to_device"]["count"] + staged["device_to_host"]["count"]
        n_left = sum(staged["left"].values())
        assert (n_staged + n_left > 0) == is_on, report
        assert n_staged > 0 or not is_on or len(os.sched_getaffinity(0)) == 1, report


@fixture.tap.test
def a_batch_is_staged_as_a_whole_or_not_at_all():
    may_be = len(os.sched_getaffinity(0)) > 1
    # the third copy is of 90 bytes, the others are of 100
    for value, least, n_staged, n_left in (("on", "1", 3, 0), ("on", "91", 0, 2), ("off", "1", 0, 0)):
        files, _ = run_into("report.json", "copies_in_batches", CUSHIM_COPY_STAGE=value, CUSHIM_COPY_STAGE_MIN=least)
        report = json.loads(files["report.json"][1])
        copied, staged = report["copies"], report["staged"]
        assert staged["left"].pop("batch") == n_left, report
        assert not may_be or sum(staged["left"].values()) == 0, report
        for direction, n in (("host_to_device", 2), ("device_to_host", 1)):
            assert copied[direction]["pageable"]["count"] == n, report
            assert not may_be or staged[direction]["count"] == (n if n_staged else 0), report
            assert not may_be or (staged[direction]["ns"] > 0) == (n_staged > 0), report


@fixture.tap.test
def large_pageable_copies_are_told_with_their_time_and_what_may_shorten_it():
    for value, way in (("on", "staged"), ("off", "by the driver")):
        files, _ = run_into("report.txt", "copies", CUSHIM_COPY_STAGE=value, CUSHIM_COPY_STAGE_MIN="1")
        told = files["report.txt"][1]
        at = told.index("pageable        large ones      copies     bytes      time     GB/s (no GPU)\n")
        rows = told[at:told.index("\n\n", at)].splitlines()[1:]
        assert [row.split()[:2] for row in rows[:1]] == [["to", "device"]], told
        assert way in rows[0] or len(os.sched_getaffinity(0)) == 1, told
        assert ("--copy-stage=on takes away at most" in " ".join(told.split())) == (value == "off"), told


@fixture.tap.test
def a_report_as_json_names_its_schema_first():
    files, _ = run_into("report.json")
    assert files["report.json"][1].startswith('{\n  "schema": "cushim-report/1",\n'), files


@fixture.tap.test
def waits_for_what_the_host_sees_are_told_apart_in_relaxed():
    for mode in ("exact", "relaxed"):
        done = run("copies", stats=False, CUSHIM_STATS="stderr", CUSHIM_FREE=mode)
        assert (b"\n    for what the host sees " in done.err) == (mode == "relaxed"), done.err
        done = run("copies", CUSHIM_FREE=mode)
        assert done.total("effect_waits") <= done.total("waits"), done.report
        assert done.total("effect_wait_ns") <= done.total("wait_ns"), done.report


@fixture.tap.test
def a_report_on_standard_error_leaves_standard_output_alone():
    for word in ("1", "stderr", "on", "yes", "true"):
        done = run("count", stats=False, CUSHIM_STATS=word)
        assert b"\nverdict: " in done.err and done.out == b"" and done.code == 0, done.err


@fixture.tap.test
def what_stdio_holds_at_the_end_is_the_programs_to_write():
    native = run("print_last", preload=False, stats=False)
    done = fixture.Run(OPTIONS, ["sh", "-c", 'exec "$@" 2>&1', "sh", SHARED, "print_last"], stats=False, CUSHIM_STATS="1")
    report, _, last = done.out.rpartition(b" (no GPU)\n")
    assert report.startswith(b"cushim ") and native.out == last == b"the program's line\n", done.out


@fixture.tap.test
def without_a_wish_there_is_no_report_and_no_word():
    for settings in ({}, *({"CUSHIM_STATS": word} for word in ("0", "off", "no", "false", ""))):
        done = run("findings", stats=False, **settings)
        assert done.err == b"" and done.out == b"" and done.code == 0, done.err


@fixture.tap.test
def who_uses_no_memory_writes_no_report():
    for scenario in ("nothing", "look_only"):
        files, err = run_into("report-%p.json", scenario)
        assert not files and err == b"", (files, err)


@fixture.tap.test
def who_was_started_by_the_command_and_uses_no_memory_says_so_in_one_line():
    def started(scenario, pid="$$", **settings):
        command = ["sh", "-c", f'CUSHIM_STARTED={pid} exec "$@"', "sh", SHARED, scenario]
        return fixture.Run(OPTIONS, command, **settings)

    line = f"cushim: {os.path.basename(SHARED)} itself used no CUDA memory that cushim can see, and has no report\n"
    for scenario in ("nothing", "look_only"):
        done = started(scenario)
        assert done.err == line.encode() and done.out == b"" and done.code == 0, (scenario, done.err)
        assert done.report is None, done.report
        for settings in ({"pid": "1"}, {"pid": ""}, {"preload": False}):
            assert started(scenario, **settings).err == b"", (scenario, settings)
    for scenario in ("count", "forks"):
        done = started(scenario)
        assert done.err == b"" and done.report is not None, (scenario, done.err)
    done = started("leave_quickly")
    assert done.err == b"" and done.code == 7, done.err


@fixture.tap.test
def a_forked_child_writes_no_report():
    for scenario in ("forks", "forks_rawly"):
        files, _ = run_into("report-%p.json", scenario)
        assert len(files) == 1, (scenario, files)


def harms_of(scenario, text, **settings):
    """The findings of a run, which its text also says; (call, bytes, offset, has a stack) by fault."""
    done = run(scenario, **settings)
    told = " ".join(run(scenario, stats=False, CUSHIM_STATS="stderr", **settings).err.decode().split())
    assert text in told, (text, told)
    assert done.report["n_harms"] == len(done.report["harms"]), done.report["harms"]
    return done, {harm["fault"]: (harm["call"], harm["bytes"], harm["offset"], bool(harm["called_at"])) for harm in done.report["harms"]}


@fixture.tap.test
def cuda_in_a_forked_child_is_told_once_and_in_the_report_of_its_parent():
    done, harms = harms_of("call_in_child", "its calls fail; spawn instead of fork")
    said, = done.err.decode().splitlines()
    number, call = re.search(r" error fork: CUDA after fork: process (\d+) was forked from one that used CUDA, and called (\w+): its calls fail; spawn instead of fork$", said).groups()
    assert harms == {"CUDA after fork": (call, 0, int(number), False)}, harms
    assert run("call_in_child", CUSHIM="0").err == b""


@fixture.tap.test
def a_reset_says_what_went_with_it_and_a_late_free_why_it_is_refused():
    _, harms = harms_of("reset_with_memory", " took 6.00 MiB of device 0 with it, which were live")
    reset, late = harms["device reset"], harms["late free"]
    assert re.match("cuDevicePrimaryCtxReset", reset[0]) and reset[1:] == (6 << 20, 0, True), harms
    assert late[0] in ("cudaFree", "cuMemFree_v2") and late[3] and len(harms) == 2, harms


@fixture.tap.test
def a_context_that_nothing_uses_is_told_with_who_made_it():
    two = {"CUSHIM_SIM_DEVICES": "2"}
    _, harms = harms_of("look_at_another_device", "made a context on device 0, which nothing else uses", **two)
    assert harms == {"stray context": ("cuDevicePrimaryCtxRetain", 0, 0, True)}, harms
    _, harms = harms_of("make_a_context_on_another_device", "made a context on device 0, which nothing else uses", **two)
    (call, *rest), = harms.values()
    assert call.startswith("cuCtxCreate") and rest == [0, 0, True], harms
    assert run("copies", **two).report["harms"] == [], "one device is used"


@fixture.tap.test
def who_leaves_by__exit_writes_none_and_keeps_its_code():
    files, _ = run_into("report.json", "leave_quickly", code=7)
    assert not files, files


@fixture.tap.test
def a_sandbox_that_kills_who_asks_for_a_barrier_changes_no_exit_code():
    for free in ("exact", "relaxed"):
        done = run("empty_caches_in_a_sandbox", CUSHIM_FREE=free, CUSHIM_SIM_MEMORY="512M")
        if done.code == 77:
            fixture.tap.skip("this kernel has no seccomp filters")
        assert done.code == 0, (done.code, done.err)
        done.check_report()


@fixture.tap.test
def the_exit_code_stays_the_programs():
    files, _ = run_into("report.json", "leave_with_code", code=9)
    assert len(files) == 1, files


@fixture.tap.test
def each_call_is_counted_once_whichever_entry_point_it_took():
    calls = run("count").report["calls"]
    assert calls["cudaMalloc"] == 10 and calls["cudaFree"] == 10, calls
    assert "cuMemAlloc_v2" not in calls and "cuMemFree_v2" not in calls, calls
    calls = run("count", program=STATIC).report["calls"]
    assert calls["cuMemAlloc_v2"] == 8 and calls["cuMemFree_v2"] == 9, calls
    assert "cudaMalloc" not in calls and "cudaFree" not in calls, calls


@fixture.tap.test
def a_thousand_threads_are_counted_to_the_last_call():
    n = 4 * 300 * 10 + 3
    for free in ("exact", "relaxed"):
        done = run("count_threads", CUSHIM_FREE=free)
        done.check_report()
        calls = done.report["calls"]
        assert calls["cudaMalloc"] == n + 1 and calls["cudaFree"] == n, calls
        assert done.total("requests") == n + 1 and done.total("frees") == n, done.kinds()
        assert done.total("no_call") + done.total("misses") == n + 1, done.kinds()
        assert done.total("live_bytes") == 700, done.kinds()
        # the margin, the last block, and segments with a block or two in them: caches of threads that
        # ended hold nothing
        assert done.total("held_bytes") <= 40 << 20, done.kinds()


@fixture.tap.test
def requests_are_the_same_at_every_entry_point():
    for settings in ({}, {"CUSHIM_RUNTIME": "0"}, {"program": STATIC}):
        done = run("count", **settings)
        done.check_report()
        assert done.total("requests") == 8 and done.total("frees") == 8, done.kinds()
        assert done.total("no_call") == 7 and done.total("misses") == 1, done.kinds()


@fixture.tap.test
def findings_are_counted():
    for program in LINKS.values():
        done = run("findings", program=program)
        expected = {"double_frees": 1, "interior_frees": 2, "foreign_frees": 3, "overruns": 4,
                    "uses_after_free": 5, "refused_ipc_handles": 0, "stuck_blocks": 0}
        assert done.report["findings"] == expected, done.report["findings"]


@fixture.tap.test
def used_bytes_equal_the_sum_of_the_records():
    for program in LINKS.values():
        done = run("sums", program=program)
        done.check_report()
        live = 100 + 2000 + 30000 + 4000000
        assert done.total("live_bytes") == live, done.kinds()
        assert done.total("peak_live_bytes") == live + 5000, done.kinds()
        assert done.total("requested_bytes") == live + 5000 + sum(i * 3000 + 1 for i in range(50))
        assert live <= done.total("block_bytes") <= done.total("held_bytes"), done.kinds()
        assert done.total("rounding_bytes") == done.total("block_bytes") - live, done.kinds()
        assert done.total("live_bytes", "pinned") == 700
        assert done.total("live_bytes", "managed") == 800


@fixture.tap.test
def pinned_and_managed_memory_have_hits_and_held_bytes():
    for kind in ("pinned", "managed"):
        # clearing by the device may be late on a busy machine: then the driver serves
        done = run("host_kinds", CUSHIM_ZERO="off")
        done.check_report()
        assert done.total("requests", kind) == 11 and done.total("frees", kind) == 10, done.report
        assert done.total("no_call", kind) > 0 and done.total("native", kind) == 0, done.report
        assert done.total("live_bytes", kind) == 5000, done.report
        assert done.total("held_bytes", kind) >= 5000, done.report


@fixture.tap.test
def copies_are_counted_by_direction_and_host_memory():
    copies = run("copies").report["copies"]

    def of(direction, memory):
        return tuple(copies[direction][memory].values())

    assert of("host_to_device", "pageable") == (3, 205), copies
    assert of("host_to_device", "pinned") == (3, 3000), copies
    assert of("device_to_host", "pageable") == (1, 10), copies
    assert of("device_to_host", "pinned") == (1, 20), copies
    assert of("device_to_device", "other") == (1, 4096), copies
    assert of("set", "other") == (1, 4000), copies


@fixture.tap.test
def layers_can_be_switched_off_one_by_one():
    done = run("sums", CUSHIM_PINNED="off", CUSHIM_MANAGED="no")
    assert not done.kinds("pinned") and not done.kinds("managed"), done.report["devices"]
    done = run("copies", CUSHIM_COPY="false")
    assert all(memory["count"] == 0 for direction in done.report["copies"].values()
               for memory in direction.values()), done.report["copies"]
    done = run("count", CUSHIM_POOL="0")
    done.check_report()
    assert done.total("native") == done.total("requests") == 8, done.kinds()


@fixture.tap.test
def a_free_after_the_drivers_end_changes_nothing():
    for program in LINKS.values():
        for scenario in ("free_at_exit", "free_statically"):
            native = run(scenario, program=program, preload=False)
            done = run(scenario, program=program)
            assert native.code == done.code == 0, (native.code, done.code, done.err)
            assert native.err == done.err == b"", done.err
            assert done.report is not None


@fixture.tap.test
def a_bad_option_is_one_line_and_changes_nothing():
    bad = {"CUSHIM_POOL": "maybe", "CUSHIM_LARGE": "12Q", "CUSHIM_CAPTURE": "sometimes",
           "CUSHIM_LOG": "loud", "CUSHIM_NOSUCH": "1", "CUSHIM_RUNTIME": "", "CUSHIM": "perhaps"}
    for name, value in bad.items():
        done = run("leave_with_code", **{name: value})
        assert done.code == 9 and done.out == b"", done.code
        assert LINE.fullmatch(done.err) and name.encode() in done.err, (name, done.err)
        assert done.total("no_call") + done.total("misses") == 1, done.kinds()
    done = run("leave_with_code", **bad)
    lines = done.err.splitlines()
    assert done.code == 9 and len(lines) == len(bad), lines
    done = run("leave_with_code", **{**bad, "CUSHIM_LOG": "off"})
    assert done.err == b"" and done.code == 9, done.err


@fixture.tap.test
def a_mistyped_option_is_told_the_nearest():
    for name, near in (("CUSHIM_STAT", "CUSHIM_STATS"), ("CUSHIM_ASYNCKEEP", "CUSHIM_ASYNC_KEEP")):
        done = run("leave_with_code", **{name: "1"})
        assert LINE.fullmatch(done.err), done.err
        assert f"{name} is no option and is ignored (did you mean {near}?)\n".encode() in done.err, done.err
    assert b"did you mean" not in run("leave_with_code", CUSHIM_NOSUCH="1").err


@fixture.tap.test
def every_option_of_the_list_is_read_from_the_environment():
    rows = re.findall(r"^OPT\((\w+),\s*(\w+),", pathlib.Path(OPTIONS.options).read_text(),
                      re.MULTILINE)
    assert len(rows) > 5
    for kind, name in rows:
        variable = "CUSHIM" if name == "cushim" else f"CUSHIM_{name.upper()}"
        value = "x" * 100000 if kind == "PATH" or name == "limit_group" else "?"
        done = run("leave_with_code", stats=name != "stats", **{variable: value})
        assert done.err.count(b"\n") == 1 and variable.encode() in done.err, (name, done.err)


@fixture.tap.test
def options_of_others_are_left_alone():
    done = run("leave_with_code", CUSHIM_SIM_SEED="3", CUSHIM_LIBCUDA="x",
               CUSHIM_LIBVULKAN="x", CUSHIM_KERNELS="x", CUSHIM_KERNEL_ARCH="cpu", CUSHIM_KERNEL_PDL="0")
    assert done.err == b"" and done.code == 9, done.err


@fixture.tap.test
def two_hundred_processes_start_without_waiting_on_each_other():
    environment = {**os.environ, "LD_PRELOAD": OPTIONS.preload, "LD_LIBRARY_PATH": OPTIONS.sim}
    running = []
    for number in range(20 if OPTIONS.few else 200):
        running.append(subprocess.Popen([SHARED, "count"], env=environment))
        if number == 0:
            os.kill(running[0].pid, 19)  # the first is stopped all the while, because it is not needed
        while len(running) > 3:
            assert running.pop(1).wait(fixture.TIMEOUT_SECONDS) == 0
    os.kill(running[0].pid, 18)
    for process in running:
        assert process.wait(fixture.TIMEOUT_SECONDS) == 0


if OPTIONS.threads:  # of the program's own, or of copies
    fixture.tap.keep(("a_thousand_threads_are_counted_to_the_last_call", "a_sandbox_that_kills_who_asks_for_a_barrier_changes_no_exit_code",
                      "staged_copies_are_counted_with_their_bytes_and_time", "a_batch_is_staged_as_a_whole_or_not_at_all"))
fixture.tap.run()

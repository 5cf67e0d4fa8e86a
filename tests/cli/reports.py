"""Reports of several processes: in a folder, in one file, and what `cushim merge` makes of them.

    reports.py CUSHIM PRELOAD SIM_FOLDER LIVE HOLDER CC...
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

LIVE, HOLDER = sys.argv.pop(4), sys.argv.pop(4)

import fixture  # noqa: E402
from fixture import CUSHIM, SIM, scratch, tap  # noqa: E402

N_KEPT, BYTES = 3, 1000
HEAD = "cushim 0.1.0: "
live_folder = scratch / "live"
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def environment(**more):
    variables = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k not in ("LD_PRELOAD", "RANK", "NO_COLOR")}
    return {**variables, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(live_folder), "XDG_CACHE_HOME": str(live_folder / "cache"), **more}


def cushim(*words, **more):
    return subprocess.run([CUSHIM, *map(str, words)], env=environment(**more), text=True, capture_output=True, timeout=120)


def device(report):
    return report["devices"][0]["kinds"]["device"]


def ranks(folder, *ends, first=0):
    """A run whose script starts a process for each end, as a launcher would; each gets a rank."""
    script = "\n".join(f'RANK={i} "$0" {end}' for i, end in enumerate(ends, first)) + "\nexit 3\n"
    return cushim("run", f"--stats={folder}", "bash", "-c", script, LIVE)


def fresh(name):
    folder = scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    return folder


@tap.test
def a_folder_has_a_file_of_each_process_and_of_the_run():
    folder = fresh("many")
    for where in (f"{folder}/", folder):  # made where it has a slash; the second run finds it there
        result = ranks(where, "exit", "signal9", "_exit")
        assert result.returncode == 3 and result.stderr.count("\n") == 1, result  # of the one killed
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 8 and names[-2:] == ["run-1.json", "run.json"], names
    assert all(re.fullmatch(r"[012]-\d+-0\.json", name) for name in names[:-2]), names
    run = json.loads((folder / "run.json").read_text())
    assert run["schema"] == "cushim-run/1" and run["command"][:2] == ["bash", "-c"] and run["exit_status"] == 3, run
    assert [(row["rank"], row["program"], row["ended"]) for row in run["processes"]] == [
        (0, "live", "with status 4"), (1, "live", "it ended without a report of its own"),
        (2, "live", "it ended without a report of its own")], run
    for row in run["processes"]:
        report = json.loads((folder / row["file"]).read_text())
        assert (report["pid"], report["rank"], report["run"]) == (row["pid"], row["rank"], run["run"]), report
        assert device(report)["requests"] == N_KEPT, report


@tap.test
def a_process_that_becomes_another_program_leaves_both_files():
    folder = fresh("again")
    result = cushim("run", f"--stats={folder}/", LIVE, "exec_again")
    names = sorted(path.name for path in folder.iterdir())
    assert result.returncode == -9 and len(names) == 3, (result, names)
    assert names[0].endswith("-0.json") and names[1] == names[0].replace("-0.json", "-1.json"), names


@tap.test
def several_processes_are_sections_of_one_report_whoever_ended_how():
    file = fresh("one.txt")
    file.unlink(missing_ok=True)
    ranks(file, "exit", "signal9", "exit")
    text = file.read_text()
    heads = re.findall(r"^cushim 0\.1\.0: live, process \d+, rank (\d), ", text, re.MULTILINE)
    assert sorted(heads) == ["0", "1", "2"] and list(scratch.glob("one-*")) == [], text
    rows = re.findall(r"^ {5}(\d)  *\d+  live +2\.93 KiB +2\.00 MiB +3 +0 ns  (\w+)$", text, re.MULTILINE)
    assert rows == [("0", "exit"), ("1", "ended"), ("2", "exit")] and "3 in all" in text, text
    file = fresh("one.json")
    ranks(file, "exit", "signal9", "exit")
    reports = json.loads(file.read_text())["reports"]
    assert sorted(report["rank"] for report in reports) == [0, 1, 2], reports
    result = ranks("stderr", "exit", "exit")
    assert result.stderr.count(HEAD) == 2 and "2 in all" in result.stderr, result


@tap.test
def merge_says_with_which_status_each_rank_ended():
    folder = fresh("status")
    for where in (f"{folder}/", f"{folder}/r.json"):
        for live in ("on", "off"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for rank, script in enumerate(('exec "$0" exit', '"$0" exit; exit 0', 'exec "$0" clear_at_last')):
                cushim("run", f"--live={live}", f"--stats={where}", "bash", "-c", script, LIVE, RANK=str(rank), WORLD_SIZE="3")
            rows = re.findall(r"^ {5}(\d) .*  (\S.*)$", cushim("merge", folder).stdout, re.MULTILINE)
            middle = "exit" if live == "on" and not where.endswith("/") else "exit 4"  # the command did not start that process
            assert rows == [("0", "exit 4"), ("1", middle), ("2", "exit 4")], (where, live, rows)


@tap.test
def who_has_no_page_takes_the_place_of_nobody():
    file = fresh("apart.json")
    result = cushim("run", f"--stats={file}", "--live=off", "bash", "-c", '"$0" exit; "$0" exit; exit 0', LIVE)
    names = sorted(path.name for path in scratch.glob("apart*.json"))
    assert result.returncode == 0 and len(names) == 2 and all(re.fullmatch(r"apart-\d+\.json", name) for name in names), (result, names)


@tap.test
def a_command_with_closed_descriptors_keeps_its_files_apart_from_its_messages():
    # descriptors of the command, which waits, then those of the program
    script = 'readlink /proc/$PPID/fd/0 >&2; readlink /proc/$PPID/fd/1 >&2; [ ! -e /proc/$$/fd/0 ] && [ ! -e /proc/$$/fd/1 ] && exit 3'
    words = ["sh", "-c", 'exec "$@" <&- >&-', "sh", CUSHIM, "run", "--stats", "sh", "-c", script]
    result = subprocess.run(words, env=environment(), text=True, capture_output=True, timeout=120)
    assert (result.returncode, result.stderr.splitlines()[:2]) == (3, ["/", "/"]), result
    words = ["sh", "-c", 'exec "$@" >&-', "sh", CUSHIM, "--version"]
    result = subprocess.run(words, env=environment(), text=True, capture_output=True, timeout=120)
    assert "standard output cannot be written" in result.stderr and result.returncode, result


@tap.test
def a_report_that_standard_output_does_not_take_is_missed():
    for live in ("on", "off"):
        for how, why in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
            words = ["sh", "-c", f'exec "$@" {how}', "sh", CUSHIM, "run", "--stats=-", f"--live={live}", LIVE, "exit"]
            result = subprocess.run(words, env=environment(), text=True, capture_output=True, timeout=120)
            assert (result.returncode, result.stderr) == (4, f"cushim: no report on standard output: {why}\n"), (live, result)


@tap.test
def a_program_that_clears_its_environment_leaves_its_report_with_the_command():
    for end in ("exit", "clear_at_first", "clear_at_last"):
        for live in ("on", "off"):
            result = cushim("run", "--stats", f"--live={live}", LIVE, end)
            assert result.returncode == 4 and result.stderr.count(HEAD) == 1, (end, live, result)
            file = fresh("cleared.json")
            file.unlink(missing_ok=True)
            result = cushim("run", f"--stats={file}", f"--live={live}", LIVE, end)
            assert result.returncode == 4 and result.stderr == "", (end, live, result)
            assert json.loads(file.read_text())["ended"] == "with status 4" and list(scratch.glob("cleared-*")) == [], (end, live)
        assert list(live_folder.glob("*.page")) == [], end


@tap.test
def names_have_variables_and_numbers():
    folder = fresh("named")
    folder.mkdir()
    for _ in range(3):
        cushim("run", f"--stats={folder}/%q{{JOB}}-%n.json", LIVE, "exit", JOB="a/b")
    assert sorted(path.name for path in folder.iterdir()) == ["a_b-0.json", "a_b-1.json", "a_b-2.json"], list(folder.iterdir())
    cushim("run", f"--stats={folder}/%q{{NOBODY}}.json", LIVE, "exit")
    assert (folder / "%q{NOBODY}.json").exists(), list(folder.iterdir())


@tap.test
def a_report_that_cannot_be_made_is_refused_before_the_program_starts():
    folder = fresh("refused")
    folder.mkdir()
    (folder / "link.json").symlink_to(folder / "other.json")
    began = folder / "began"
    names = [f"{folder}/missing/r.json", f"{folder}/missing/r-%p.json", f"{folder}/missing/r-%r.json", f"{folder}/link.json",
             f"{folder}/missing/more/", "/proc/nowhere/", f"{folder}/{'x' * 300}.json"]
    for name in names:
        for words in ((), ("--no-wait",)):
            result = cushim("run", *words, f"--stats={name}", "touch", began)
            assert result.returncode == 125 and not began.exists(), (name, result)
            assert result.stderr.count("\n") == 1 and "no report can be made in" in result.stderr, result
    assert [path.name for path in folder.iterdir()] == ["link.json"], list(folder.iterdir())
    # what is only known to a process that is started is left to it, and so is what nobody asks for
    for name in (f"{folder}/rank%r/r.json", f"{folder}/%h/r.json"):
        assert cushim("run", f"--stats={name}", "true").returncode == 0, name
    assert cushim("run", "--cushim=off", f"--stats={folder}/missing/r.json", "true").returncode == 0
    os.mkfifo(folder / "pipe")
    assert cushim("run", f"--stats={folder}/pipe", "true").returncode == 0
    assert cushim("run", "--no-wait", f"--stats={folder}/new/", LIVE, "exit").returncode == 4
    assert len(list((folder / "new").iterdir())) == 1


@tap.test
def ranks_that_are_given_one_name_lose_no_report():
    for words in ((), ("--no-wait",), ("--live=off",)):
        folder = fresh("one-name")
        folder.mkdir()
        for rank in ("0", "1"):
            result = cushim("run", *words, f"--stats={folder}/r.json", LIVE, "exit", RANK=rank, WORLD_SIZE="2")
            assert result.returncode == 4 and result.stderr == "", (words, result)
            result = cushim("run", *words, f"--stats={folder}/alone.json", LIVE, "exit", RANK="0", WORLD_SIZE="1")
        assert sorted(path.name for path in folder.iterdir()) == ["alone.json", "r-0.json", "r-1.json"], (words, list(folder.iterdir()))
        assert [json.loads((folder / f"r-{rank}.json").read_text())["rank"] for rank in (0, 1)] == [0, 1], words
    # a launcher's ranks under one command are sections of one file, which its own rank does not split
    folder = fresh("one-name")
    folder.mkdir()
    ranks(folder / "r.json", "exit", "signal9")
    assert [path.name for path in folder.iterdir()] == ["r.json"], list(folder.iterdir())
    cushim("run", f"--stats={folder}/%h.json", LIVE, "exit")
    assert (folder / f"{os.uname().nodename}.json").exists(), list(folder.iterdir())


def saved(name, *reports):
    path = scratch / name
    path.write_text(json.dumps(reports[0] if len(reports) == 1 else {"schema": "cushim-reports/1", "reports": reports}))
    return path


def report(rank=None, live=100, held=200, requests=10, waits_ns=0, **more):
    made = {"schema": "cushim-report/1", "cushim": "0.1.0", "pid": 1000 + (rank or 0), "program": "train", "run_ns": 10**9,
            "source": "process", "devices": [{"device": 0, "name": "x", "kinds": {"device": {
                "requests": requests, "peak_live_bytes": live, "peak_held_bytes": held, "wait_ns": waits_ns}}}], **more}
    return made if rank is None else {**made, "rank": rank}


MERGED = """\
  rank  process  program     peak live peak held    requests    waited  end
     0     1000  train        1.00 KiB  2.00 KiB          10      0 ns  exit
     1     1001  train        1.00 KiB  2.00 KiB          10   1.00 us  exit
     2     1002  train        3.00 KiB  2.00 KiB          10      0 ns  SIGKILL
     5     1005  train        1.00 KiB  2.00 KiB       1,000      0 ns  exit
                 4 in all     6.00 KiB  8.00 KiB       1,030   1.00 us  
  missing    ranks 3, 4
  peak live  furthest from the median of 1.00 KiB: 3.00 KiB of rank 2
  requests   furthest from the median of 10: 1,000 of rank 5
  waited     furthest from the median of 0 ns: 1.00 us of rank 1
"""


@tap.test
def merge_says_what_each_has_who_stands_out_and_who_is_missing():
    folder = fresh("merge")
    folder.mkdir()
    each = [report(0, 1024, 2048), report(1, 1024, 2048, waits_ns=1000), report(2, 3072, 2048, ended="ended by SIGKILL"),
            report(5, 1024, 2048, 1000)]
    for i, one in enumerate(each):
        (folder / f"{9 - i}.json").write_text(json.dumps(one))
    (folder / "other.json").write_text('{"schema": "another"}')
    (folder / "run.json").write_text('{"schema": "cushim-run/1", "processes": []}')
    result = cushim("merge", folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, MERGED, ""), result
    merged = scratch / "merged.json"
    assert cushim("merge", "-o", merged, folder / "9.json", folder / "8.json", folder / "7.json", folder / "6.json").stdout == MERGED
    assert json.loads(merged.read_text())["reports"] == each
    assert cushim("merge", merged).stdout == MERGED
    result = cushim("merge", "-o", merged, merged)  # its own source
    assert result.returncode == 0 and json.loads(merged.read_text())["reports"] == each, result


@tap.test
def merge_reads_what_a_run_left_and_live_pages():
    folder = fresh("real")
    ranks(f"{folder}/", "exit", "signal9")
    result = cushim("merge", folder)
    assert result.returncode == 0 and len(re.findall(r" 2\.93 KiB +2\.00 MiB +3 ", result.stdout)) == 2, result
    process = subprocess.Popen([CUSHIM, "run", LIVE, "pause"], env=environment(), text=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    result = cushim("merge", process.pid, folder)
    process.kill()
    process.communicate()
    cushim("stat", "--clean")
    assert result.returncode == 0 and re.search(rf"^     - +{process.pid}  live .*  runs$", result.stdout, re.MULTILINE), result
    assert "3 in all" in result.stdout, result


@tap.test
def what_is_no_report_is_named_in_one_line_and_loses_nothing():
    good = saved("good.json", report(0))
    bad = {"empty.json": b"", "cut.json": json.dumps(report(1)).encode()[:-40], "list.json": b"[1, 2]", "other.json": b'{"schema": "x"}',
           "deep.json": b"[" * 100000, "noise.json": os.urandom(5000), "text.json": b"cushim 0.1.0: live"}
    for name, content in bad.items():
        path = scratch / name
        path.write_bytes(content)
        result = cushim("merge", path, good)
        assert result.returncode == 1 and result.stderr.count("\n") == 1 and name in result.stderr, (name, result)
        assert "1 in all" in result.stdout, (name, result)
        result = cushim("merge", path)
        assert result.returncode == 1 and result.stderr.count("\n") == 1 and not result.stdout, (name, result)
    os.mkfifo(scratch / "pipe.json")
    (scratch / "loop.json").symlink_to("loop.json")
    for path in ("/dev/zero", scratch / "pipe.json", scratch / "loop.json", "/no/such.json", "4194304", scratch / "empty-folder"):
        result = cushim("merge", path)
        assert result.returncode == 1 and result.stderr.count("\n") == 1 and not result.stdout, (path, result)
    for words in ([], ["-o"], ["-o", ""], ["--nonsense"], ["-o", "a", "-o", "b", "c"]):
        result = cushim("merge", *words)
        assert result.returncode == 2 and result.stderr.count("\n") == 1, (words, result)


@tap.test
def what_stands_in_a_report_is_shown_and_not_obeyed():
    odd = report(0, ended="\x1b[31mred")
    odd["program"] = "\x1b]0;title\x07"
    odd["devices"] += [{"device": 10**9, "kinds": 7}, 5, {"device": -1}]
    odd["devices"][0]["kinds"]["device"].update(requests=-5, peak_live_bytes=2**80, peak_held_bytes="many", wait_ns=1.5)
    result = cushim("merge", saved("odd.json", odd))
    assert result.returncode == 0 and "\x1b" not in result.stdout and "\x07" not in result.stdout, result
    result = cushim("merge", saved("far.json", report(2**63 - 1)), saved("near.json", report(1)))  # no rank between them is gone through
    assert result.returncode == 0 and f"  missing    ranks 0, 2, 3, 4, 5, 6, 7, 8 and {2**63 - 10} more\n" in result.stdout, result


@tap.test
def all_that_is_written_follows_its_schema():
    def check(text):
        document = fixture.valid(json.loads(text))
        for one in document.get("reports", []):
            assert fixture.valid(one)["schema"] == "cushim-report/1"
        return document["schema"].removeprefix("cushim-").replace("/", "-")

    folder, file = fresh("schema"), scratch / "schema.json"
    ranks(f"{folder}/", "exit", "signal9")
    cushim("run", f"--stats={folder}/", LIVE, "signal9")
    assert sorted(check(path.read_text()) for path in folder.iterdir()) == ["report-1"] * 3 + ["run-1"] * 2
    assert json.loads((folder / "run-1.json").read_text())["signal"] == 9
    ranks(file, "exit", "signal9")
    assert check(file.read_text()) == "reports-1"
    process = subprocess.Popen([CUSHIM, "run", "--sites=1", LIVE, "pause"], env=environment(), text=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    seen = cushim("stat", "--json", process.pid).stdout
    cushim("merge", "-o", file, folder, process.pid)
    process.kill()
    process.communicate()
    cushim("stat", "--clean")
    assert check(seen) == "report-1" and check(file.read_text()) == "reports-1"


@tap.test
def whatever_stands_in_a_page_harms_no_command():
    """A page whose bits are flipped, in 100 copies at a time; cut ones; all commands that read pages."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    cushim("run", "--sites=1", HOLDER, "kill", CUSHIM_OOM="off")
    page, = live_folder.glob("*.page")
    whole = page.read_bytes()
    process = whole.index(b"CUSHIMLV")
    assert process == 0 and len(whole) > 1 << 20
    for _ in range(3):
        for i in range(100):
            flipped = bytearray(whole)
            for _ in range(rng.choice((1, 8, 200))):
                # the head and the counters, or anything
                at = rng.randrange(rng.choice((256, 4096, 1 << 18, len(whole))))
                flipped[at] ^= 1 << rng.randrange(8)
            path = live_folder / f"{i}-1.page"
            path.write_bytes(flipped if i % 10 else flipped[:rng.randrange(len(whole))])
            path.chmod(0o600)
        for words in (["stat"], ["stat", "--json"], ["stat", "holder"], ["stat", "--sites", "holder"], ["metrics"], ["top", "--once"],
                      ["merge", re.match(r"\d+", page.name)[0]]):
            result = cushim(*words, PATH="/nowhere")
            assert result.returncode == 0, (seed, words, result.returncode, result.stderr)
            assert "\033" not in result.stdout and result.stderr.count("\n") <= 2, (seed, words, result.stderr)
            decoder, at, text = json.JSONDecoder(), 0, result.stdout
            while words[-1] == "--json" and at < len(text.rstrip()):
                at = decoder.raw_decode(text, at)[1] + 1  # each is JSON
    for path in live_folder.glob("*.page"):
        path.unlink()



IDLE = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 << 30)), cuda.cuMemFree_v2(address)):
    assert result == 0, result
print("ready", flush=True)
sys.stdin.read()
"""


@tap.test
def who_keeps_idle_memory_is_told_of_who_found_none():
    more = {"CUSHIM_SIM_MEMORY": "64G", "CUSHIM_SIM_UNBACKED": "1"}
    process = subprocess.Popen([CUSHIM, "run", "--reserve=100%", sys.executable, "-c", IDLE], env=environment(**more), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "ready\n"
        assert "are idle here" not in cushim("stat", process.pid).stdout
        cushim("run", "--oom=off", HOLDER, "kill", **more)  # asks for 64 TiB, and leaves its page
        text = cushim("stat", process.pid).stdout
        assert "advice:  2.00 GiB are idle here, and 1 other process found no memory on the\n         device; a smaller --keep gives it back\n" in text, text
        report = json.loads(cushim("stat", "--json", process.pid).stdout)
        assert [(one["id"], one["evidence"]) for one in report["advice"]] == [("idle", {"idle_bytes": 2 << 30, "short_processes": 1})], report["advice"]
    finally:
        process.kill()
        process.communicate()
        cushim("stat", "--clean")


tap.run()

"""What `cushim record` says, and `cushim report` of what it recorded, of a program whose amounts are known.

    record.py CUSHIM PRELOAD SIM_FOLDER CACHE HOLDER DAMAGED KILLS CC...

CACHE is cache.c, HOLDER holder.c, DAMAGED how many damaged recordings are read, KILLS how many programs are killed at a random moment.
"""
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

CACHE, HOLDER, DAMAGED, KILLS = *(os.path.abspath(sys.argv.pop(4)) for _ in range(2)), int(sys.argv.pop(4)), int(sys.argv.pop(4))

import fixture  # noqa: E402
from fixture import CUSHIM, SIM, cushim, scratch, tap  # noqa: E402

N_BUSY, N_HELD, HELD, N_STEPS, CHURN, LEAK = 5, 4, 1 << 20, 200, 4000, 1000
SOURCE = (fixture.ROOT / "tests/cli/holder.c").read_text().splitlines()
LINES = {what: next(i for i, text in enumerate(SOURCE, 1) if f"/* {what} */" in text) for what in ("held", "churned", "leaked", "pinned")}
# our names: those of the report of the process
SAME = {"requests": "requests", "no_call": "no_call", "live_bytes": "live_bytes", "peak_live_bytes": "peak_live_bytes", "peak_held_bytes": "peak_held_bytes",
        "refused": "refused", "waits": "waits", "wait_ns": "wait_ns"}
FORMATS = ("text", "json", "html", "perfetto", "folded", "pprof", "trace-text")


def record(*words, **more):
    return cushim("record", *words, LD_LIBRARY_PATH=str(SIM), **more)


def report(*words):
    return cushim("report", *words)


def recorded(name, *words, **more):
    folder = scratch / name
    if not folder.exists():
        result = record("-o", str(folder), HOLDER, *words, **more)
        assert f"cushim: {folder}: 1 process, " in result.stderr, result
    return folder


def summary(folder):
    one, = json.loads(report("--format=json", str(folder)).stdout)
    return fixture.valid(one)


def sites(memory):
    """{function that asked: site} of one kind of memory."""
    return {site["stack"][0]["function"]: site for site in memory["sites"] if site["stack"]}


@tap.test
def a_full_cache_does_not_leak():
    """Neither where its places are so many that one of them is less than 1 % of it, nor where they are few."""
    for n_places, seeds in ((2000, 2), (16, 2)):
        for seed in range(1, seeds + 1):
            folder = scratch / f"cache-{n_places}-{seed}"
            result = record("-o", str(folder), CACHE, "50000", str(seed), str(n_places), CUSHIM_SIM_MEMORY="4G", CUSHIM_SIM_UNBACKED="1")
            assert result.returncode == 0, result
            memory = summary(folder)["memory"][0]
            assert memory["live_blocks"] > 2900 and not [site for site in memory["sites"] if site["grows"]], (n_places, seed)


@tap.test
def a_recording_that_claims_much_takes_memory_for_what_it_has():
    """4,000 writers, each with a chunk that claims 256 KiB and has a few events, and then holes: 1 GiB by its claims."""
    step, n_writers = 256 << 10, 4000
    source, = recorded("claims").iterdir()
    head, chunk = source.read_bytes()[:4096], source.read_bytes()[4096:4096 + 1024]
    with open(scratch / "claims.trace", "wb") as out:
        out.write(head)
        for writer in range(n_writers):
            out.seek(4096 + writer * step)
            out.write(chunk[:8] + struct.pack("<QQ", step, writer) + chunk[24:40] + struct.pack("<Q", step - 64) + chunk[48:])
        out.truncate(4096 + n_writers * step)
    with open(scratch / "claims.txt", "w") as out:
        process = subprocess.Popen([CUSHIM, "report", "--format=text", str(scratch / "claims.trace")], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = (scratch / "claims.txt").read_text()
    assert process.returncode == 0 and "missing   4,000 pieces of the file cannot be read" in text, text
    assert usage.ru_maxrss < 512 << 10, usage.ru_maxrss


@tap.test
def merge_has_the_status_that_record_waited_for():
    child = scratch / "child.cushim"
    assert record("-o", str(child), "sh", "-c", '"$0"; exit 3', HOLDER).returncode == 3
    assert json.loads(report("--format=json", str(child)).stdout)[0]["end"] == "it called exit"  # nobody knows the status of a child
    only = recorded("whole-1-exact", "kill", CUSHIM_FREE="exact")
    assert cushim("merge", str(only)).stdout.splitlines()[1].endswith("  SIGKILL")


@tap.test
def ranks_that_are_given_one_name_have_a_recording_each():
    """As `mpirun -n 2 cushim record -o out.cushim ./app` starts them: one command line for all."""
    out = scratch / "job" / "out.cushim"
    out.parent.mkdir()
    for rank in "0", "1":
        result = record("-o", f"{out}/", HOLDER, RANK=rank, WORLD_SIZE="2")
        assert result.returncode == 0 and f"{out.parent}/out-{rank}.cushim: 1 process, " in result.stderr, result
    for name in "%r/of-%%.cushim", "%q{RANK}.x", "%p.cushim":
        (out.parent / "7").mkdir(exist_ok=True)
        assert record("-o", f"{out.parent}/{name}", HOLDER, RANK="7", WORLD_SIZE="9").returncode == 0
    assert record("-o", str(out.parent / "alone.cushim"), HOLDER, RANK="0", WORLD_SIZE="1").returncode == 0
    names = sorted(re.sub(r"^\d\d+", "PROCESS", path.name) for path in out.parent.iterdir())
    assert names == ["7", "7.x", "PROCESS.cushim", "alone.cushim", "out-0.cushim", "out-1.cushim"], names
    assert [path.name for path in (out.parent / "7").iterdir()] == ["of-%.cushim"]
    again = record("-o", str(out), HOLDER, RANK="1", WORLD_SIZE="2")
    assert again.returncode == 125 and "out-1.cushim has a recording already: remove it, or " in again.stderr, again


@tap.test
def a_recording_has_what_the_program_did_whatever_ended_it():
    for words, end in ((), "it ended with status 0"), (("kill",), "SIGKILL ended it"):
        for free in ("exact", "relaxed"):
            one = summary(recorded(f"whole-{len(words)}-{free}", *words, CUSHIM_FREE=free))
            device, pinned = one["memory"]
            live = N_HELD * HELD + N_STEPS * LEAK
            assert one["end"] == end and device["memory"] == "device 0" and pinned["memory"] == "pinned memory", one
            assert (device["requests"], device["live_bytes"], device["peak_live_bytes"]) == (N_HELD + 2 * N_STEPS, live, live + CHURN), device
            assert device["live_blocks"] == N_HELD + N_STEPS and device["peak_held_bytes"] >= live, device
            assert pinned["live_bytes"] == 1 << 16 and pinned["requests"] == 1, pinned
            assert one["lost"] == one["damaged"] == one["strange"] == one["foreign"] == one["disorder"] == 0, one


@tap.test
def ranks_are_in_the_recordings_of_a_run():
    """Two processes as two launchers start them, and one that none did; rank 1 of three is missing."""
    folder = scratch / "ranks"
    script = 'RANK=0 WORLD_SIZE=3 "$0"; PMIX_RANK=2 "$0" kill; "$0"; exit 0'
    result = record("-o", str(folder), "sh", "-c", script, HOLDER, RANK=None)
    assert f"cushim: {folder}: 3 processes, " in result.stderr, result
    found = [(one.get("rank"), one.get("ranks"), fixture.valid(one)["end"]) for one in json.loads(report("--format=json", str(folder)).stdout)]
    ends = "it called exit", "it still runs, or its end was not recorded"
    assert sorted(found, key=str) == [(0, 3, ends[0]), (2, None, ends[1]), (None, None, ends[0])], found
    heads = [line for line in report(str(folder)).stdout.splitlines() if line.startswith("cushim ")]
    assert sorted(re.sub(r".* on [^ ,]+", "", line) for line in heads) == ["", ", rank 0 of 3", ", rank 2"], heads
    merged = cushim("merge", str(folder)).stdout
    assert re.findall(r"^ +([-\d]+) +\d+  holder", merged, re.MULTILINE) == ["-", "0", "2"] and "missing    ranks 1\n" in merged, merged
    report("--format=html", "-o", str(scratch / "ranks.html"), str(folder))
    report("-o", str(scratch / "ranks.json"), str(folder))
    assert (scratch / "ranks.json").read_text() == report("--format=json", str(folder)).stdout
    assert sorted(re.findall(r'"rank": (\d+)', (scratch / "ranks.html").read_text())) == ["0", "2"]


@tap.test
def sites_have_what_is_theirs():
    device, pinned = summary(recorded("sites"))["memory"]
    found = sites(device)
    held, churned, leaked = found["hold_much"], found["churn"], found["leak_some"]
    assert (held["live_bytes"], held["blocks_at_peak"], held["grows"]) == (N_HELD * HELD, N_HELD, False), held
    assert (churned["requests"], churned["temporary"], churned["frees"], churned["live_bytes"]) == (N_STEPS, N_STEPS, N_STEPS, 0), churned
    assert churned["bytes_at_peak"] == CHURN, churned
    assert (leaked["live_bytes"], leaked["live_blocks"], leaked["grows"]) == (N_STEPS * LEAK, N_STEPS, True), leaked
    assert sum(site["bytes_at_peak"] for site in device["sites"]) == device["peak_live_bytes"], device
    assert sum(site["live_bytes"] for site in device["sites"]) == device["live_bytes"], device
    assert device["refused"] == found["main"]["refused"] == 1, device
    for site, what in (held, "held"), (churned, "churned"), (leaked, "leaked"), (sites(pinned)["pin_some"], "pinned"):
        assert site["stack"][0]["line"] == f"holder.c:{LINES[what]}", (what, site)
        assert [frame["function"] for frame in site["stack"]][1] == "main", site


@tap.test
def the_text_says_it_to_people():
    text = report(str(recorded("sites"))).stdout
    for pattern in (r"^cushim [\d.]+: .+   process \d+ on ", r"^  recorded .* \(no GPU\), [\d,]+ events; it ended with status 0$", r"^device 0$",
                    r"^peak      4\.19 MiB live after .*; .* held at most$",
                    rf"^    95\.\d %   4\.00 MiB         4 blocks  hold_much holder\.c:{LINES['held']} < main holder\.c:\d+$",
                    rf"^churn     200 blocks freed before the next request:\s+churn holder\.c:{LINES['churned']} < main ",
                    r"^refused   1 request found no memory:\s+main holder\.c:",
                    r"^alive     204 blocks, 4\.19 MiB at the end, from 2 sites$",
                    rf"^leak      may leak, 195 KiB live at the end:\s+leak_some holder\.c:{LINES['leaked']} < main ",
                    r"^pinned memory$", r"^alive     1 block, .*\n.*\n\nadvice    free what may leak "):
        assert re.search(pattern, text, re.MULTILINE), (pattern, text)


@tap.test
def a_program_in_a_deep_folder_has_its_name_in_the_first_line():
    program = scratch / ("deep" * 20) / "holder"
    program.parent.mkdir()
    shutil.copy(HOLDER, program)
    record("-o", str(scratch / "deep.cushim"), str(program), "pin")
    assert re.match(r"cushim [\d.]+: holder pin   process \d+ on ", report(str(scratch / "deep.cushim")).stdout)


@tap.test
def moments_of_several_recordings_have_their_names():
    file, = recorded("sites").iterdir()
    one = report("--at=peak", str(file)).stdout
    assert report("--at=peak", str(file), str(file)).stdout == f"{file}\n{one}\n{file}\n{one}" and one.startswith("device 0 after "), one


@tap.test
def times_of_the_software_device_are_said_to_be_no_gpus():
    folder = recorded("sites")
    assert summary(folder)["is_software"] is True
    assert "(no GPU: " in report("--at=peak", str(folder)).stdout.splitlines()[1]
    assert report("--format=perfetto", str(folder)).stdout.count(' (no GPU)"') == 1
    assert cushim("merge", str(folder)).stdout.endswith("  waited: no GPU in 1 of them\n")
    result = cushim("diff", "--fail-if=wait_ns<0", str(folder), str(folder))
    assert " device.wait_ns (no GPU) " in result.stdout, result
    first = fixture.build("runtime-first", source="""
        #include <dlfcn.h>
        #include <stddef.h>
        int main(void) {
            void *runtime = dlopen("libcudart.so.13", RTLD_NOW), *block;
            int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
            return allocate(&block, 1000);
        }
    """)
    assert record("-o", str(scratch / "first.cushim"), str(first)).returncode == 0
    assert summary(scratch / "first.cushim")["is_software"] is True
    # the last field but one of the head says it: without it, as on a GPU, there is not a word
    gpu = scratch / "of-a-gpu.cushim"
    shutil.copytree(folder, gpu)
    for file in gpu.iterdir():
        data = bytearray(file.read_bytes())
        at = (len(data[:4096].rstrip(b"\0")) - 1) // 8 * 8 - 8
        assert data[at] == 1
        data[at] = 0
        file.write_bytes(data)
    assert "is_software" not in summary(gpu)
    for words in (["report"], ["report", "--at=peak"], ["report", "--format=perfetto"], ["merge"]):
        assert "no GPU" not in cushim(*words, str(gpu)).stdout, words


@tap.test
def record_says_what_it_recorded_and_ends_as_the_program_does():
    folder = scratch / "said"
    result = record("-o", str(folder), HOLDER, "kill")
    assert result.returncode == -9 and re.search(rf"^cushim: {folder}: 1 process, [\d,]+ events, [\d.]+ KiB; `cushim report {folder}` reads it$",
                                                 result.stderr, re.MULTILINE), result
    result = record("-o", str(scratch / "two words"), HOLDER)
    assert f"`cushim report '{scratch}/two words'` reads it\n" in result.stderr, result
    result = record("-o", str(folder), HOLDER)
    assert result.returncode == 125 and f"{folder} has a recording already" in result.stderr, result
    empty = scratch / "empty"
    result = record("-o", str(empty), "/bin/true")
    assert result.returncode == 0 and "no recording: " in result.stderr and not empty.exists(), result
    result = record("-o", str(empty), "/no/such")
    assert result.returncode == 127 and not empty.exists(), result
    result = subprocess.run([CUSHIM, "record", "--stacks=none", HOLDER], cwd=scratch, text=True, capture_output=True,
                            env={**os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "XDG_CACHE_HOME": str(scratch / "cache")}, timeout=120)
    name = re.search(r"cushim: (holder\.\d+\.cushim): ", result.stderr).group(1)
    device, _ = summary(scratch / name)["memory"]
    assert [site["stack"] for site in device["sites"]] == [[]], device
    for words in ((), ("-o",), ("-x", HOLDER), ("--nonsense", HOLDER)):
        assert record(*words).returncode == 2, words


@tap.test
def record_names_the_line_that_found_no_memory():
    line = next(i for i, text in enumerate(SOURCE, 1) if "/* refused */" in text)
    told = rf"^cushim: 1 request found no memory: main holder\.c:{line}$"
    for oom, n in (("full", 1), ("line", 1), ("off", 0)):
        result = record(f"--oom={oom}", "-o", str(scratch / f"refused-{oom}"), HOLDER)
        assert len(re.findall(told, result.stderr, re.MULTILINE)) == n == result.stderr.count("found no memory: "), (oom, result.stderr)


@tap.test
def a_moment_behind_the_end_is_the_end():
    folder = str(recorded("sites"))
    for at, is_end in (("end", True), ("4min", True), ("2m", True), ("1h", True), ("60", True), ("1us", False)):
        assert (", the end: " in report(f"--at={at}", folder).stdout.splitlines()[0]) == is_end, at


@tap.test
def what_is_no_recording_is_said_in_one_line():
    (scratch / "none").mkdir(exist_ok=True)
    (scratch / "text").write_text("no recording")
    for words, code in ((str(scratch / "none"), 1), (str(scratch / "text"), 1), ("/nowhere", 1), ((), 2), (("--format=nonsense", "x"), 2),
                        (("--nonsense", "x"), 2), (("a", "b"), 1)):
        result = report(*([words] if isinstance(words, str) else words))
        assert result.returncode == code and result.stderr.count("\n") == 1, (words, result)
    assert report("-o", "-", str(recorded("sites"))).stdout == report("--format=text", str(recorded("sites"))).stdout != ""
    result = report("-o", "/nowhere/file", str(recorded("sites")))
    assert result.returncode == 125 and "No such file" in result.stderr, result
    result = subprocess.run([CUSHIM, "report", str(recorded("sites"))], stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
    assert result.returncode == 125 and "No space left" in result.stderr, result


@tap.test
def an_earlier_file_stays_if_no_recording_can_be_read():
    earlier, text, folder = scratch / "earlier.html", scratch / "text", recorded("sites")
    for name in "earlier.html", "earlier.txt":
        earlier = scratch / name
        earlier.write_text("of before")
        result = report("-o", str(earlier), str(text))
        assert result.returncode == 1 and result.stderr == f"cushim: {text}: no recording; `cushim record` makes one\n" and earlier.read_text() == "of before", result
        result = report("-o", str(earlier), str(text), str(folder))
        assert result.returncode == 1 and earlier.read_text() != "of before", result
    file, = folder.iterdir()
    before = file.read_bytes()
    result = report("-o", str(file), str(folder))
    assert result.returncode == 2 and f"-o names the recording {file} itself" in result.stderr and file.read_bytes() == before, result


@tap.test
def a_recording_of_another_version_is_told_as_one():
    before, other = next(recorded("sites").iterdir()).read_bytes(), scratch / "other-version.trace"
    other.write_bytes(before[:8] + bytes([before[8] ^ 1]) + before[9:])
    assert report(str(other)).stderr == f"cushim: {other}: a recording of another version of cushim\n"


@tap.test
def the_page_of_this_folder_has_its_name():
    folder = scratch / "named"
    shutil.copytree(recorded("sites"), folder)
    result = subprocess.run([CUSHIM, "report", "."], cwd=folder, text=True, capture_output=True, timeout=60)
    assert result.stdout.endswith(f"\nwrote     {os.path.realpath(folder)}.html\n"), result


@tap.test
def a_page_replaces_a_page_and_no_other_file():
    folder, page = scratch / "mine.cushim", scratch / "mine.html"
    shutil.copytree(recorded("sites"), folder)
    assert report(str(folder)).stdout.endswith(f"\nwrote     {page}\n")
    before = page.read_text()
    page.write_text(before + "\n")
    assert report(str(folder)).returncode == 0 and page.read_text() == before
    page.write_text("mine")
    result = report(str(folder))
    assert result.returncode == 125 and result.stderr == f"cushim: {page} is no page of cushim and stays; -o names another place\n", result
    assert page.read_text() == "mine" and report("-o", str(page), str(folder)).returncode == 0 and page.read_text() == before


@tap.test
def numbers_of_a_recording_that_is_being_written_are_of_one_moment():
    folder = scratch / "written"
    env = {**os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "CUSHIM_SIM_MEMORY": "4G", "CUSHIM_SIM_UNBACKED": "1"}
    process = subprocess.Popen([CUSHIM, "record", "-o", str(folder), CACHE, "1000000000", "1", "16"], env=env, stderr=subprocess.DEVNULL)
    for _ in range(600):
        time.sleep(0.1)
        if folder.exists() and list(folder.glob("*.trace")) and summary(folder)["memory"]:
            break
    reports = [summary(folder)["memory"][0] for _ in range(5)]
    process.terminate()
    process.wait()
    for memory in reports:
        assert memory["requests"] == sum(site["requests"] for site in memory["sites"]) > 0, memory
        assert memory["live_bytes"] == sum(site["live_bytes"] for site in memory["sites"]), memory


@tap.test
def a_recording_that_was_cut_is_told_as_one():
    file = scratch / "cut.trace"
    whole = next(recorded("sites").glob("*.trace")).read_bytes()
    assert summary(recorded("sites"))["damaged"] == 0
    for n_bytes in (len(whole) - 1, 4096):  # in a chunk, and before the first one
        file.write_bytes(whole[:n_bytes])
        assert summary(file)["damaged"] == 1, n_bytes
        assert "\nmissing   1 piece of the file cannot be read\n" in report("-o", "-", str(file)).stdout, n_bytes


@tap.test
def damaged_recordings_are_read_as_far_as_they_go():
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    whole = next(recorded("sites").glob("*.trace")).read_bytes()
    used = 4096 + 64 + int.from_bytes(whole[4096 + 40:4096 + 48], "little")
    file = scratch / "damaged.trace"
    for i in range(DAMAGED):
        data = bytearray(whole[:rng.randrange(len(whole))] if i % 4 == 0 else whole)
        for _ in range(rng.choice((1, 3, 20))):
            at = rng.randrange(min(used, len(data))) if data else 0
            if data:
                data[at] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        form = ("--at=1ms", "--by=size", f"--format={FORMATS[i % len(FORMATS)]}")[i % 10 % 3 if i % 10 < 2 else 2]
        result = subprocess.run([CUSHIM, "report", form, str(file)], capture_output=True, timeout=120,
                                env={"PATH": "/nowhere"})  # so that each need not be asked for lines
        assert result.returncode in (0, 1) and result.stderr.count(b"\n") <= 1, (seed, i, result)
        assert b"\x1b" not in result.stdout or FORMATS[i % len(FORMATS)] == "pprof", (seed, i)  # there it may be a number


COUNTING = '''
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
for result in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), cuda.cuCtxSetCurrent(context)):
    assert result == 0, result
os.write(1, b"%d\\n" % os.getpid())
for i in range(100000):
    block = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000 + i)) == 0
    os.write(1, b"a")
    if i % 3:
        assert cuda.cuMemFree_v2(block) == 0
        os.write(1, b"f")
'''


@tap.test
def a_python_program_that_is_killed_anywhere_misses_at_most_one_event():
    """It says what it did after each call, so one call may be done and not be said."""
    script = scratch / "counting.py"
    script.write_text(COUNTING)
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for i in range(KILLS):
        folder = scratch / f"killed-{i}"
        with subprocess.Popen([CUSHIM, "record", "-o", folder, sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                              env={**os.environ, "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(scratch / "live-pages"), "XDG_CACHE_HOME": str(scratch / "cache"),
                                   "CUSHIM_FREE": rng.choice(("exact", "relaxed"))}) as process:
            pid = int(process.stdout.readline())
            said = process.stdout.read(rng.choice((1, 10, 100, rng.randrange(1, 3000))))
            os.kill(pid, signal.SIGKILL)
            said += process.stdout.readall()
            error = process.stderr.readall()
        one, = json.loads(cushim("report", "--format=json", str(folder), PATH="/nowhere").stdout)  # no need to ask for lines
        device, = one["memory"]
        asked, freed = device["requests"], device["requests"] - device["live_blocks"]
        assert process.returncode == -9 and asked - said.count(b"a") in (0, 1) and freed - said.count(b"f") in (0, 1), (seed, i, device, len(said), error)
        assert asked + freed - len(said) in (0, 1), (seed, i, asked, freed, len(said))
        assert sum(site["requested_bytes"] for site in device["sites"]) == sum(range(1000, 1000 + asked)), (seed, i)
        assert one["lost"] == one["damaged"] == one["foreign"] == one["disorder"] == 0, (seed, i, one)


@tap.test
def events_sum_up_to_the_counters_of_the_process():
    for free in ("exact", "relaxed"):
        for words in (), ("kill",), ("busy",):
            name = f"sums-{free}{''.join(words)}"
            folder, file = scratch / name, scratch / f"{name}.json"
            result = record(f"--stats={file}", f"--free={free}", "-o", str(folder), HOLDER, *words)
            memory = summary(folder)["memory"]
            kinds = json.loads(file.read_text())["devices"][0]["kinds"]
            assert len(memory) == 2, result
            for one, kind in zip(memory, ("device", "pinned")):
                counted = kinds[kind]
                for ours, theirs in SAME.items():
                    assert one[ours] == counted[theirs], (free, words, kind, ours, one[ours], counted)
                assert one["requests"] - one["live_blocks"] == counted["frees"], (one, counted)
            if words == ("busy",) and free == "exact":
                busy = sites(memory[0])["free_busy"]
                assert memory[0]["waits"] >= N_BUSY and busy["wait_ns"] > N_BUSY * 1000000, (memory, busy)


@tap.test
def each_file_is_asked_for_its_lines_once():
    folder, bin, log = recorded("sites"), scratch / "bin", scratch / "asked"
    bin.mkdir(exist_ok=True)
    (bin / "addr2line").write_text(f'#!/bin/sh\necho "$4" >> {log}\nexec {shutil.which("addr2line")} "$@"\n')
    (bin / "addr2line").chmod(0o755)
    for form in ("text", "html"):  # of two kinds of memory, each read by itself
        log.unlink(missing_ok=True)
        result = cushim("report", f"--format={form}", "-o", str(scratch / "asked.out"), str(folder), PATH=f"{bin}:{os.environ['PATH']}")
        asked = log.read_text().splitlines()
        assert result.returncode == 0 and HOLDER in asked and len(asked) == len(set(asked)), (form, asked)


@tap.test
def lines_of_a_program_that_was_built_anew_are_doubted():
    program, folder = scratch / "built", scratch / "newer"
    shutil.copy2(HOLDER, program)
    assert record("-o", str(folder), str(program)).returncode == 0
    assert summary(folder)["newer"] == 0 and "written since" not in report(str(folder)).stdout
    os.utime(program, (time.time() + 100,) * 2)
    assert summary(folder)["newer"] == 1
    text = report(str(folder)).stdout
    assert "\nmissing   1 file has changed since: its lines may be wrong\n" in text, text


@tap.test
def what_could_not_be_written_is_not_taken_for_none():
    script = scratch / "has-no-room.py"
    script.write_text("""
import ctypes, resource
cuda, at = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
for result in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0), cuda.cuCtxSetCurrent(at)):
    assert result == 0, result
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096)) == 0
""")
    folder = scratch / "has-no-room"
    result = record("-o", str(folder), sys.executable, str(script))
    assert result.returncode == 0 and " ended early: File too large\n" in result.stderr, result
    assert result.stderr.endswith(f"cushim: {folder}: 1 process, 0 events, 4.00 KiB; `cushim report {folder}` reads it\n"), result
    text = report("-o", "-", str(folder)).stdout
    assert re.search(r"^missing   \d+ events were not written$", text, re.MULTILINE) and "no memory was requested" not in text, text


@tap.test
def a_recording_has_a_bound_and_says_what_it_lacks():
    script = scratch / "counting-less.py"
    script.write_text(COUNTING.replace("range(100000)", "range(20000)").replace("1000 + i", "1000 + i % 100"))
    result = record("--trace-max=64K", "-o", str(scratch / "small"), sys.executable, str(script))
    said = re.search(r"^cushim: the recording of process \d+ ended early: its file was full; ([\d,]+) events were not written; --trace-max allows more$", result.stderr, re.MULTILINE)
    file, = (scratch / "small").glob("*.trace")
    assert result.returncode == 0 and int(said[1].replace(",", "")) > 1000 and file.stat().st_size <= 64 << 10, result
    text = report(str(scratch / "small")).stdout
    assert f"missing   {said[1]} events were not written" in text and "the recording ended early: its file was full" in text, text
    for stacks, has_some in ("auto", True), ("native", True), ("none", False):
        folder = scratch / f"stacks-{stacks}"
        assert record(f"--stacks={stacks}", "-o", str(folder), HOLDER).returncode == 0
        assert any(site["stack"] for site in summary(folder)["memory"][0]["sites"]) == has_some
    for word in "--stacks=all", "--stacks", "--trace-max=much":
        result = record(word, HOLDER)
        assert result.returncode == 2 and result.stderr.count("\n") == 1, result


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def write_large(path, n_events):
    """A recording that no program made (docs/internals/trace-format.md): full chunks, at whose end nothing lives.  Returns its events."""
    body, n, last = b"\x60" + varint(0) * 3 + varint(77) + varint(1), 1, 0
    while len(body) < (256 << 10) - 6000:
        for code in (0x10, 0x20):
            for i in range(64):
                address = (1 + i) << 12
                body += bytes([code]) + varint(3) + varint(2 * (address - last) if address >= last else 2 * (last - address) - 1)
                body += varint(1000 + i) + varint(0) if code == 0x10 else b""
                n, last = n + 1, address
    n_chunks = -(-n_events // n)
    with open(path, "wb") as file:
        file.write(struct.pack("<8sII", b"CUSHIMTR", 2, 4096).ljust(4096, b"\0"))
        for i in range(n_chunks):
            head = struct.pack("<8s5Q", b"CUSHIMCH", 256 << 10, 0, i, 1000000000 + i * n * 48, len(body))
            file.write((head.ljust(64, b"\0") + body).ljust(256 << 10, b"\0"))
    return n_chunks * n


@tap.test
def a_large_recording_is_read_in_little_memory():
    """By hand of 10^8 events: CUSHIM_TEST_EVENTS=100000000, half a GiB of disk and some 40 s."""
    file, most = scratch / "large.trace", 128 << 20
    n_events = write_large(file, int(os.environ.get("CUSHIM_TEST_EVENTS", 1000000)))
    for form in ("json", "html"):
        done = subprocess.run([CUSHIM, "report", f"--format={form}", "-o", str(scratch / f"large.{form}"), str(file)], text=True, capture_output=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
        assert done.returncode == 0 and done.stderr == "", done
    one, = json.loads((scratch / "large.json").read_text())
    memory, = one["memory"]
    assert one["events"] == n_events and memory["live_blocks"] == 0 and one["damaged"] == one["strange"] == one["disorder"] == 0, one
    assert memory["peak_live_bytes"] == sum(range(1000, 1064)) and (scratch / "large.html").stat().st_size < 1 << 20, memory
    file.unlink()


@tap.test
def names_of_others_are_text():
    """Those of a program, and of what it was built of, are shown and not obeyed."""
    folder = recorded("sites")
    file = next(folder.glob("*.trace"))
    data = bytearray(file.read_bytes())
    at = data.index(HOLDER.encode()[-20:], 0, 4096)
    data[at:at + 8] = b"\x1b[31m\"\\\n"
    hostile = scratch / "hostile.trace"
    hostile.write_bytes(data)
    assert "\x1b" not in report(str(hostile)).stdout
    assert "\x1b[31m\"\\\n" in json.loads(report("--format=json", str(hostile)).stdout)[0]["arguments"]


tap.run()

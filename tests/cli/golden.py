"""Every screen, of files that do not change: what is kept in golden/ is what is printed today, and files of other versions are refused in a line.

    golden.py CUSHIM PRELOAD SIM_FOLDER HOLDER [CC...]

HOLDER is holder.c.  After a change that was meant, see the difference with git after

    golden.py CUSHIM PRELOAD SIM_FOLDER HOLDER write     the screens, of the files that are kept
    golden.py CUSHIM PRELOAD SIM_FOLDER HOLDER make      these files, too, which a new layout of the page needs
"""
import json
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HOLDER = os.path.abspath(sys.argv.pop(4))

from fixture import CUSHIM, SIM, cushim, scratch, tap, valid  # noqa: E402

KEPT = pathlib.Path(__file__).resolve().parent / "golden"
PAGE, TRACE = "4194000-1000.page", "4194000-1000.trace"  # of a process whose number none has
BOOT = "01234567-89ab-4def-8123-456789abcdef"
# Names of files to write screens to, and the commands; all in a folder that has the kept files.
SCREENS = {
    "stat": ["stat"],
    "stat-one": ["stat", "holder"],
    "stat-sites": ["stat", "--sites", "holder"],
    "stat-json": ["stat", "--json", "holder"],
    "top": ["top", "--once"],
    "metrics": ["metrics"],
    "merge": ["merge", "before.json", "after.json", "4194000"],
    "diff": ["diff", "before.json", "after.json", "--fail-if", "peak_held>+5%, refused>0"],
    "report": ["report", TRACE],
    "report-sites": ["report", "--at=peak", "--by=site", TRACE],
    "report-sizes": ["report", "--at=end", "--by=size", TRACE],
    "report-json": ["report", "--format=json", TRACE],
    "report-folded": ["report", "--format=folded", TRACE],
    "plan": ["replay", "--plan", "--with=native,exact,relaxed", TRACE],
    "plan-json": ["replay", "--plan", "--json", "--with=exact", TRACE],
}
WIDE = {"metrics"}  # lines for programs


def unpacked(folder):
    """The kept files, as they were when they were made."""
    folder.mkdir()
    (folder / "live").mkdir(mode=0o700)
    for name in (PAGE, TRACE):
        path = folder / ("live" if name == PAGE else ".") / name
        path.write_bytes(lzma.decompress((KEPT / f"{name}.xz").read_bytes()))
        path.chmod(0o600)
    for name in ("before.json", "after.json"):
        shutil.copy(KEPT / name, folder / name)
    return folder


def screen(folder, *words):
    """What a person sees, or a program; nobody is asked for lines, which other machines have not."""
    done = subprocess.run([CUSHIM, *words], cwd=folder, env={"PATH": "/nowhere", "CUSHIM_LIVE_DIR": str(folder / "live")}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    assert done.returncode == (words[0] == "diff"), done
    return done.stdout


HERE = unpacked(scratch / "here") if len(sys.argv) < 5 or sys.argv[4] != "make" else None


@tap.test
def every_screen_is_as_it_is_kept():
    different = []
    for name, words in SCREENS.items():
        text = screen(HERE, *words)
        if text != (KEPT / f"{name}.txt").read_text():
            different.append((name, text))
    assert not different, (f"if that was meant: {os.path.basename(__file__)} ... write (or make), and look at the difference with git", different[0], [name for name, _ in different])


@tap.test
def no_screen_is_wider_than_80_columns():
    for name in SCREENS:
        if "json" not in name and "folded" not in name and name not in WIDE:
            wide = [line for line in (KEPT / f"{name}.txt").read_text().splitlines() if len(line) > 80]
            assert not wide, (name, wide)


@tap.test
def one_of_a_thing_is_not_many():
    wrong = [(name, line) for name in SCREENS for line in (KEPT / f"{name}.txt").read_text().splitlines()
             if re.search(r"(?<![\w.,:/+-])1 (?!is\b|was\b|has\b)[a-z]+s\b", line)]
    assert not wrong, wrong


@tap.test
def what_is_kept_follows_the_schemas_of_today():
    """So a schema that changes its meaning needs a number of its own."""
    for text in ("stat-json.txt", "report-json.txt", "plan-json.txt", "before.json", "after.json"):
        document = json.loads("".join(line for line in (KEPT / text).read_text().splitlines() if not line.startswith("cushim: ")))
        for one in document if isinstance(document, list) else [document]:
            valid(one)


@tap.test
def files_of_another_version_are_refused_in_a_line():
    other = unpacked(scratch / "other")
    for version in (1, 3, 1 << 31):
        data = bytearray((other / TRACE).read_bytes())
        struct.pack_into("<I", data, 8, version)
        (other / "other.trace").write_bytes(data)
        for words in (["report"], ["report", "--format=html", "-o", str(other / "page.html")], ["replay", "--plan"]):
            result = cushim(*words, str(other / "other.trace"))
            assert result.returncode == 1 and result.stdout == "" and result.stderr.count("\n") == 1 and "other.trace" in result.stderr, (version, result)
    for number in ("0", "2", "10"):
        report = json.loads((KEPT / "before.json").read_text())
        report["schema"] = f"cushim-report/{number}"
        (other / "other.json").write_text(json.dumps(report))
        for words in (["merge", "other.json"], ["diff", "before.json", "other.json"]):
            result = subprocess.run([CUSHIM, *words], cwd=other, text=True, capture_output=True, timeout=60)
            assert result.returncode in (1, 2) and result.stdout == "" and result.stderr.count("\n") == 1 and "other.json" in result.stderr, (number, result)
    page = other / "live" / PAGE
    data = bytearray(page.read_bytes())
    for layout in (0, 8, struct.unpack_from("<Q", data, 8)[0] + 8, (1 << 64) - 1):
        struct.pack_into("<Q", data, 8, layout)
        page.write_bytes(data)
        for words in (["stat", "4194000"], ["merge", "4194000"]):
            result = cushim(*words, CUSHIM_LIVE_DIR=str(other / "live"))
            assert result.returncode == 1 and result.stdout == "" and result.stderr.count("\n") == 1, (layout, result)


def make():
    """The files, of programs that run now; what names this machine is left out."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cushim-example-", dir="/tmp"))
    shutil.copy(HOLDER, folder / "holder")
    live = folder / "live"

    def run(*words, **more):
        return subprocess.run([CUSHIM, *words, "./holder", "kill"], cwd=folder, capture_output=True, timeout=60,
                              env={"PATH": "/nowhere", "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": str(live), **more})

    run("run", "--stats=before.json", "--oom=off")
    run("run", "--stats=after.json", "--oom=off", "--free=relaxed", "--keep=0")
    run("run", "--sites=1", "--oom=off")
    run("record", "-o", "recording", CUSHIM_LIVE="0")
    host = os.uname().nodename.encode()
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for name, path in ((PAGE, next(live.glob("*.page"))), (TRACE, next((folder / "recording").glob("*.trace")))):
        data = path.read_bytes()
        head = data[:8192].replace(host.ljust(32, b"\0"), b"node7".ljust(32, b"\0")).replace(boot.encode(), BOOT.encode())
        process = int(re.match(r"\d+", path.name).group())
        head = head.replace(struct.pack("<Q", process), struct.pack("<Q", 4194000))
        data = head + data[8192:]
        data = data.replace(str(folder).encode(), b"/opt/train".ljust(len(str(folder)), b"/"))
        (KEPT / f"{name}.xz").write_bytes(lzma.compress(data, preset=9))
    for name in ("before.json", "after.json"):
        report = json.loads((folder / name).read_text())
        report.update(host="node7", boot=BOOT, start_ns=1000, folder="/opt/train")
        report["pid"] = 4194001 + (name == "after.json")
        (KEPT / name).write_text(json.dumps(report, indent=1) + "\n")
    shutil.rmtree(folder)


if sys.argv[4:5] == ["make"]:
    make()
    HERE = unpacked(scratch / "here")
if sys.argv[4:5] in (["make"], ["write"]):
    for name, words in SCREENS.items():
        (KEPT / f"{name}.txt").write_text(screen(HERE, *words))
else:
    tap.run()

"""tools/quickstart prints what docs/guide/quick-start.md shows, in some 60 lines, and builds no more than it needs.

    quickstart.py CUSHIM PRELOAD SIM_FOLDER

Scripts replace meson and ninja: they copy the built files to where a build would put them; everything else is real.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guide/quick-start.md"
CUSHIM, PRELOAD, SIM = (pathlib.Path(word).resolve() for word in sys.argv[1:4])

MOST_LINES = 58  # without those that depend on the machine, of which there are some seven
# targets of ninja -> the files that they build, and their places in a build folder
TARGETS = {
    "preload cli": [(CUSHIM, "tools/cushim/cushim"), (PRELOAD, "preload/libcushim-preload.so")],
    "sim": [(SIM / "libcuda.so.1", "tools/sim/libcuda.so.1"), (SIM / "libcudart.so.13", "tools/sim/libcudart.so.13")],
}

MESON = """#!/bin/sh
echo "meson $*" >>"$QUICKSTART_CALLS"
"""

NINJA = f"""#!{sys.executable}
import os, pathlib, shutil, sys
build, target = pathlib.Path(sys.argv[2]), " ".join(sys.argv[3:])
with open(os.environ["QUICKSTART_CALLS"], "a") as calls:
    calls.write(f"ninja {{target}}\\n")
if target == os.environ.get("QUICKSTART_BREAKS"):
    print("FAILED: as it was told to")
    sys.exit(1)
for number, (built, place) in enumerate({ {name: [(str(a), b) for a, b in rows] for name, rows in TARGETS.items()} }[target]):
    (build / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(built, build / place)
    print(f"[{{number + 1}}/2] {{place}}", flush=True)
"""


def quickstart(folder, **environment):
    """Run it in a folder, on a terminal; returns (exit code, what the terminal shows, calls of meson and ninja)."""
    for name, text in (("meson", MESON), ("ninja", NINJA)):
        script = folder / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
        script.chmod(0o755)
    calls = folder / "calls"
    calls.write_text("")
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    env |= {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(SIM),
            "QUICKSTART_CALLS": str(calls), "XDG_CACHE_HOME": str(folder / "cache"), "CUSHIM_LIVE_DIR": str(folder / "live"), **environment}
    ours, its = os.openpty()
    process = subprocess.Popen([ROOT / "tools" / "quickstart", "build"], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                               stdout=its, stderr=its)
    os.close(its)
    text = b""
    try:
        while piece := os.read(ours, 1 << 16):
            text += piece
    except OSError:
        pass  # the error of a terminal when the last writer is gone
    os.close(ours)
    shown = [line.rsplit("\r", 1)[-1].rstrip() for line in text.decode().replace("\r\n", "\n").split("\n")]
    return process.wait(), shown, calls.read_text().splitlines()


def without_numbers(line):
    """The text that two runs have in common: without numbers, their units, and the width of columns."""
    line = re.sub(r"checksum \w+", "checksum", line)
    line = re.sub(r"[\d,.]*\d+( (ns|us|ms|s|B|[KMGTP]iB)\b)?", "N", line)
    return re.sub(r" +", " ", line).strip()


def sample():
    """The lines of the sample as a machine without a GPU shows them, where the program prints no times."""
    lines = PAGE.read_text().splitlines()
    begin = lines.index("    $ ./tools/quickstart") + 1
    shown = []
    for line in lines[begin:]:
        if line and not line.startswith("    "):
            break
        line = line[4:]
        if line.startswith("        for "):
            shown.append("        no GPU answers: building a device in software; its times are not those of a GPU")
        elif not re.match(r"vecadd: [\d.]+ s,", line):
            line = line.replace("vecadd --time", "vecadd").replace(" (measured)", " (no GPU)")
            if line.startswith("        cushim doctor "):
                shown.append("        cushim sim bash                 # a shell in which the device in software answers")
            shown.append(re.sub(r"^(  recorded [\d.]+ ms)(?! \(no GPU)", r"\1 (no GPU)", line))
    return shown


def of_anywhere(line, toolkit):
    """The text without names of machines and folders."""
    line = re.sub(r"PATH=/\S*/build/", "PATH=/src/cushim/build/", line.replace(toolkit, "/usr/local/cuda"))
    return re.sub(r"^(cushim [\d.]+: .* on) [^ ,]+", r"\1 gpu-node", line)


def steady(lines):
    """The lines without those that depend on how fast the machine is, and on its C library."""
    text = re.sub(r"^waits .*?(?=^refused )", "", "\n".join(lines), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^  asked at .*?(?=^  advice )", "", text, flags=re.MULTILINE | re.DOTALL).split("\n")


def tidy(lines):
    toolkit = subprocess.run([ROOT / "tools" / "find-cuda"], text=True, capture_output=True).stdout.strip()
    return "\n".join(without_numbers(of_anywhere(line, toolkit)) for line in steady(lines)).strip().splitlines()


@tap.test
def quickstart_prints_what_its_page_shows():
    with tempfile.TemporaryDirectory(prefix="cushim-quickstart-") as folder:
        code, shown, _ = quickstart(pathlib.Path(folder))
    assert code == 0, shown
    assert tidy(shown) == tidy(sample()), "\n".join(shown)
    assert len(steady(shown)) <= MOST_LINES, "\n".join(shown)


@tap.test
def the_readme_shows_a_part_of_the_output():
    readme = (ROOT / "README.md").read_text()
    part = readme[readme.index("    refused "):]
    part = part[:re.search(r"^[^ \n]", part, re.MULTILINE).start()].strip()
    assert part.count("\n") > 3 and part in PAGE.read_text()


@tap.test
def a_folder_that_no_preload_can_have_is_refused_before_it_is_built():
    with tempfile.TemporaryDirectory(prefix="cushim quickstart ") as folder:
        code, shown, calls = quickstart(pathlib.Path(folder))
    assert code == 1 and not calls and "give another folder, " in shown[0], (code, shown, calls)


@tap.test
def no_more_is_built_than_is_needed():
    with tempfile.TemporaryDirectory(prefix="cushim-quickstart-") as folder:
        _, _, calls = quickstart(pathlib.Path(folder))
        assert calls[0].startswith("meson setup ") and calls[1:] == ["ninja preload cli", "ninja sim"], calls
        assert "-Dtests=disabled" in calls[0] and "-Dkernels=disabled" in calls[0], calls
        code, shown, _ = quickstart(pathlib.Path(folder), QUICKSTART_BREAKS="sim")
        assert code == 1 and any("as it was told to" in line for line in shown), shown


@tap.test
def an_existing_build_folder_keeps_its_options():
    with tempfile.TemporaryDirectory(prefix="cushim-quickstart-") as folder:
        build = pathlib.Path(folder) / "build"
        build.mkdir()
        (build / "build.ninja").write_text("")
        _, _, calls = quickstart(pathlib.Path(folder))
        assert calls[0] == f"meson setup --reconfigure {build.resolve()}", calls


tap.run()

"""tools/quickstart prints what docs/guide/quick-start.md shows, and builds each part only when it needs it.

    quickstart.py CUSHIM PRELOAD SIM_FOLDER COMPANION

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
CUSHIM, PRELOAD, SIM, COMPANION = (pathlib.Path(word).resolve() for word in sys.argv[1:5])

# target of ninja -> the files that it builds, and their places in a build folder
TARGETS = {
    "quickstart": [(CUSHIM, "tools/cushim/cushim"), (PRELOAD, "preload/libcushim-preload.so")],
    "quickstart-device": [(SIM / "libcuda.so.1", "tools/sim/libcuda.so.1"),
                          (SIM / "libcudart.so.13", "tools/sim/libcudart.so.13")],
    "quickstart-companion": [(COMPANION, "src/companion/libcushim.so.0"), (COMPANION, "src/companion/libcushim.so")],
}

MESON = """#!/bin/sh
echo "meson $*" >>"$QUICKSTART_CALLS"
"""

NINJA = f"""#!{sys.executable}
import os, pathlib, shutil, sys
build, target = pathlib.Path(sys.argv[2]), sys.argv[3]
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
            "QUICKSTART_CALLS": str(calls), "XDG_CACHE_HOME": str(folder / "cache"), **environment}
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
        if line.startswith("3 of 6  device"):
            shown += ["3 of 6  no GPU answers: building the software device, and vecadd for it",
                      "        Its calls take what an H200 was measured to take: they show how cushim works",
                      "        and do not speak for a GPU."]
        elif re.match(r"vecadd: [\d.]+ s,|  /\S+/vecadd --time$", line):
            continue  # the times, and the text of a command that has none
        elif line.startswith("done "):
            shown.append("done    vecadd ran without and under cushim, on the software device: its times say nothing about a GPU")
        else:
            line = line.removesuffix(" --time").replace(" (measured)", " (no GPU)")
            line = re.sub(r"^(  driver allocated +1 time, .*|cushim [\d.]+: vecadd, process .*|  recorded [\d.]+ ms(?! \(no GPU))", r"\1 (no GPU)", line)
            shown.append(re.sub("device 0  NVIDIA .*, ", "device 0  cushim software device, ", line))
    return shown


def of_anywhere(line, toolkit):
    """The text without names of machines and folders."""
    line = re.sub(r"^  /\S*/build/", "  /src/cushim/build/", line.replace(toolkit, "/usr/local/cuda"))
    return re.sub(r"^(  on|cushim [\d.]+: .* on) [^ ,]+", r"\1 gpu-node", line)


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


@tap.test
def the_readme_shows_a_part_of_the_output():
    page, readme = PAGE.read_text(), (ROOT / "README.md").read_text()
    report = readme[readme.index("    cushim 0.1.0: "):]
    report = report[:re.search(r"^[^ \n]", report, re.MULTILINE).start()].strip()
    assert report.count("\n") > 10 and report in page


@tap.test
def nothing_is_built_before_its_step():
    with tempfile.TemporaryDirectory(prefix="cushim-quickstart-") as folder:
        _, _, calls = quickstart(pathlib.Path(folder))
        assert [call.split()[:2] for call in calls] == [["meson", "setup"], ["ninja", "quickstart"],
                                                        ["ninja", "quickstart-device"],
                                                        ["ninja", "quickstart-companion"]], calls
        assert "-Dtests=disabled" in calls[0] and "-Dkernels=disabled" in calls[0], calls
        code, shown, _ = quickstart(pathlib.Path(folder), QUICKSTART_BREAKS="quickstart-companion")
        assert code == 1 and any("as it was told to" in line for line in shown), shown
        assert any(line.startswith("vecadd:") for line in shown), shown


@tap.test
def an_existing_build_folder_keeps_its_options():
    with tempfile.TemporaryDirectory(prefix="cushim-quickstart-") as folder:
        build = pathlib.Path(folder) / "build"
        build.mkdir()
        (build / "build.ninja").write_text("")
        _, _, calls = quickstart(pathlib.Path(folder))
        assert calls[0] == f"meson setup --reconfigure {build.resolve()}", calls


tap.run()

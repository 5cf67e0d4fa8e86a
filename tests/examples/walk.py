"""A page shows the output of its commands for one program, except for amounts.

    walk.py PAGE CUSHIM PROGRAM SIM_FOLDER

The commands begin with $ and run in their order; the lines below a command must be in its output in that order. Lines
of the source have to be the same.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

PAGE, CUSHIM, PROGRAM, SIM = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
SOURCE = PROGRAM.name.removeprefix("example-")


def steps(text):
    """(command, lines) of the page."""
    found = []
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line.strip())
    return found


def shape(line):
    """A line without amounts and their units; a line of the source stays."""
    line = re.sub(rf"({SOURCE}\.c):(\d+)", lambda found: found[1] + ":" + "".join(chr(ord("a") + int(digit)) for digit in found[2]), line)
    line = re.sub(r"-?\d[\d.,]*( ?(ns|us|ms|s|min|B|KiB|MiB|GiB|TiB)\b)?", "N", line)
    return re.sub(r"\s+", " ", line).strip()


def missing(lines, told):
    """The first line that is missing after the lines before it."""
    told = iter([shape(line) for line in told.splitlines()])
    return next((line for line in lines if shape(line) not in told), None)


@tap.test
def the_page_shows_what_its_commands_print():
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUSHIM")}
    found = steps(PAGE.read_text())
    assert len(found) > 5 and found[0][0].startswith(f"cc -g -o {SOURCE} {SOURCE}.c "), found
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / SOURCE).symlink_to(PROGRAM)
        (pathlib.Path(folder) / "cushim").symlink_to(CUSHIM)
        env |= {"PATH": f"{folder}:{env['PATH']}", "LD_LIBRARY_PATH": str(SIM), "CUSHIM_LIVE_DIR": f"{folder}/live", "XDG_CACHE_HOME": f"{folder}/cache"}
        for command, lines in found[1:]:
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
            assert missing(lines, done.stdout) is None, f"{command}: no line\n{missing(lines, done.stdout)}\nin\n{done.stdout}"


@tap.test
def a_line_that_is_not_printed_is_found():
    lines = ["alive 3 blocks, 1.0 MiB", f"remember {SOURCE}.c:24"]
    assert missing(lines, f"alive 700 blocks, 22 KiB\nremember {SOURCE}.c:24\n") is None
    assert missing(lines, f"alive 700 blocks, 22 KiB\nremember {SOURCE}.c:25\n") == lines[1]
    assert missing(lines, f"remember {SOURCE}.c:24\nalive 700 blocks, 22 KiB\n") == lines[1]


tap.run()

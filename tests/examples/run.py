"""One example of docs/examples works and prints what its head shows.

    run.py SOURCE COMMAND...
    run.py --go SOURCE COMMAND...       built first with the go on PATH; the program's path comes before COMMAND

Exit status 77 means that the program cannot run here: its last line is the reason of a counted skip.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

arguments = sys.argv[1:]
IS_GO = arguments[0] == "--go"
SOURCE, COMMAND = pathlib.Path(arguments[IS_GO]), arguments[IS_GO + 1:]
HEAD = re.compile(r"\A(?:/\*(.*?)\*/|\"\"\"(.*?)\"\"\"|((?://[^\n]*\n)+))", re.DOTALL)


def shown(text):
    """The lines that the head comment shows as output."""
    match = HEAD.match(text)
    head = next(part for part in match.groups() if part)
    lines = [re.sub(r"^\s*(\*|//)", "", line).strip() for line in head.splitlines()]
    at = next(i for i, line in enumerate(lines) if line.lower().endswith("it prints:"))
    return [line for line in lines[at + 1:] if line]


def built_by_go(folder):
    go = shutil.which("go")
    if not go:
        tap.skip("no go on this machine")
    if os.environ.get("CGO_ENABLED") == "0":
        tap.skip("go without cgo")
    program = pathlib.Path(folder, "example")
    done = subprocess.run([go, "build", "-o", program, "."], cwd=SOURCE.parent, text=True, capture_output=True,
                          env={**os.environ, "GOCACHE": f"{folder}/cache", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local",
                               "GOPROXY": "off", "CGO_ENABLED": "1"})
    assert done.returncode == 0, done.stderr
    return [str(program)]


def run(command):
    done = subprocess.run(command, text=True, capture_output=True, timeout=100)
    if done.returncode == 77:
        tap.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, f"it ended with {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.stderr == "", done.stderr
    return [line.strip() for line in done.stdout.splitlines()]


def comes_late():
    """The environment that loads a library by its path, or the preload, into a process."""
    return [word for word in COMMAND if re.search(r"\.so(\.\d+)*$", word)] + (COMMAND[:1] if COMMAND[1:2] == ["run"] else [])


def is_sanitized(path):
    names = subprocess.run(["nm", "-D", path], text=True, capture_output=True).stdout
    return "__asan_init" in names or "__tsan_init" in names


@tap.test
def the_example_prints_what_its_head_shows():
    if any(is_sanitized(path) for path in comes_late()):
        tap.skip("a sanitizer must be loaded first in the process")
    with tempfile.TemporaryDirectory(prefix="cushim-example-") as folder:
        command = built_by_go(folder) + COMMAND if IS_GO else COMMAND
        printed, wanted = run(command), shown(SOURCE.read_text())
    assert printed == wanted, f"\nprinted: {printed}\nshown:   {wanted}"


@tap.test
def the_output_in_a_head_is_found():
    assert shown("/*\n * A thing.  It prints:\n *\n *   one  two\n *   three\n */\nint x; /* no */") == ["one  two", "three"]
    assert shown('"""A thing.\n\nIt prints:\n\n    one\n"""\nimport os\n') == ["one"]
    assert shown("// A thing.  It prints:\n//\n//\tone\npackage main\n") == ["one"]


tap.run()

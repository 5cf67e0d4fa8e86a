"""Checks of every file: its length, and that it names no path of the machine on which it was written.

    files.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = tree.root()

MAX_LINES = 500
CODE = {".c", ".h", ".S", ".cu", ".cuh", ".cpp", ".py", ".sh", ".build"}  # tables (.def) may be longer

# Built from parts, so that this file does not contain them.
PLACES = re.compile("|".join(["/wo" "rk/", "/ro" "ot/", "/ho" "me/[a-z]", "/tmp/bu" "ild", "/mnt/[a-z]"]))
TEXT = CODE | {"", ".md", ".def", ".in", ".pml", ".json", ".txt", ".map"}


def text_of(path):
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def faults_of_length(root):
    for path in tree.files(root):
        n_lines = text_of(root / path).count("\n") if path.suffix in CODE else 0
        if n_lines > MAX_LINES:
            yield f"{path}: {n_lines} lines, at most {MAX_LINES}"


def faults_of_place(root):
    for path in tree.files(root):
        if path.suffix not in TEXT:
            continue
        for number, line in enumerate(text_of(root / path).splitlines(), 1):
            found = PLACES.search(line)
            if found:
                yield f"{path}:{number}: names {found.group()}"


def assert_none(faults):
    faults = list(faults)
    assert not faults, "\n" + "\n".join(faults)


@tap.test
def long_files_are_listed():
    """Only advice, because a file about one subject may be long."""
    for fault in faults_of_length(ROOT):
        print(f"# long: {fault}")


@tap.test
def no_file_names_a_path_of_one_machine():
    assert_none(faults_of_place(ROOT))


@tap.test
def the_image_installs_what_the_wheel_needs():
    """Its lines are whole, its shell is a shell's, and its packages are those of the page."""
    text = (ROOT / "Containerfile").read_text()
    steps = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.match(r"(FROM|RUN|COPY|ENTRYPOINT) \S", step) for step in steps), steps
    for step in steps:
        if step.startswith("RUN "):
            subprocess.run(["sh", "-n", "-c", step[4:]], check=True)
    packages = set(re.search(r"--no-install-recommends (.*)", text)[1].split()) - {"libc6-dev"}  # which gcc only recommends
    page = re.search(r"`apt-get install ([^`]*)`", (ROOT / "docs/guide/install.md").read_text())[1]
    assert packages == set(page.split()), (packages, page)


@tap.test
def a_long_file_is_found_and_a_long_table_is_fine():
    with tree.made_of({"src/a.c": "\n" * 501, "src/b.c": "\n" * 500, "src/c.def": "\n" * 900}) as root:
        assert [fault.split(":")[0] for fault in faults_of_length(root)] == ["src/a.c"]


@tap.test
def a_path_of_one_machine_is_found():
    places = ("/wo" "rk/main", "/ho" "me/me/x", "/tmp/bu" "ild-x")
    with tree.made_of({f"docs/{i}.md": f"see\n{place}\n" for i, place in enumerate(places)}) as root:
        assert [fault.split(": ")[0] for fault in faults_of_place(root)] == [f"docs/{i}.md:2" for i in range(3)]


tap.run()

"""Each row of docs/reference/python.md and vkgdr.md names what there is, and a test that there is.

    reference.py ROOT
"""
import pathlib
import re
import sys
import types

import expect  # noqa: F401  (for the path)

import cushim
import tap
import vkgdr

ROOT = pathlib.Path(sys.argv[1])


def rows(text):
    """The names and the test of each row of the tables that have tests."""
    column = 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if "test" in cells:
            column = cells.index("test")
        elif line.startswith("| ") and column:
            yield re.findall(r"`([A-Za-z_.]+)`", cells[column - 1]), cells[column]


def faults(text, root=ROOT):
    found = list(rows(text))
    if not found:
        yield "no rows"
    for names, test in found:
        file, _, sentence = test.partition(": ")
        path = root / f"tests/python/{file}.py"
        if not path.exists() or f"def {sentence.replace(' ', '_')}():" not in path.read_text():
            yield f"no test {test}"
        for name in names:
            thing = types.SimpleNamespace(**vars(cushim), vkgdr=vkgdr)
            for part in name.split("."):
                thing = getattr(thing, part, None)
            if thing is None and not name.startswith("vkgdr.pycuda"):  # needs PyCUDA; mapped.py has it without
                yield f"no cushim.{name}"


@tap.test
def every_row_names_what_there_is_and_its_test():
    for page, n_rows in ("python", 55), ("vkgdr", 15):
        text = (ROOT / f"docs/reference/{page}.md").read_text()
        assert len(list(rows(text))) >= n_rows
        assert not list(faults(text)), "\n".join(faults(text))


@tap.test
def a_row_that_is_wrong_is_found():
    right = "| PyCUDA | here | test | |\n|---|---|---|---|\n| x | `Device.count` | contexts: a device tells what it is | |\n"
    assert not list(faults(right)) and list(faults("no table"))
    assert list(faults(right.replace("count", "number"))) == ["no cushim.Device.number"]
    for wrong in "contexts: A device tells what it is", "contexts: a device says what it is", "":
        assert list(faults(right.replace("contexts: a device tells what it is", wrong))) == [f"no test {wrong}"]


@tap.test
def the_examples_are_tested():
    listed = (ROOT / "tests/examples/meson.build").read_text()
    for file in (ROOT / "docs/examples/python").glob("*.py"):
        assert f"'{file.stem}'" in listed and f"python/{file.name}" in (ROOT / "docs/examples/README.md").read_text(), file


tap.run()

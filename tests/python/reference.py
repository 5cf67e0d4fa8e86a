"""Each row of docs/reference/python.md and vkgdr.md names what there is, and what a test here uses.

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


TESTS = "".join(path.read_text() for path in (ROOT / "tests/python").glob("*.py") if path.name != "reference.py")


def names_of(text):
    """The names in the columns `here` of a page's tables."""
    column = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            column = None
        elif "here" in cells:
            column = cells.index("here")
        elif column is not None:
            yield from re.findall(r"`([A-Za-z_.]+)`", cells[column])


def faults(text):
    for name in names_of(text):
        thing = types.SimpleNamespace(**vars(cushim), vkgdr=vkgdr)
        for part in name.split("."):
            thing = getattr(thing, part, None)
        if thing is None and not name.startswith("vkgdr.pycuda"):  # needs PyCUDA; mapped.py has it without
            yield f"no cushim.{name}"
        if not re.search(rf"\b{name.split('.')[-1]}\b", TESTS):
            yield f"no test of {name}"


@tap.test
def every_row_names_what_there_is_and_what_is_tested():
    for page, n_names in ("python", 180), ("vkgdr", 15):
        text = (ROOT / f"docs/reference/{page}.md").read_text()
        assert len(list(names_of(text))) >= n_names, len(list(names_of(text)))
        assert not list(faults(text)), "\n".join(faults(text))


@tap.test
def a_name_that_is_wrong_or_not_tested_is_found():
    table = "| x | here | |\n|---|---|---|\n| `y` | `Device.count`%s | `z` |\n"
    assert not list(faults(table % ""))
    assert list(faults(table % ", `Device.numbers_`")) == ["no cushim.Device.numbers_", "no test of Device.numbers_"]
    assert list(faults(table % ", `WeakValueDictionary`"))[-1] == "no test of WeakValueDictionary"


@tap.test
def the_examples_are_tested():
    listed = (ROOT / "tests/examples/meson.build").read_text()
    for file in (ROOT / "docs/examples/python").glob("*.py"):
        assert f"'{file.stem}'" in listed and f"python/{file.name}" in (ROOT / "docs/examples/README.md").read_text(), file


tap.run()

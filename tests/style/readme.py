"""The README's measured numbers stand on the page that it links to.

    readme.py ROOT
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(sys.argv[1])
PAIR = re.compile(r"pair of 4 KiB takes ([\d.]+ \w+) instead of ([\d.]+ \w+), and ([\d.]+ \w+) with `--free=relaxed`")
STEP = re.compile(r"own cache took ([\d.]+ ms) natively, ([\d.]+ ms) in exact and ([\d.]+ ms) in relaxed")


def cells(page, name):
    """The first row of the page's tables that begins so: its cells, without marks and ratios."""
    for line in page.splitlines():
        if line.startswith(f"| {name} |"):
            return [re.sub(r"\*\*|\s*\(.*?\)", "", cell).strip() for cell in line.strip("|").split("|")][1:]
    return None


def faults(readme, page):
    text = re.sub(r"\s+", " ", readme)
    pair, step = PAIR.search(text), STEP.search(text)
    row = cells(page, "4K") or ["", "", "", ""]
    if not pair or (pair[2], pair[1], pair[3]) != (row[0], row[1], row[3]):
        yield f"the pair of 4 KiB is {pair and pair.groups()}, the page has {row[:4]}"
    row = cells(page, "the same, PyTorch's own cache")
    if not step or list(step.groups()) != row:
        yield f"the step of PyTorch is {step and step.groups()}, the page has {row}"


@tap.test
def the_numbers_of_the_readme_stand_on_its_page():
    found = list(faults((ROOT / "README.md").read_text(), (ROOT / "docs/results/allocator.md").read_text()))
    assert not found, "\n".join(found)


@tap.test
def a_number_that_stands_nowhere_is_found():
    page = "| 4K | 58.0 us | 464 ns (125x) | 525 ns | **36 ns** | 90 ns |\n| the same, PyTorch's own cache | 14.3 ms | 16.2 ms | 17.7 ms |"
    right = ("a pair of 4 KiB takes 464 ns instead of 58.0 us, and 36 ns with `--free=relaxed`; with its\n"
             "own cache took 14.3 ms natively, 16.2 ms in exact and 17.7 ms in relaxed")
    assert not list(faults(right, page))
    for was, wrong in (("464", "41"), ("58.0", "77"), ("36 ns", "36 us"), ("16.2", "14.2"), ("natively", "once")):
        assert list(faults(right.replace(was, wrong), page)), was


tap.run()

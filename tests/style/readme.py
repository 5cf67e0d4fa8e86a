"""The measured numbers of README and the guides are in a row of the page that they link to.

    readme.py ROOT

If the last cell of a table row is a link, all numbers of the row are in one row of a table there, or in rows that begin
with the same cell: one workload in several modes. A share of the driver's time, 1/53, is a ratio (53x) of a page that its
guide links to.
"""
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(sys.argv[1])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)$")
NUMBER = re.compile(r"-?\d[\d,.]*")


def rows(page):
    """The cells of each row of the page's tables."""
    for line in page.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def numbers(cell):
    """The first number of a cell; a ratio or a unit may follow."""
    found = NUMBER.match(cell.strip("* "))
    return found and found[0]


def measured(page):
    """(numbers, target) of each row that links to the source of its numbers."""
    for cells in rows(page):
        link = LINK.match(cells[-1])
        if link:
            yield [number for number in map(numbers, cells[1:-1]) if number], link[1]


def workloads(page):
    """The numbers of each workload, the first cell of a row."""
    found = collections.defaultdict(set)
    for cells in rows(page):
        found[cells[0]] |= set(map(numbers, cells[1:]))
    return found.values()


def faults(page, read):
    for wanted, target in measured(page):
        if not any(known.issuperset(wanted) for known in workloads(read(target))):
            yield f"{' '.join(wanted)} stands in no row of {target}"


@tap.test
def the_numbers_of_the_readme_are_on_the_linked_page():
    page = (ROOT / "README.md").read_text()
    found = list(faults(page, lambda target: (ROOT / target).read_text()))
    assert not found, "\n".join(found)
    assert sum(1 for wanted, _ in measured(page) if len(wanted) > 1) >= 6


def unmeasured_shares(page, read):
    """Shares of a guide that are no ratio on a linked page of results."""
    linked = "".join(map(read, sorted(set(re.findall(r"\]\((\.\./results/[\w-]+\.md)", page)))))
    return [share for share in re.findall(r"\b1/(\d\d+)\b", page) if f"({share}x)" not in linked]


@tap.test
def shares_of_the_guides_are_ratios_of_linked_pages():
    for path in sorted((ROOT / "docs/guide").glob("*.md")):
        assert not unmeasured_shares(path.read_text(), lambda target: (path.parent / target).read_text()), path
    page = "| a loop | 1/53 to 1/140 of the time | and [pairs](../results/there.md#pairs)"
    assert unmeasured_shares(page, lambda target: "| 4K | 2.02 us (53x) | 419 ns (148x) |") == ["140"]


@tap.test
def a_number_without_a_source_is_found():
    page = "| pair | 58.0 us | 464 ns | **36 ns** | [pairs](there.md#pairs) |"
    there = "| 4K | 58.0 us | 464 ns (125x) | 525 ns | **36 ns** | 90 ns |"
    assert not list(faults(page, lambda target: {"there.md": there}[target]))
    for wrong in ("58.1", "77"):
        assert list(faults(page.replace("58.0", wrong), lambda target: there)) == [f"{wrong} 464 36 stands in no row of there.md"]
    assert list(faults(page, lambda target: there.replace("| 525 ns", "|\n| 8K | 525 ns")))
    assert not list(faults(page, lambda target: there.replace("| 525 ns", "|\n| 4K | 525 ns")))


tap.run()

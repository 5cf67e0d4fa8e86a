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
STEP = re.compile(r"own cache took ([\d.]+) of native's time in exact and ([\d.]+) in relaxed")


def cells(page, name):
    """The first row of the page's tables that begins so: its cells, without marks and ratios."""
    for line in page.splitlines():
        if line.startswith(f"| {name} |"):
            return [re.sub(r"\*\*|\s*\(.*?\)", "", cell).strip() for cell in line.strip("|").split("|")][1:]
    return None


def faults(readme, page, programs):
    text = re.sub(r"\s+", " ", readme)
    pair, step = PAIR.search(text), STEP.search(text)
    row = cells(page, "4K") or ["", "", "", ""]
    if not pair or (pair[2], pair[1], pair[3]) != (row[0], row[1], row[3]):
        yield f"the pair of 4 KiB is {pair and pair.groups()}, the page has {row[:4]}"
    rows = [cells(programs, f"own-cache/training_step | cushim {mode}") or ["", ""] for mode in ("exact", "relaxed")]
    if not step or list(step.groups()) != [row[-3] for row in rows]:
        yield f"the step of PyTorch is {step and step.groups()}, the page has {rows}"


@tap.test
def the_numbers_of_the_readme_stand_on_its_page():
    found = list(faults((ROOT / "README.md").read_text(), (ROOT / "docs/results/allocator.md").read_text(),
                        (ROOT / "docs/results/device.md").read_text()))
    assert not found, "\n".join(found)


@tap.test
def a_number_that_stands_nowhere_is_found():
    page = "| 4K | 58.0 us | 464 ns (125x) | 525 ns | **36 ns** | 90 ns |"
    programs = ("| own-cache/training_step | cushim exact | 8 | 0.999 | 0.997 | 0.990 to 1.012 |\n"
                "| own-cache/training_step | cushim relaxed | 8 | 1.002 | 0.999 | 0.996 to 1.005 |")
    right = ("a pair of 4 KiB takes 464 ns instead of 58.0 us, and 36 ns with `--free=relaxed`; with its\n"
             "own cache took 0.999 of native's time in exact and 1.002 in relaxed")
    assert not list(faults(right, page, programs))
    for was, wrong in (("464", "41"), ("58.0", "77"), ("36 ns", "36 us"), ("0.999", "0.997"), ("1.002", "1.005"), ("native's", "its")):
        assert list(faults(right.replace(was, wrong), page, programs)), was


tap.run()

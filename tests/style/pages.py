"""Pages have short lines, short paragraphs, working links, and no diary.

    pages.py [ROOT]

Lines have at most 100 columns and paragraphs at most 6 lines; tables, code, headings and lines that are one link are
exempt. Dates and commit hashes are only in docs/results, kernels/results and CHANGELOG.md.
"""
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = tree.root()
WIDTH, LINES = 100, 6
RENDERED = ("docs/results/", "kernels/results/")
INDEX = {"docs": "docs/README.md", "kernels": "kernels/README.md"}  # of the pages of a folder
INSTALLED = ("docs/guide/", "docs/reference/", "docs/examples/", "docs/results/")
DIARY = re.compile(r"\b20\d\d-\d\d-\d\d\b|\bcommit [0-9a-f]{7,40}\b|\bsince then\b", re.IGNORECASE)
SOURCES = {".c", ".h", ".cu", ".cuh", ".def", ".S", ".in", ".pml", ".py", ".build"}
PAGE = re.compile(r"[\w-]+\.md\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def pages(root):
    return [path for path in tree.files(root) if path.suffix == ".md"]


def prose(text):
    """(number, line) of lines outside of code and tables."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    ") and not line.lstrip().startswith("|"):
            yield number, line


def counted(root):
    counts = collections.Counter()
    for path in pages(root):
        name = path.as_posix()
        if name.startswith(RENDERED):
            continue
        text, length, before = (root / path).read_text(), 0, 0
        for number, line in prose(text):
            is_free = line.startswith("#") or re.fullmatch(r"\W*\[[^\]]*\]\(\S+\)\W*", line)
            counts[f"{name} wide"] += len(line.rstrip()) > WIDTH and not is_free
            starts = not line.strip() or line.startswith(("#", ">")) or re.match(r"\s*([-*]|\d+\.)\s", line)
            length = 1 if starts or number != before + 1 else length + 1
            counts[f"{name} long"] += length == LINES + 1
            before = number
            counts[f"{name} diary"] += name != "CHANGELOG.md" and bool(DIARY.search(line))
    return {key: count for key, count in counts.items() if count}


def dead_links(root):
    for path in pages(root):
        for target in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", (root / path).read_text(), flags=re.DOTALL)):
            if "://" not in target and not target.startswith("#") and not (root / path.parent / target.split("#")[0]).exists():
                yield f"{path}: {target}"


def dead_names(root):
    """Pages that sources name and that do not exist; the tests of this folder are exempt, because they invent pages."""
    files = tree.files(root)
    there = {path.name for path in files}
    for path in files:
        if path.suffix in SOURCES and path.parts[:2] != ("tests", "style"):
            for name in sorted(set(PAGE.findall((root / path).read_text())) - there):
                yield f"{path}: {name}"


def names_in_messages(root):
    """Pages that messages name and that no user has, because they are not installed."""
    for path in tree.files(root):
        if path.suffix == ".c" and path.parts[0] in ("preload", "src", "tools"):
            for name in re.findall(r'"[^"\n]*?([\w-]+/[\w/-]+\.md)\b[^"\n]*"', (root / path).read_text()):
                if not name.startswith(INSTALLED):
                    yield f"{path}: {name}"


def not_in_index(root):
    for folder, index in INDEX.items():
        text = (root / index).read_text() if (root / index).exists() else ""
        linked = {pathlib.Path(folder, target.split("#")[0]) for target in LINK.findall(text)}
        for path in pages(root):
            if path.parts[0] == folder and path.as_posix() != index and not {path, path.parent} & linked:
                yield path.as_posix()


def assert_none(found):
    found = list(found)
    assert not found, "\n" + "\n".join(found)


@tap.test
def pages_have_short_lines_short_paragraphs_and_no_diary():
    assert_none(f"{key}: {count}" for key, count in counted(ROOT).items())


@tap.test
def links_work():
    assert_none(dead_links(ROOT))


@tap.test
def sources_name_existing_pages():
    assert_none(dead_names(ROOT))


@tap.test
def messages_name_installed_pages():
    assert_none(names_in_messages(ROOT))


@tap.test
def every_page_is_in_the_index():
    assert_none(not_in_index(ROOT))


@tap.test
def a_wide_line_a_long_paragraph_and_a_diary_are_found():
    with tree.made_of({"docs/x.md": "x" * 101 + "\n\n" + "a\n" * 7 + "\nOn 2026-11-23 it was so.\n",
                       "docs/y.md": "| " + "x" * 200 + "\n```\n" + "y" * 200 + "\n```\n"}) as root:
        assert counted(root) == {"docs/x.md wide": 1, "docs/x.md long": 1, "docs/x.md diary": 1}


@tap.test
def a_dead_link_and_a_page_outside_the_index_are_found():
    with tree.made_of({"docs/README.md": "[a](a.md) [b](b.md)\n", "docs/a.md": "", "docs/c.md": ""}) as root:
        assert list(dead_links(root)) == ["docs/README.md: b.md"]
        assert list(not_in_index(root)) == ["docs/c.md"]
    with tree.made_of({"kernels/README.md": "[a](docs/a.md)\n", "kernels/docs/a.md": "", "kernels/docs/c.md": ""}) as root:
        assert list(not_in_index(root)) == ["kernels/docs/c.md"]
    with tree.made_of({"docs/a.md": "", "src/a.c": "/* docs/a.md, B.md */", "src/b.txt": "c.md"}) as root:
        assert list(dead_names(root)) == ["src/a.c: B.md"]
    with tree.made_of({"src/a.c": '/* b.md */ say("see tools/c.md"); say("docs/guide/d.md has more");'}) as root:
        assert list(names_in_messages(root)) == ["src/a.c: tools/c.md"]


tap.run()

"""The recipes of CONTRIBUTING.md work: each is followed literally in a copy of the tree.

    recipes.py ROOT BUILD CC...

A recipe says "In `FILE`, below (above, in place of) the line that begins with `TEXT`:", and the following lines,
indented by four, go there. Other indented lines of the recipe are commands, and each has to succeed.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "style"))
import same_build
import tap
import tree

ROOT, BUILD = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
CC = sys.argv[3:]
EDIT = re.compile(r"In\s+`(\S+)`,\s+(below|above|in\s+place\s+of)\s+the\s+line\s+that\s+begins\s+with\s+`([^`]*)`:$")


def recipes(text):
    """(title, paragraphs) of each recipe; a paragraph is prose or an indented block."""
    text = text[text.index("\n## Recipes\n"):]
    text = text[:text.index("\n## ", 5)]
    for part in text.split("\n### ")[1:]:
        title, _, body = part.partition("\n")
        blocks = re.findall(r"(?:(?: {4}.*| {0})\n)*(?: {4}.+\n)|(?:(?! {4}).+\n)+", body + "\n")
        yield title, [block.strip("\n") if not block.lstrip("\n").startswith("    ") else block.lstrip("\n") for block in blocks]


def edit(root, file, where, begin, lines):
    path = root / file
    old = path.read_text().split("\n")
    found = [number for number, line in enumerate(old) if line.startswith(begin)]
    assert len(found) == 1, f"{file}: {len(found)} lines begin with {begin!r}"
    at = found[0] + (where == "below")
    old[at:at + (where not in ("below", "above"))] = lines
    path.write_text("\n".join(old))


def follow(root, paragraphs, run):
    """Returns (number of edits, number of commands)."""
    n_edits, n_commands, pending = 0, 0, None
    for block in paragraphs:
        if not block.startswith("    "):
            match = EDIT.search(block)
            pending = match and (match[1], re.sub(r"\s+", " ", match[2]), match[3])
            continue
        lines = [line[4:] for line in block.rstrip("\n").split("\n")]
        if pending:
            edit(root, *pending, lines)
            n_edits, pending = n_edits + 1, None
        else:
            run("\n".join(lines))
            n_commands += len(lines)
    return n_edits, n_commands


def build_of(root):
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUSHIM")}
    env["CC"] = shlex.join(CC)

    def run(commands):
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=root, env=env, text=True, capture_output=True)
        assert done.returncode == 0, f"{commands}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    folder = same_build.folder(ROOT, BUILD)
    run(shlex.join(["meson", "setup", str(folder), "-Dkernels=disabled", *same_build.options(BUILD)]))
    if folder != pathlib.Path("build"):
        (root / "build").symlink_to(folder)
    return run


@tap.test
def each_recipe_works_as_it_is_written():
    with tempfile.TemporaryDirectory(prefix="cushim-recipes-") as folder:
        root = pathlib.Path(folder)
        for path in tree.files(ROOT):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, root / path)
        run, counts = build_of(root), {}
        for title, paragraphs in recipes((ROOT / "CONTRIBUTING.md").read_text()):
            counts[title] = follow(root, paragraphs, run)
    assert counts == {"An option": (2, 4), "A hook": (2, 2), "A function of the companion library": (3, 1), "A kernel": (0, 0)}, counts


@tap.test
def a_recipe_that_fails_is_found():
    page = "\n## Recipes\n\n### One\n\nIn `x.c`, above the\nline that begins with `int b`:\n\n    int a;\n\nThen:\n\n    %s\n\n## Next\n"
    with tree.made_of({"x.c": "int b;\nint c;\n"}) as root:
        ran = []
        (_, paragraphs), = recipes(page % "true")
        assert follow(root, paragraphs, ran.append) == (1, 1) and ran == ["true"]
        assert (root / "x.c").read_text() == "int a;\nint b;\nint c;\n"
        (root / "x.c").write_text("")
        try:
            follow(root, paragraphs, ran.append)
        except AssertionError as error:
            assert "0 lines begin with 'int b'" in str(error)
        else:
            raise AssertionError("not found")


tap.run()

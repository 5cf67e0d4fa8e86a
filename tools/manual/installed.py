"""The pages as they are installed: their links lead to installed files, and what is not installed is named without a link.

    installed.py ROOT FOLDER DEPFILE
"""
import os
import pathlib
import re
import shutil
import sys

ROOT, FOLDER, DEPFILE = map(pathlib.Path, sys.argv[1:4])
FOLDERS = ["guide", "reference", "examples", "results", "schema"]  # of docs
PAGES = {"README.md": "README.md", "docs/README.md": "guide/README.md", "kernels/docs/kernels.md": "reference/kernels.md",
         "kernels/docs/libkernels.md": "reference/libkernels.md"}
LINK = re.compile(r"```.*?```|!?\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)", re.DOTALL)


def places():
    """{file of the source: where it is installed}."""
    found = dict(PAGES)
    for folder in FOLDERS:
        for path in sorted((ROOT / "docs" / folder).rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__" and (folder != "results" or path.suffix == ".md"):
                name = path.relative_to(ROOT)
                found[name.as_posix()] = name.relative_to("docs").as_posix()
    return found


def page(name, place, placed):
    """The text of a page, with the links of where it is installed."""
    def link(found):
        text, target = found.groups()
        if not target or "://" in target or target.startswith("#"):
            return found[0]
        path, mark, fragment = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(name), path))
        if there not in placed:
            return text
        return found[0].replace(f"]({target})", f"]({os.path.relpath(placed[there], os.path.dirname(place) or '.')}{mark}{fragment})")

    return LINK.sub(link, (ROOT / name).read_text())


files = places()
placed = files | {os.path.dirname(name): os.path.dirname(place) for name, place in files.items()}
shutil.rmtree(FOLDER, ignore_errors=True)
for name, place in files.items():
    file = FOLDER / place
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".md":
        file.write_text(page(name, place, placed))
    else:
        shutil.copyfile(ROOT / name, file)
DEPFILE.write_text(f"{FOLDER}: {' '.join(str(ROOT / name).replace(' ', chr(92) + ' ') for name in files)}\n")

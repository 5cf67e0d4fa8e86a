"""The files of a source tree, for the checks in this folder."""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile


def root():
    """The tree of the first argument, otherwise the one of this file."""
    named = [word for word in sys.argv[1:2] if not word.startswith("-")]
    return pathlib.Path(named[0] if named else pathlib.Path(__file__).resolve().parents[2])


def files(root):
    """Sorted paths relative to root: files that git tracks or would track, or all files without git."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True)
        if listed.returncode == 0:
            names = {name for name in listed.stdout.split("\0") if name}
            found = sorted(pathlib.Path(name) for name in names if (root / name).is_file())
            assert found, f"{root} has no files: nothing would be checked"
            return found
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith("build") and f not in (".git", "__pycache__")]
        found += [pathlib.Path(folder, name).relative_to(root) for name in names]
    return sorted(found)


@contextlib.contextmanager
def made_of(texts):
    """A temporary tree of {path: text}, on which each check must fail if it is broken."""
    with tempfile.TemporaryDirectory(prefix="cushim-style-") as folder:
        root = pathlib.Path(folder)
        for name, text in texts.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        yield root

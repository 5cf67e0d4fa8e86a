"""C and device code are formatted by .clang-format.

    format.py ROOT

Versions of clang-format format the same file differently, so one version decides.
"""
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap
import tree

ROOT = pathlib.Path(sys.argv[1])
VERSION = "14"


def clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], text=True, capture_output=True).stdout
            if re.search(rf"version {VERSION}\.", text):
                return path
    tap.skip(f"no clang-format {VERSION}")


def faults(root):
    paths = [root / path for path in tree.files(root) if path.suffix in (".c", ".h", ".cu", ".cuh", ".cpp")]
    assert paths, "no file was found"
    done = subprocess.run([clang_format(), "--dry-run", "-Werror", *paths], cwd=root, text=True, capture_output=True)
    if done.returncode == 0:
        return []
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.MULTILINE))) or [done.stderr]


@tap.test
def files_are_formatted():
    found = faults(ROOT)
    assert not found, "\n" + "\n".join(found)


@tap.test
def a_badly_formatted_file_is_found():
    clang_format()
    texts = {".clang-format": (ROOT / ".clang-format").read_text(),
             "src/good.c": "int f(void) {\n    return 1;\n}\n",
             **{f"src/bad.{suffix}": "int f( void ){return 1 ;}\n" for suffix in ("c", "cu", "cuh", "cpp")}}
    with tree.made_of(texts) as root:
        found = [pathlib.Path(name).name for name in faults(root)]
        assert found == ["bad.c", "bad.cpp", "bad.cu", "bad.cuh"], found


tap.run()

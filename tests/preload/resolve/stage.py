"""Helpers of the resolver's tests: places of files, and running a program under the preload."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests"))

parser = argparse.ArgumentParser()
parser.add_argument("--preload", required=True, help="the library under test")
parser.add_argument("--build", required=True, help="folder with the programs and fakes of this folder")
parser.add_argument("--cuda", required=True, help="the toolkit's folder")
parser.add_argument("--cc", nargs="+", default=["cc"])
parser.add_argument("--sources", nargs="*", default=[], help="all C sources of the preload")
options = parser.parse_args()

PRELOAD = pathlib.Path(options.preload).resolve()
BUILD = pathlib.Path(options.build).resolve()
CUDA = pathlib.Path(options.cuda)
OURS, DRIVER = PRELOAD.name, "libcuda.so.1"

_folder = tempfile.TemporaryDirectory()
WORK = pathlib.Path(_folder.name)

_row = re.compile(r'^SYM\((\w+),\s*(\w+),\s*(\w+),\s*"(\w+)",\s*(\d+)', re.M)
SYMBOLS = _row.findall((ROOT / "src/cuda/symbols.def").read_text())
HOOKS = {abi for role, api, abi, symbol, since in SYMBOLS if role == "HOOK"}


def run(*argv, preload=(PRELOAD,), fake="fake", check=True, **environment):
    """Run a program; the fake libcuda is found first, unless fake is None."""
    folders = [str(BUILD / fake)] if fake else []
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8",
           "LD_LIBRARY_PATH": ":".join(folders + [str(BUILD), str(CUDA / "lib64")])}
    if preload:
        env["LD_PRELOAD"] = ":".join(str(p) for p in preload)
    env.update({key: str(value) for key, value in environment.items()})
    done = subprocess.run([str(a) for a in argv], env=env, capture_output=True, text=True, timeout=120)
    if check:
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def probe(*steps, **more):
    """The probe's lines."""
    done = run(BUILD / "probe", *steps, **more)
    assert done.stderr == "", done.stderr
    return done.stdout.splitlines()


def compile(text, name, *flags, cc=None):
    """Build a small C program or library in the work folder."""
    source, out = WORK / f"{name}.c", WORK / name
    source.write_text(text)
    subprocess.run([*(cc or options.cc), "-D_GNU_SOURCE", "-w", source, "-o", out, *flags], check=True)
    return out

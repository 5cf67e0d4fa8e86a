"""The source release: `meson dist` has what was committed, builds and passes without a clone around it, and pip installs it.

    dist.py MESON SOURCE BUILD CUDA SIM PROGRAM

SIM is the folder of the software device, PROGRAM one that asks the CUDA runtime for memory.  All tests of the plain
phase, by hand, in a folder outside of any clone:

    meson dist -C build --no-tests && tar xf build/meson-dist/cushim-*.tar.xz -C FOLDER && FOLDER/cushim-*/tools/check plain
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

MESON, SOURCE, BUILD, CUDA, SIM, PROGRAM = (pathlib.Path(word).resolve() for word in sys.argv[1:7])
UNIT = ["tests-base", "tests-cuda", "tests-memory-cache"]  # seconds in all


def command(*words, **more):
    # The same compiler calls as in the clone: a cache of objects need not mind where they are made.
    environment = {**os.environ, "CUDA_HOME": str(CUDA), "CCACHE_NOHASHDIR": "1"}
    done = subprocess.run(list(map(str, words)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, **more)
    assert done.returncode == 0, f"{' '.join(map(str, words))} ended with {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-60:])
    return done.stdout


@functools.cache
def holder():
    return tempfile.TemporaryDirectory(prefix="cushim-dist-")


@functools.cache
def archive():
    if not (SOURCE / ".git").exists():
        tap.skip("no clone: this is a source release")
    # dirty: what was not committed is not in it, and no fault here
    said = command(MESON, "dist", "-C", BUILD, "--no-tests", "--allow-dirty", "--formats", "gztar")
    return pathlib.Path(re.search(r"^Created (.*\.tar\.gz)$", said, re.MULTILINE)[1])


@functools.cache
def unpacked():
    with tarfile.open(archive()) as tar:
        tar.extractall(holder().name)
    folder, = pathlib.Path(holder().name).glob("cushim-*")
    return folder


@tap.test
def it_has_what_was_committed_and_nothing_else():
    folder = unpacked()
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()}
    committed = set(command("git", "-C", SOURCE, "ls-tree", "-r", "-z", "--name-only", "HEAD").strip("\0").split("\0"))
    assert there == committed, (sorted(there - committed), sorted(committed - there))


@tap.test
def it_builds_and_its_unit_tests_pass():
    folder = unpacked() / "build"
    command(MESON, "setup", folder, unpacked(), "-Dkernels=disabled")
    said = command("ninja", "-C", folder, "preload", *UNIT)
    assert len(re.findall("^100%: Checks: [1-9]", said, re.MULTILINE)) >= 16, said


@tap.test
def pip_install_of_it_works():
    bin_folder = pathlib.Path(holder().name, "environment/bin")
    command(sys.executable, "-m", "venv", bin_folder.parent)
    done = subprocess.run([bin_folder / "pip", "download", "--quiet", "--no-deps", "-d", holder().name, "meson-python>=0.16"],
                          text=True, capture_output=True)
    if done.returncode:
        tap.skip("pip cannot fetch meson-python here")
    command(bin_folder / "pip", "install", "--quiet", ".", cwd=unpacked())
    command(unpacked() / "tests/install/judge", bin_folder / "cushim", bin_folder / "python", SIM, PROGRAM)
    command(bin_folder / "pip", "uninstall", "--quiet", "--yes", "cushim")
    left = [path for path in bin_folder.parent.rglob("*cushim*") if path.is_file()]
    assert not left, left


tap.run()

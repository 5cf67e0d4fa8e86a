"""The source release: `meson dist` contains the committed files, builds and passes outside of a clone, and pip installs
it.

    dist.py MESON SOURCE BUILD CUDA SIM PROGRAM CC...

SIM is the folder of the software device; PROGRAM allocates memory through the CUDA runtime. All tests of the plain
phase, by hand, in a folder outside of any clone:

    meson dist -C build --no-tests && tar xf build/meson-dist/cushim-*.tar.xz -C FOLDER && FOLDER/cushim-*/tools/check plain
"""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import same_build
import tap

MESON, SOURCE, BUILD, SIM, PROGRAM = (pathlib.Path(sys.argv[i]).resolve() for i in (1, 2, 3, 5, 6))
CUDA, *CC = sys.argv[4], *sys.argv[7:]
FOLDER = same_build.folder(SOURCE, BUILD)
UNIT = ["tests-base", "tests-cuda", "tests-memory-cache"]  # seconds for everything
AS_IN_THE_CLONE = ["-Dbuildtype=debugoptimized", *same_build.options(BUILD)]

os.environ["PIP_NO_COMPILE"] = "0"  # 0 means yes: Python compiles the imported modules that pip installs


def command(*words, **more):
    environment = {**os.environ, "CUDA_HOME": CUDA, "CC": shlex.join(CC)}
    done = subprocess.run(list(map(str, words)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, **more)
    assert done.returncode == 0, f"{' '.join(map(str, words))} ended with {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-60:])
    return done.stdout


@functools.cache
def holder():
    return tempfile.TemporaryDirectory(prefix="cushim-dist-")


def committed():
    if not (SOURCE / ".git").exists():
        tap.skip("no clone: this is a source release")
    return set(command("git", "-C", SOURCE, "ls-tree", "-r", "-z", "--name-only", "HEAD").strip("\0").split("\0"))


@functools.cache
def archive():
    committed()  # or a skip
    # dirty, because uncommitted files are not in it, which is no fault here
    said = command(MESON, "dist", "-C", BUILD, "--no-tests", "--allow-dirty", "--formats", "gztar")
    return pathlib.Path(re.search(r"^Created (.*\.tar\.gz)$", said, re.MULTILINE)[1])


@functools.cache
def unpacked():
    with tarfile.open(archive()) as tar:
        tar.extractall(holder().name)
    folder, = pathlib.Path(holder().name).glob("cushim-*")
    return folder


@tap.test
def the_release_has_the_committed_files_and_no_others():
    folder = unpacked()
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()}
    assert there == committed(), sorted(there ^ committed())


@tap.test
def the_release_builds_and_its_unit_tests_pass():
    folder = unpacked() / FOLDER
    command(MESON, "setup", folder, unpacked(), "-Dkernels=disabled", *AS_IN_THE_CLONE)
    said = command("ninja", "-C", folder, "preload", *UNIT)
    assert len(re.findall("^100%: Checks: [1-9]", said, re.MULTILINE)) >= 16, said


@functools.cache
def environment():
    """The bin folder of a new environment, if pip has a network."""
    bin_folder = pathlib.Path(holder().name, "environment/bin")
    command(sys.executable, "-m", "venv", bin_folder.parent)
    done = subprocess.run([bin_folder / "python", "-m", "pip", "install", "--quiet", "pip>=23.1", "build>=1,<2"], text=True, capture_output=True)
    if done.returncode:
        tap.skip("pip cannot fetch packages here")
    return bin_folder


@tap.test
def python_m_build_makes_the_same_source_release():
    folder, wanted = pathlib.Path(holder().name, "sdist"), committed()
    command(environment() / "python", "-m", "build", "--sdist", "-o", folder, SOURCE)
    made, = folder.iterdir()
    with tarfile.open(made) as tar:
        names = {member.name.split("/", 1)[1] for member in tar.getmembers() if not member.isdir()}
    assert names == wanted | {"PKG-INFO"}, sorted(names ^ wanted)


@tap.test
def pip_installs_the_release():
    bin_folder = environment()
    settings = [f"build-dir={FOLDER}", *(f"setup-args={word}" for word in AS_IN_THE_CLONE)]  # which was built before
    command(bin_folder / "pip", "install", "--quiet", *(word for text in settings for word in ("-C", text)), ".", cwd=unpacked())
    command(unpacked() / "tests/install/judge", bin_folder / "cushim", bin_folder / "python", SIM, PROGRAM)
    command(bin_folder / "pip", "uninstall", "--quiet", "--yes", "cushim")
    left = [path for path in bin_folder.parent.rglob("*cushim*") if path.is_file()]
    assert not left, left


tap.run()

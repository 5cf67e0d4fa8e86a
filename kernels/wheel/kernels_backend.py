"""The wheel of the kernels: the wheel of the whole tree is built with them, and they are taken from it.

They go to the folder of the module cushim, beside libcushim.so.0, so both must have the same version.
"""
import contextlib
import os
import pathlib
import re
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/wheel"))
import backend  # of the wheel of cushim

OURS = re.compile(r"cushim/(lib/lib(cushim-)?kernels\.|include/cushim/(kernels(\.h|_ref\.h|/)|dropin/libkernels))")
# Parts that the kernels do not need.
WITHOUT = ["-Dkernels=enabled", "-Dpreload=false", "-Dcli=false"]
METADATA = """Metadata-Version: 2.1
Name: cushim-kernels
Version: {version}
Summary: Tensor kernels on the CUDA driver, for libcushim.so
License: Apache-2.0
Requires-Python: >= 3.9
Requires-Dist: cushim == {version}
"""


@contextlib.contextmanager
def at(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def get_requires_for_build_wheel(config_settings=None):
    with at(ROOT):
        return backend.get_requires_for_build_wheel(config_settings)


class UnsupportedOperation(Exception):
    """PEP 517 wants this exception from a backend that makes no source release."""


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("the sources of the kernels are in that of cushim; `python -m build -w` makes their wheel")


def take_kernels(whole, folder):
    """Make the wheel of the kernels from their files in the whole one, and return its path."""
    version, tags = re.fullmatch(r"cushim-([^-]+)-(.*)\.whl", whole.name).groups()
    info = f"cushim_kernels-{version}.dist-info"
    new = folder / f"cushim_kernels-{version}-{tags}.whl"
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as target:
        items = [(item, source.read(item)) for item in source.infolist() if OURS.match(item.filename) and not item.is_dir()]
        if not any(item.filename.endswith(".so.0") for item, _ in items):
            raise RuntimeError("the kernels were not built: nvcc is missing")
        wheel, = (source.read(name).decode() for name in source.namelist() if name.endswith(".dist-info/WHEEL"))
        items += [(f"{info}/METADATA", METADATA.format(version=version).encode()), (f"{info}/WHEEL", wheel.encode())]
        lines = [backend.record_line(getattr(item, "filename", item), data) for item, data in items]
        for item, data in items:
            target.writestr(item, data)
        target.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,"]) + "\n")
    return new


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings, folder = dict(config_settings or {}), pathlib.Path(wheel_directory).resolve()
    given = settings.get("setup-args", [])
    settings["setup-args"] = [*WITHOUT, *([given] if isinstance(given, str) else given)]
    with tempfile.TemporaryDirectory(prefix="cushim-kernels-") as whole, at(ROOT):
        name = backend.build_wheel(whole, settings)
        return take_kernels(pathlib.Path(whole, name), folder).name

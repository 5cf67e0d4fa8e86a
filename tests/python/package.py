"""The Python modules as folders of the build, before anything is installed.

    package.py STAMP VERSION LIBRARY FILE...

Beside STAMP are `cushim`, which finds LIBRARY where it was built, and `vkgdr`.
"""
import pathlib
import shutil
import sys

STAMP, VERSION, LIBRARY, *FILES = sys.argv[1:]
packages = {name: pathlib.Path(STAMP).parent / name for name in ("cushim", "vkgdr")}
for package in packages.values():
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir()
for file in FILES:
    shutil.copy(file, packages.get(pathlib.Path(file).parent.name, packages["cushim"]))
folder = str(pathlib.Path(LIBRARY).resolve().parent)
(packages["cushim"] / "_installed.py").write_text(f"VERSION = {VERSION!r}\nBIN = LIB = INCLUDE = {folder!r}\n")
pathlib.Path(STAMP).touch()

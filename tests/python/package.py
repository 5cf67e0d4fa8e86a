"""The Python module as a folder of the build, before anything is installed.

    package.py STAMP VERSION LIBRARY FILE...

Beside STAMP is `cushim`, which finds LIBRARY where it was built.
"""
import pathlib
import shutil
import sys

STAMP, VERSION, LIBRARY, *FILES = sys.argv[1:]
package = pathlib.Path(STAMP).parent / "cushim"
shutil.rmtree(package, ignore_errors=True)
package.mkdir()
for file in FILES:
    shutil.copy(file, package)
folder = str(pathlib.Path(LIBRARY).resolve().parent)
(package / "_installed.py").write_text(f"VERSION = {VERSION!r}\nBIN = LIB = INCLUDE = {folder!r}\n")
pathlib.Path(STAMP).touch()

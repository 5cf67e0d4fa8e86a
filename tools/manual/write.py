"""All pages and completions, in one go: the command that they describe is linked often.

    write.py CUSHIM VERSION FOLDER FILE=TOPIC=SECTION|FILE=SHELL ...
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CUSHIM, VERSION, FOLDER = sys.argv[1:4]

for given in sys.argv[4:]:
    name, what, *section = given.split("=")
    file = pathlib.Path(FOLDER, name)
    if section:
        words = [HERE / "man.py", CUSHIM, what, section[0], VERSION, file]
    else:
        words = [HERE / "completions.py", CUSHIM, what, file]
    subprocess.run([sys.executable, "-B", *words], check=True)

"""A page shows the output of `cushim run --check` for docs/examples/overrun.c.

    checked.py PAGE CUSHIM PROGRAM IMAGE

On a machine with a GPU, IMAGE would be kernels.ptx; nothing else in the command differs.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

PAGE = pathlib.Path(sys.argv[1])
CUSHIM, PROGRAM, IMAGE = (str(pathlib.Path(word).resolve()) for word in sys.argv[2:5])


def shape(line):
    """A line without the parts that differ between runs and machines."""
    line = re.sub(r"cushim\[\d+\]", "cushim[]", line)
    line = re.sub(r"0x[0-9a-f]{6,}|(?<=\+)0x[0-9a-f]+", "0x", line)
    return re.sub(r"\S*overrun\(", "overrun(", line)


def sample():
    lines = PAGE.read_text().splitlines()
    begin = lines.index("    $ cushim run --check ./overrun kernels.ptx") + 1
    return [line.strip() for line in lines[begin:lines.index("", begin)]]


@tap.test
def the_page_shows_the_output_of_the_check():
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUSHIM")}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([CUSHIM, "run", "--check", PROGRAM, IMAGE], env=env, cwd=folder, text=True,
                              capture_output=True, timeout=100)
    assert done.returncode == 0 and done.stdout == "1000 floats scaled\n", done
    told = [shape(line) for line in done.stderr.splitlines()]  # and no frame of the C library, which calls main
    assert [shape(line) for line in sample() if "cushim[" in line] == told, done.stderr
    assert [line for line in sample() if "cushim[" not in line] == done.stdout.splitlines(), sample()


@tap.test
def an_image_runs_on_the_software_device_if_the_program_has_its_kernel():
    launch = str(pathlib.Path(PROGRAM).with_name("example-ptx_launch"))
    ptx = str(PAGE.parents[1] / "examples/kernels.ptx")
    done = subprocess.run([launch, ptx], text=True, capture_output=True, timeout=100)
    assert done.returncode == 0 and "1000 floats times 2.5: 0 2.5 5 .. 2497.5" in done.stdout, done


tap.run()

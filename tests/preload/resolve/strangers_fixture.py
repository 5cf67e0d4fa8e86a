"""Where a compiler keeps its sanitizers' libraries."""
import pathlib
import subprocess

import stage
import tap


def sanitizer_library(name):
    """The shared runtime of gcc's sanitizer, which has to stand first in LD_PRELOAD."""
    path = subprocess.run([*stage.options.cc, f"-print-file-name={name}"], capture_output=True,
                          text=True).stdout.strip()
    if not pathlib.Path(path).is_absolute():
        tap.skip(f"the compiler has no {name}")
    return path

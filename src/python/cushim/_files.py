"""The paths of cushim's files: beside this module in a wheel, else in the folders of meson's prefix."""
import pathlib

from ._installed import BIN, INCLUDE, LIB, VERSION

__version__ = VERSION
_HERE = pathlib.Path(__file__).resolve().parent


def library_folder() -> str:
    """The folder of libcushim-preload.so and libcushim.so.0."""
    return str((_HERE / LIB).resolve())


def include_folder() -> str:
    """The folder for -I of a C compiler."""
    return str((_HERE / INCLUDE).resolve())


def preload_path() -> str:
    """The file for LD_PRELOAD."""
    return str(pathlib.Path(library_folder(), "libcushim-preload.so"))


def command_path() -> str:
    """The file of the command, which is not a Python program."""
    return str((_HERE / BIN / "cushim").resolve())

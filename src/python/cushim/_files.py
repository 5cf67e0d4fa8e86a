"""Where cushim's files are: beside this module, as a wheel has them, or where meson installed them."""
import pathlib

from ._installed import BIN, INCLUDE, LIB, VERSION

__version__ = VERSION
_HERE = pathlib.Path(__file__).resolve().parent


def library_folder() -> str:
    """The folder of libcushim-preload.so and libcushim.so.0."""
    return str((_HERE / LIB).resolve())


def include_folder() -> str:
    """What a C compiler is told by -I."""
    return str((_HERE / INCLUDE).resolve())


def preload_path() -> str:
    """What LD_PRELOAD names."""
    return str(pathlib.Path(library_folder(), "libcushim-preload.so"))


def command_path() -> str:
    """The command itself, which is no Python program."""
    return str((_HERE / BIN / "cushim").resolve())

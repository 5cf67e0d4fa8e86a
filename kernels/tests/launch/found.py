"""cushim_kernels_open and its users find the libraries as packages install them, without links for compilers.

    found.py LIBCUSHIM LIBCUSHIM_KERNELS LIBKERNELS
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
import tap

LIBRARIES = [pathlib.Path(argument) for argument in sys.argv[1:]]
# A client copies every second of eight floats, then opens both libraries by name.
PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.cushim_status_name.restype = library.cushim_last_error.restype = ctypes.c_char_p
client, block, handle = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
floats, got = (ctypes.c_float * 8)(*range(8)), (ctypes.c_float * 4)()
shape, strides = (ctypes.c_int64 * 1)(4), (ctypes.c_int64 * 1)(2)
def call(name, *arguments):
    status = getattr(library, name)(*arguments)
    print(name, library.cushim_status_name(status).decode(), library.cushim_last_error().decode() if status else "")
    return status
library.cushim_client_get(0, ctypes.byref(client))
library.cushim_client_alloc(client, ctypes.c_size_t(4096), ctypes.byref(block))
library.cushim_client_h2d(client, block, floats, ctypes.c_size_t(32))
dense = ctypes.c_uint64(block.value + 2048)
if call("cushim_client_strided", client, block, dense, shape, strides, 1, ctypes.c_size_t(4)) == 0:
    library.cushim_client_d2h(client, got, dense, ctypes.c_size_t(16))
    print(*got)
for dropin in (0, 1):
    call("cushim_kernels_open", dropin, ctypes.byref(handle))
"""


def said(names):
    """What the program prints with these of the libraries in one folder."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            shutil.copy(next(file for file in LIBRARIES if file.name == name), folder)
        done = subprocess.run([sys.executable, "-c", PROGRAM, f"{folder}/libcushim.so.0"], capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout.replace(folder, "FOLDER").splitlines()


@tap.test
def libraries_without_links_for_compilers_are_found():
    assert said(["libcushim.so.0", "libcushim-kernels.so.0", "libkernels.so"]) == [
        "cushim_client_strided CUSHIM_OK ", "0.0 2.0 4.0 6.0", "cushim_kernels_open CUSHIM_OK ", "cushim_kernels_open CUSHIM_OK "]


@tap.test
def what_is_not_there_is_named_with_the_places_and_no_word_of_the_driver():
    for line, name in zip(said(["libcushim.so.0"]), ["libcushim-kernels.so.0", "libcushim-kernels.so.0", "libkernels.so"]):
        if "CUSHIM_OK" in line:
            tap.skip("it is installed on this machine")
        assert "CUSHIM_NOTFOUND" in line and f"library={name} " in line and f"tried=FOLDER/{name}," in line, line
        assert "driver" not in line, line


tap.run()

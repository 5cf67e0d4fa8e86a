"""The Python module asks the preload of its own process: counters, marks, reports. Without a preload it works, too.

    module.py --preload ... --sim ... INSTALLED SOURCE...

INSTALLED says where things are installed; SOURCE are the other files of the module, the generated one included.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fixture"))
import fixture

OPTIONS = fixture.arguments()

PROGRAM = """
import ctypes, json, cushim, pathlib, sys
cuda = ctypes.CDLL("libcuda.so.1")
block, context = ctypes.c_uint64(), ctypes.c_void_p()
def ok(error):
    assert error == 0, error
ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
ok(cuda.cuCtxSetCurrent(context))
def obtain(n_bytes):
    ok(cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(n_bytes)))
    return ctypes.c_uint64(block.value)
def fails(error, call, *words):
    try:
        call(*words)
    except error as caught:
        return str(caught)
    raise AssertionError(f"{call} with {words}")
"""


def python(text, **settings):
    """Run a program that has the module."""
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder) / "cushim"
        module.mkdir()
        for file in map(pathlib.Path, OPTIONS.programs):
            (module / file.name).symlink_to(file)
        environment = {**os.environ, "LD_LIBRARY_PATH": OPTIONS.sim, "PYTHONPATH": folder, "CUSHIM_SIM_DEVICES": "2",
                       "TMPDIR": folder, **settings}
        done = subprocess.run([sys.executable, "-c", PROGRAM + text], env=environment, capture_output=True, text=True,
                              cwd=folder, timeout=fixture.TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout


@fixture.tap.test
def the_module_asks_the_preload_of_its_process():
    python("""
assert cushim.active()
kept = obtain(1000)
cushim.mark("kept é")
ok(cuda.cuMemFree_v2(obtain(50000)))
now = cushim.stats()
assert (now.live_bytes, now.n_requests, now.n_frees) == (1000, 2, 1), now
assert now.recent_peak_live_bytes == 51000, now
assert cushim.stats(0, "device") == now and not any(cushim.stats(1)) and not any(cushim.stats(0, "pinned"))
cushim.reset_peak(0)
assert cushim.stats(kind="device").recent_peak_live_bytes == 1000
assert cushim.stats().peak_live_bytes == 51000
whole = cushim.report()
mark, = whole["marks"]
assert (mark["name"], mark["live_bytes"]) == ("kept é", 1000), mark
assert cushim.report("here.json") is None
assert json.loads(pathlib.Path("here.json").read_text())["devices"] == whole["devices"]
fails(ValueError, cushim.stats, 64)
fails(ValueError, cushim.stats, None, "texture")
fails(FileNotFoundError, cushim.report, "no/such/folder.json")
""", LD_PRELOAD=OPTIONS.preload)


@fixture.tap.test
def without_a_preload_nothing_is_told():
    text = """
assert not cushim.active()
cushim.mark("nobody")
for call in (cushim.stats, cushim.reset_peak, cushim.report):
    assert "cushim run" in fails(RuntimeError, call)
"""
    python(text)
    python(text, LD_PRELOAD=OPTIONS.preload, CUSHIM="0")


fixture.tap.run()

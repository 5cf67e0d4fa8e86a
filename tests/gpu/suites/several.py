"""Several processes, and two devices if there are two: IPC, PyTorch's tensors between processes, NCCL, DDP, UCX, MPS.

Each program runs natively and in each mode; output and exit status must be the same. GB/s of NCCL and UCX, from
alternating runs, are kept in several.json and not judged.
"""
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import build
import compat

MODES = {"exact": {}, "relaxed": {"CUSHIM_FREE": "relaxed"}}
FOLDER = build.ROOT / "tests" / "gpu" / "several"
TIMEOUT_S = 60
N_TURNS = 3
QUIET_NCCL = {"NCCL_NVLS_ENABLE": "0", "OMP_NUM_THREADS": "1"}
WITHOUT_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
COLLECTIVES = {"peer": {}, "shared memory": {"NCCL_P2P_DISABLE": "1"}, "cache off": WITHOUT_CACHE,
               "registered": {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}}
UCX_MESSAGES = {65536: 4000, 8 << 20: 1000}
# how UCX learns of allocations: by patching the driver's functions, including cushim's, or by relocation
UCX_HOOKS = {"ucx": {}, "ucx, reloc": {"UCX_MEM_CUDA_HOOK_MODE": "reloc"}}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(name):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), FOLDER / name]


def modes(host, name, command, env, wanted=MODES, may_differ=lambda mode: None):
    """Runs the program once natively, then in each mode. may_differ: why a mode's output may differ, or None."""
    native = host.run(command(), TIMEOUT_S, **env)
    return [compat.gauntlet(host, f"{name}-{mode}", command(), TIMEOUT_S, is_counted=False, native=native, may_differ=may_differ(mode),
                            settings=settings, **env) for mode, settings in wanted.items()]


def ipc(host, link):
    """Both sides under cushim, and each side with the other one plain."""
    command = [build.output(host, "ipc_pair", link)]
    sides = {"": {}, "plain importer": {"CHILD_PRELOAD": ""},
             "plain exporter": {"LD_PRELOAD": None, "CHILD_PRELOAD": host.preload}}
    wanted = {f"{mode}{' ' if side else ''}{side}": {**settings, **more}
              for mode, settings in MODES.items() for side, more in sides.items()}
    return modes(host, f"ipc_pair-{link}", lambda: command, {}, wanted,
                 lambda mode: "without cushim one block of a segment opens at a time" if "plain importer" in mode else None)


def tensors(host):
    return modes(host, "tensors", lambda: [sys.executable, FOLDER / "tensors.py"], {})


def data_parallel(host):
    return modes(host, "data_parallel", lambda: torchrun("data_parallel.py"), QUIET_NCCL,
                 {**MODES, "vmm": {"CUSHIM_BACKEND": "vmm"}})


def figures_of(done):
    found = re.search(rb"GB/s (\{.*\})", done.stderr)
    return json.loads(found.group(1)) if found else {}


def turns(host, part, run):
    """`run` of settings returns GB/s by name: native and the modes alternate; returns the median of each."""
    found = {}
    for _ in range(N_TURNS):
        for mode, settings in {"native": None, **MODES}.items():
            preload = {} if settings is None else {"LD_PRELOAD": host.preload, **settings}
            for name, value in run(preload).items():
                found.setdefault(name, {}).setdefault(mode, []).append(value)
    part["gb_per_s"] = {name: {mode: sorted(values)[len(values) // 2] for mode, values in by_mode.items()}
                        for name, by_mode in found.items()}


def collectives(host, name):
    env = {**QUIET_NCCL, **COLLECTIVES[name]}
    parts = modes(host, f"collectives, {name}", lambda: torchrun("collectives.py"), env)
    if name == "peer" and parts[0]["status"] == "pass":
        turns(host, parts[0], lambda preload: figures_of(host.run(torchrun("collectives.py"), TIMEOUT_S, **env, **preload)))
    return parts


def perftest(host, tool, memory, size, variables):
    """ucx_perftest between two processes of one device: (GB/s, the fault)."""
    port = free_port()
    common = [tool, "-t", "tag_bw", "-m", memory, "-s", size, "-n", UCX_MESSAGES[size], "-w", 200, "-p", port]
    variables = {"UCX_TLS": "cuda_copy,cuda_ipc,sm,self,tcp", "UCX_WARN_UNUSED_ENV_VARS": "n", **variables}
    server = subprocess.Popen([str(part) for part in common], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=host.environment(**variables))
    try:
        done = None
        for _ in range(40):  # the server listens after it has created its context
            done = host.run([*common[:1], "127.0.0.1", *common[1:]], 60, **variables)
            if done.rc == 0 or done.is_late or server.poll() is not None:
                break
            time.sleep(0.25)
        rows = re.findall(rb"^Final:\s+\d+\s+\S+\s+\S+\s+\S+\s+\S+\s+(\S+)", done.stdout, re.M)
        if done.rc != 0 or not rows:
            return None, (done.stderr + done.stdout).decode(errors="replace")[-400:]
        return float(rows[-1]) * (1 << 20) / 1e9, ""
    finally:
        server.kill()
        server.communicate()


def ucx(host, name):
    tool = shutil.which("ucx_perftest")
    part = {"name": name, "status": "pass", "faults": []}
    if not tool:
        part.update(status="skip", why="no ucx_perftest on the path")
        return part

    def run(preload):
        found = {}
        for memory in ("cuda", "cuda,host"):
            for size in UCX_MESSAGES:
                value, why = perftest(host, tool, memory, size, {**UCX_HOOKS[name], **preload})
                if value is None:
                    fault = f"{memory}, {size} bytes, {'cushim' if preload else 'natively'}: {why}"
                    part["faults"].append(fault)
                    host.log(f"== ucx: {fault}")
                else:
                    found[f"{memory} {size}"] = value
        return found

    turns(host, part, run)
    if part["faults"]:
        part["status"] = "fail"
    return part


MPS_CONTROL = "nvidia-cuda-mps-control"
MPS_PROGRAMS = ("fork_before", "ipc_pair", "streams", "threads")


def control_mps(variables, order=None):
    """Starts the daemon, or sends it a command; returns its answer."""
    done = subprocess.run([MPS_CONTROL, *([] if order else ["-d"])], input=order, text=True, capture_output=True, timeout=30,
                          env={**os.environ, **variables})
    return done.stdout + done.stderr


def mps(host):
    """Clients of the Multi-Process Service, whose daemon has its own folders and ends with this function."""
    if not shutil.which(MPS_CONTROL):
        return {"name": "MPS", "status": "skip", "why": f"no {MPS_CONTROL} on the path"}
    folder = host.scratch / "mps"
    folder.mkdir(exist_ok=True)
    variables = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    said = control_mps(variables)
    try:
        parts = []
        for name in MPS_PROGRAMS:
            parts += modes(host, f"MPS, {name}", lambda: [build.output(host, name, host.links[0])], variables)
        servers = control_mps(variables, "get_server_list\n").split()
    finally:
        control_mps(variables, "quit\n")
    if not any(server.isdigit() for server in servers):
        parts.append({"name": "MPS", "status": "fail", "faults": [f"no server ran: {said} {' '.join(servers)}"]})
    return parts


def run(host):
    if host.sim:
        return [{"name": "several", "status": "skip", "why": "needs a GPU"}]
    beside = {f"ipc_pair-{link}": functools.partial(ipc, host, link) for link in host.links}
    beside |= {"tensors": functools.partial(tensors, host), "data_parallel": functools.partial(data_parallel, host)}
    alone = {f"collectives, {name}": functools.partial(collectives, host, name) for name in COLLECTIVES}
    alone |= {name: functools.partial(ucx, host, name) for name in UCX_HOOKS}
    alone["MPS"] = functools.partial(mps, host)
    parts = []
    for works, n_jobs in ((beside, host.n_jobs), (alone, 1)):
        wanted = [work for name, work in works.items() if host.wants_part("several", name)]
        parts += compat.run_all(host, "several.json", wanted, n_jobs)
    host.save("several.json", {"host": host.facts, "parts": parts})
    return parts

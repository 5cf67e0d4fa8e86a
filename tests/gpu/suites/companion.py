"""The companion library on the device, alone and under the preload: the behaviour cases of tests/companion in one
process (because CUDA does not survive libcheck's fork), the examples, and PyTorch in the same process.

Each case of a program is a part; a case whose needs the machine lacks (a second device, Vulkan) is a skip.
"""
import os
import re
import sys

import build

TIMEOUT_S = 120
LINE = re.compile(r"^(not )?ok (\d+) - (.*?)(?:\s+# SKIP\s*(.*))?$")


def name_of(text):
    """libcheck prints file:suite:case[:iteration]: message."""
    found = re.search(r"\bcase_\w+|(?<=:)\w+(?=: )", text)
    return found.group(0) if found else text.strip()[:60]


def judge(host, title, done):
    parts, n_planned = [], None
    for line in done.stdout.decode(errors="replace").splitlines():
        plan = re.match(r"1\.\.(\d+)", line)
        n_planned = int(plan.group(1)) if plan else n_planned
        found = LINE.match(line)
        if not found and line.startswith("#") and parts and parts[-1]["status"] == "fail":
            parts[-1]["faults"].append(line[1:].strip()[:300])
        if found and found.group(4) is not None:
            parts.append({"name": f"{title}:{name_of(found.group(3))}", "status": "skip", "why": found.group(4)})
        elif found:
            part = {"name": f"{title}:{name_of(found.group(3))}", "status": "fail" if found.group(1) else "pass"}
            if found.group(1):
                part["faults"] = [found.group(3)[-300:]]
            parts.append(part)
    whole = {"name": title, "status": "pass", "seconds": done.seconds, "faults": []}
    if done.is_late:
        whole["faults"].append("no end in time")
    elif done.rc != 0 and not any(part["status"] == "fail" for part in parts):
        whole["faults"].append(f"exit status {done.rc}")
    if not parts or n_planned != len(parts):
        whole["faults"].append(f"{n_planned} cases were planned, {len(parts)} have run")
    if whole["faults"]:
        whole["status"] = "fail"
    if whole["faults"] or any(part["status"] == "fail" for part in parts):
        host.log(f"== {title}", done.stdout.decode(errors="replace")[-6000:], done.stderr.decode(errors="replace")[-4000:])
    return [whole, *parts]


def program(host, name, is_preloaded):
    path = build.companion_output(host, name)
    title = f"{name}-preloaded" if is_preloaded else name
    if not path.exists():
        return [{"name": title, "status": "fail", "faults": ["not built"]}]
    folders = [*map(str, build.companion_folders(host)), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    variables = {"LD_LIBRARY_PATH": os.pathsep.join(folders),
                 "TEST_CUDART": f"{host.cuda}/lib64/libcudart.so"}
    if host.sim:
        variables["CUSHIM_LIBCUDA"] = host.sim / "libcuda.so.1"
    if is_preloaded:
        variables["LD_PRELOAD"] = host.preload
    return judge(host, title, host.run([path], TIMEOUT_S, **variables))


def judge_whole(host, title, done):
    """A program with one verdict; 77: it cannot run here."""
    if done.rc == 77:
        return {"name": title, "status": "skip", "why": done.stderr.decode(errors="replace").strip()[-200:]}
    faults = ["no end in time"] if done.is_late else [f"exit status {done.rc}"] if done.rc != 0 else []
    if faults:
        host.log(f"== {title}", done.stdout.decode(errors="replace")[-4000:], done.stderr.decode(errors="replace")[-4000:])
    return {"name": title, "status": "fail" if faults else "pass", "seconds": done.seconds, "faults": faults}


def example(host, name, is_preloaded):
    """An example prints what its head shows; its kernels are PTX.  Some have a test that gives them a file instead."""
    source, title = build.EXAMPLES / f"{name}.c", f"example {name}" + (" preloaded" if is_preloaded else "")
    test, image = build.ROOT / "kernels" / "tests" / "example" / f"{name}.py", []
    if not test.exists():
        test = build.ROOT / "tests" / "examples" / "run.py"
        image = [build.EXAMPLES / "kernels.ptx"] if re.search(r"\bargv\b", source.read_text()) else []
    under = ["env", f"LD_PRELOAD={host.preload}"] if is_preloaded else []
    command = [sys.executable, test, source, *under, build.example_output(host, name), *image]
    done = host.run(command, TIMEOUT_S)
    part = judge_whole(host, title, done)
    skipped = re.search(r"# SKIP\s*(.*)", done.stdout.decode(errors="replace"))
    return {"name": title, "status": "skip", "why": skipped.group(1)} if skipped else part


def beside_torch(host, is_preloaded):
    library = build.companion_folders(host)[0] / "libcushim.so.0"
    variables = {"LD_PRELOAD": host.preload} if is_preloaded else {}
    done = host.run([sys.executable, build.ROOT / "tests" / "gpu" / "python" / "torch_beside_companion.py", library],
                    TIMEOUT_S, **variables)
    return judge_whole(host, "beside PyTorch" + (", preloaded" if is_preloaded else ""), done)


def run(host):
    """One program at a time, because cases read the clock and the free memory."""
    parts = []
    for is_preloaded in (False, True) if not host.sim else ():
        parts.extend(example(host, name, is_preloaded) for name in build.example_names(host))
        parts.append(beside_torch(host, is_preloaded))
    for name in build.companion_names():
        for is_preloaded in (False, True):
            parts.extend(program(host, name, is_preloaded))
            host.save("companion.json", {"host": host.facts, "parts": parts})
    return parts

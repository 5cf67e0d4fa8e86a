"""The programs of compat under rare settings, with the same output and exit status as natively.

compat runs them with the defaults and counts calls; here a program runs natively once, and nothing is counted.
"""
import functools

import build
import compat

WAYS = {
    "relaxed": {"CUSHIM_FREE": "relaxed"},
    "check-frees": {"CUSHIM_CHECK": "frees"},
    "check-full": {"CUSHIM_CHECK": "full"},
    "serve": {"CUSHIM_CAPTURE": "serve"},
    "vmm": {"CUSHIM_BACKEND": "vmm"},
    "zero": {"CUSHIM_ZERO": "1"},
    "arena": {"CUSHIM_ARENA": "64M"},
}
MAY_DIFFER = {
    ("coverage", "relaxed"): "it prints which frees wait",
    ("coverage", "vmm"): "mapped memory belongs to no context: a free does not wait for another context's copy",
}
# Programs that a setting does not serve, by design (docs/guide/limits-of-a-preload.md).
NOT_SERVED = {
    ("processes", way): "no handle of a block for another process" for way in ("check-frees", "check-full", "vmm")
}


def of_program(host, name, link):
    command = compat.command_of(host, name, link)
    if not command[0].exists():
        return [{"name": f"{name}-{link}", "status": "fail", "faults": ["not built"]}]
    native = host.run(command, compat.limit_s(name))
    return [{"name": f"{name}-{way}-{link}", "status": "skip", "why": NOT_SERVED[name, way]} if (name, way) in NOT_SERVED else
            compat.gauntlet(host, f"{name}-{way}-{link}", command, compat.limit_s(name), is_counted=False,
                            settings=settings, native=native,
                            may_differ=MAY_DIFFER.get((name, way), compat.MAY_DIFFER.get(name)))
            for way, settings in WAYS.items()]


def run(host):
    link = host.links[0]
    names = [name for name, path in build.sources()
             if name not in compat.OTHERS and not build.is_part(name) and not (host.sim and path.suffix == ".cu")
             and host.wants_part("ways", name)]
    names.sort(key=lambda name: -compat.limit_s(name))  # the longest programs first; the settings of a program run one after the other
    works = [functools.partial(of_program, host, name, link) for name in names]
    return compat.run_all(host, "ways.json", works, host.n_jobs)

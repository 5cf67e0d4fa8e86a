"""The programs of the gauntlet under settings that few use: same output, same exit status as natively.

compat runs them as they come, and counts; here nothing is counted.
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


def run(host):
    link = host.links[0]
    names = [name for name, path in build.sources()
             if name not in compat.OTHERS and not build.is_part(name) and not (host.sim and path.suffix == ".cu")]
    works = [functools.partial(compat.program, host, name, link, is_counted=False, way=way,
                               settings=settings)
             for way, settings in WAYS.items() for name in names]
    return compat.run_all(host, "ways.json", works, host.n_jobs)

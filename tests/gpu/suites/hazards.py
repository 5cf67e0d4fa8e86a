"""What programs get from cudaFree's barrier: natively nothing goes wrong, and so it must stay.

The programs print what went wrong, so the gauntlet's comparison is the verdict; they run one at a time,
since they lean on how long kernels take, and uncounted, since counting takes time too.
"""
import functools

import compat

PROGRAMS = (("hazards", ()), ("torture", ()), ("fault", ("free",)), ("fault", ("malloc",)), ("fault", ("sync",)))


def run(host):
    if host.sim:
        return [{"name": "hazards", "status": "skip", "why": "needs a GPU"}]
    return compat.run_all(host, "hazards.json",
                          [functools.partial(compat.program, host, name, link, options, is_counted=False)
                           for name, options in PROGRAMS for link in host.links], 1)

"""libcushim-kernels.so has code for each device that it was built for and PTX for later ones, all of it compressed.

    code.py LIBRARY ARCH..
"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))
import tap

LIBRARY, *ARCHS = sys.argv[1:]
ARCHS = [int(arch) for arch in ARCHS]
ROOT = pathlib.Path(__file__).resolve().parents[3]
MAGIC, PTX, CUBIN = 0xBA55ED50, 1, 2


def section():
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.nv_fatbin", LIBRARY, out.name], check=True)
        return pathlib.Path(out.name).read_bytes()


def fatbins(data):
    """A list of (kind, capability, payload) for each family."""
    at = 0
    while at < len(data):
        magic, _, header_bytes, n_bytes = struct.unpack_from("<IHHQ", data, at)
        assert magic == MAGIC, f"{at}: no fatbin"
        at += header_bytes
        end, entries = at + n_bytes, []
        while at < end:
            kind, _, header_bytes, n_bytes = struct.unpack_from("<HHIQ", data, at)
            capability, = struct.unpack_from("<I", data, at + 28)
            entries.append((kind, capability, data[at + header_bytes:at + header_bytes + n_bytes]))
            at += header_bytes + n_bytes
        yield entries
        while at < len(data) and data[at] == 0:  # padding before the next one
            at += 1


FAMILIES = list(fatbins(section()))


@tap.test
def each_family_has_a_fatbin():
    names = re.findall(r"^FAMILY\((\w+)\)", (ROOT / "kernels" / "launch" / "families.def").read_text(), re.MULTILINE)
    assert len(FAMILIES) == len(names), (len(FAMILIES), len(names))


@tap.test
def no_device_that_it_was_built_for_waits_for_the_drivers_compiler():
    for entries in FAMILIES:
        cubins = {capability for kind, capability, _ in entries if kind == CUBIN}
        for arch in ARCHS:  # code runs on later devices of the same major capability
            assert any(arch // 10 == have // 10 and have <= arch for have in cubins), (arch, sorted(cubins))


@tap.test
def devices_of_one_major_number_share_code_but_for_the_instruction_of_8_9():
    more = []
    for entries in FAMILIES:
        cubins = sorted(capability for kind, capability, _ in entries if kind == CUBIN)
        more += [later for first, later in zip(cubins, cubins[1:]) if later // 10 == first // 10]
    assert more in ([], [89, 89]), more  # conversions and norms


@tap.test
def later_devices_have_one_PTX_a_family():
    for entries in FAMILIES:
        found = [capability for kind, capability, _ in entries if kind == PTX]
        assert len(found) == 1 and found[0] <= ARCHS[-1], found


@tap.test
def all_code_is_compressed():
    for kind, capability, payload in (entry for entries in FAMILIES for entry in entries):
        plain = b"\x7fELF" if kind == CUBIN else b".version"
        assert plain not in payload[:4096], f"code of {capability} is not compressed"


tap.run()

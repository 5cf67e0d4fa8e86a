"""Refuses membarrier(2), as a sandbox may, by a seccomp filter that the process and its children keep.

    refuse.py COMMAND...        run a command without membarrier(2)

The filter is installed through the C library, because Python has no call for it.
"""
import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {"x86_64": 324, "aarch64": 283}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
FAIL, ALLOW = 0x00050000, 0x7fff0000


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("rows", ctypes.c_void_p)]


def membarrier():
    """From here on membarrier(2) is refused to this process and its children. OSError: the kernel has no filters."""
    c = ctypes.CDLL(None, use_errno=True)
    rows = [(LOAD_WORD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, NUMBERS[platform.machine()]),
            (RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    program = Program(len(rows), ctypes.addressof(text))
    if c.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            c.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no seccomp filter")


if __name__ == "__main__":
    membarrier()
    os.execvp(sys.argv[1], sys.argv[1:])

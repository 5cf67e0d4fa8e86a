"""What the tests of large tensors share (kernels_large.py): sizes, tensors, verdicts, and the library."""
import ctypes
import math
import pathlib
import sys

try:
    import torch
except ImportError:
    print("1..1\nok 1 - large tensors # SKIP no PyTorch")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from library import Library  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
F64, F32, F16 = torch.float64, torch.float32, torch.float16
I16, I32, I64, U8 = torch.int16, torch.int32, torch.int64, torch.uint8
N = 2_200_000_003  # elements: above 2^31, odd
D, D_ROWS = 4096, 537_111  # 2.2e9, too
ROW, ROWS = 1024, 2_150_400
CHUNK = 1 << 27

TESTS = []  # (name, GiB that it takes, function)


def large(gib):
    def add(function):
        TESTS.append((function.__name__.replace("_", " "), gib, function))
        return function
    return add


class Settings:
    small = 1  # divides sizes


class Ours:
    """The library, once it is loaded: ours.add_f32(..)."""

    def load(self, build):
        self.library = Library(build / "kernels" / "libcushim-kernels.so.0", build / "src" / "companion" / "libcushim.so.0")

    def __getattr__(self, name):
        return getattr(self.library, name)


ours = Ours()


# ---- sizes and tensors ----

def less(n):
    """A size divided by --small."""
    return max(1, n // Settings.small)


def parts(n, row=1):
    """Ranges of rows that together are 0 .. n, of at most CHUNK elements."""
    step = max(1, max(4096, CHUNK // Settings.small) // row)
    return [(start, min(start + step, n)) for start in range(0, n, step)]


def new(n, dtype=None):
    """A new tensor with all bits set, which is NaN as a float."""
    tensor = torch.empty(n, dtype=dtype or F32, device=DEVICE)
    for a, b in parts(n):
        tensor[a:b].view(U8).fill_(255)
    return tensor


def uniform(n, low=-1.0, high=1.0, dtype=None):
    tensor = torch.empty(n, dtype=dtype or F32, device=DEVICE)
    for a, b in parts(n):
        tensor[a:b].uniform_(low, high)
    return tensor


def integers(n, low, high, dtype):
    tensor = torch.empty(n, dtype=dtype, device=DEVICE)
    for a, b in parts(n):
        tensor[a:b].random_(low, high)
    return tensor


def number(value):
    return torch.tensor([value], dtype=I32, device=DEVICE)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    else:
        assert ctypes.CDLL("libcushim.so.0").cushim_stream_synchronize(None) == 0


def e4m3_values():
    def value(code):
        exponent, fraction = code >> 3 & 15, code & 7
        size = fraction / 8 * 2.0 ** -6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
        return -size if code & 128 else size
    return torch.tensor([value(code) for code in range(256)], dtype=F32, device=DEVICE)


def with_and_without_scratch(n_bytes):
    """(address, bytes) twice, or once if none helps."""
    scratch = torch.empty(n_bytes, dtype=U8, device=DEVICE) if n_bytes else None
    return [(None, 0), *([(scratch, n_bytes)] if n_bytes else [])]


# ---- verdicts ----

BITS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def refuse(is_bad, got, wanted, start, what):
    """Report the place of the first bad element of a chunk."""
    n_bad = int(is_bad.sum())
    if n_bad:
        at = int(is_bad.to(I32).argmax())
        raise AssertionError(f"{what}[{start + at}] = {got[at].item()}, PyTorch has {wanted[at].item()}; {n_bad} of "
                             f"{is_bad.numel()} from [{start}] on differ")


def same_bits(got, wanted, start, what="y"):
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    assert got.dtype == wanted.dtype and got.numel() == wanted.numel(), (got.dtype, wanted.dtype, got.numel(), wanted.numel())
    of = getattr(torch, BITS[got.element_size()])
    refuse(got.view(of) != wanted.view(of), got, wanted, start, what)


def close(got, wanted, start, relative, absolute=0.0, what="y"):
    """Absolute may be a tensor.  NaN is not close to anything."""
    got, wanted = got.reshape(-1).double(), wanted.reshape(-1).double()
    refuse(~((got - wanted).abs() <= wanted.abs() * relative + absolute), got, wanted, start, what)


class Nmse:
    """NMSE of all chunks together."""

    def __init__(self):
        self.error = self.power = 0.0

    def add(self, got, wanted):
        self.error += (got.double() - wanted.double()).square().sum().item()
        self.power += wanted.double().square().sum().item()

    def check(self, most):
        found = self.error / self.power
        assert found <= most, f"NMSE {found:.2e}, at most {most:.0e} is right"


def each(n, y, wanted, relative=None, absolute=0.0):
    """Check an elementwise result against wanted(a, b) of its elements a .. b; without a tolerance, its bits."""
    wait()
    for a, b in parts(n):
        if relative is None:
            same_bits(y[a:b], wanted(a, b), a)
        else:
            close(y[a:b], wanted(a, b), a, relative, absolute)

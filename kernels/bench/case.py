"""One measurement: a function of the library on one shape, and what PyTorch offers for the same."""
import dataclasses
import math
import typing

import torch


class New:
    """Tensors of one set, on the device that is measured; random, never zero."""

    def __init__(self, device, seed=1):
        self.device = device
        self.draw = torch.Generator(device).manual_seed(seed)
        self.tables = {}

    def f32(self, *shape):
        return torch.randn(*shape, device=self.device, generator=self.draw)

    def positive(self, *shape):
        return torch.rand(*shape, device=self.device, generator=self.draw) + 0.25

    def f16(self, *shape):
        return self.f32(*shape).half()

    def codes(self, *shape):
        """E4M3 of every finite value."""
        codes = torch.randint(0, 254, shape, device=self.device, generator=self.draw, dtype=torch.uint8)
        return torch.where(codes >= 127, codes + 1, codes).to(torch.uint8)

    def table(self, *shape):
        """A table that all sets share, made once because making it for each set would take as long as a measurement."""
        if shape not in self.tables:
            self.tables[shape] = self.f32(*shape)
        return self.tables[shape]

    def bytes(self, *shape):
        return torch.randint(0, 256, shape, device=self.device, generator=self.draw, dtype=torch.uint8)

    def integers(self, below, *shape, dtype=torch.int64):
        return torch.randint(0, below, shape, device=self.device, generator=self.draw, dtype=dtype)

    def empty(self, *shape, dtype=torch.float32):
        return torch.empty(*shape, device=self.device, dtype=dtype)

    def number(self, value):
        return torch.tensor([value], device=self.device, dtype=torch.int32)


@dataclasses.dataclass
class Case:
    kernel: str
    shape: str
    make: typing.Callable  # (New) -> a set: dict of tensors
    ours: typing.Callable  # (library, set)
    n_bytes: int  # each input and output once
    ceiling: str = "copy"  # the mix of its bytes: read, write, copy, add
    peers: dict = dataclasses.field(default_factory=dict)  # name to a function of a set, which returns its result
    yardsticks: dict = dataclasses.field(default_factory=dict)  # the same with lower accuracy: never won or lost
    out: str = "y"  # the tensor of the set that ours writes
    reference: typing.Callable = None  # of a set, in double; if None, the first peer's result
    hot: tuple = ()  # tensors of a set that all sets share: activations stay warm, weights do not
    n_flops: int = 0
    is_small: bool = False  # its launch dominates: measured cold and with one set

    @property
    def name(self):
        return f"{self.kernel}/{self.shape}"


def nmse(found, wanted):
    difference = power = 0.0
    for some, of_it in zip(found.flatten().split(1 << 27), wanted.flatten().split(1 << 27)):  # all in double may not fit
        difference += (some.double() - of_it.double()).square().sum().item()
        power += of_it.double().square().sum().item()
    if not math.isfinite(difference) or not power:
        return None
    return difference / power


def bound_of(tensor):
    """The largest NMSE that a result of this type may have."""
    return 1e-5 if tensor.dtype == torch.float16 else 1e-10


def compiled(function):
    """Compiled when it is first called."""
    return torch.compile(function, dynamic=False)

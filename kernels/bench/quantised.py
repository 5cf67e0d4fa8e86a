"""Matrices in the block formats of kernels/docs/kernels.md: random ones, and their values."""
import torch


def words(values, dtype):
    """The bytes of a tensor, in its last dimension."""
    return values.to(dtype).contiguous().view(torch.uint8)


def scales(new, n):
    return (new.positive(n, 1) * 0.02).half()


def q4_0(new, m, k):
    n = m * k // 32
    return {"d": scales(new, n), "w": new.bytes(n, 16)}


def plain_q4_0(t):
    q = torch.cat((t["w"] & 15, t["w"] >> 4), 1).float() - 8
    return (q * t["d"].float()).view(-1, t["x"].shape[0])


def q8_0(new, m, k):
    n = m * k // 32
    return {"w": torch.cat((words(scales(new, n), torch.float16), new.bytes(n, 32)), 1)}


def plain_q8_0(t):
    d = t["w"][:, :2].contiguous().view(torch.float16).float()
    return (t["w"][:, 2:].contiguous().view(torch.int8).float() * d).view(-1, t["x"].shape[0])


def q5_0(new, m, k):
    n = m * k // 32
    return torch.cat((words(scales(new, n), torch.float16), new.bytes(n, 20)), 1).view(m, -1)


def plain_q5_0(w):
    rows = w.shape[0]
    w = w.reshape(-1, 22)
    high = (w[:, 2:6, None].int() >> torch.arange(8, device=w.device) & 1).view(-1, 32)
    q = (torch.cat((w[:, 6:] & 15, w[:, 6:] >> 4), 1) | high << 4) - 16
    return (q.float() * w[:, :2].contiguous().view(torch.float16).float()).view(rows, -1)


def q8f(new, m, k):
    n = m * k // 32
    return {"w": torch.cat((words(scales(new, n), torch.float32), new.bytes(n, 32)), 1)}


def plain_q8f(t):
    d = t["w"][:, :4].contiguous().view(torch.float32)
    return (t["w"][:, 4:].contiguous().view(torch.int8).float() * d).view(-1, t["x"].shape[0])


def q4k(new, m, k, n_bytes=144):
    n = m * k // 256
    return torch.cat((words(scales(new, n), torch.float16), words(scales(new, n), torch.float16), new.bytes(n, n_bytes - 4)), 1).view(m, -1)


def q5k(new, m, k):
    return q4k(new, m, k, 176)


def q6k(new, m, k):
    n = m * k // 256
    return torch.cat((new.bytes(n, 208), words(scales(new, n), torch.float16)), 1).view(m, -1)


def plain_q4k(w, n_bytes=144):
    rows = w.shape[0]
    w = w.reshape(-1, n_bytes)
    d, low = (w[:, i:i + 2].contiguous().view(torch.float16).float() for i in (0, 2))
    s, q = w[:, 4:16].int(), w[:, -128:].int().view(-1, 4, 32)
    scale = torch.cat((s[:, :4] & 63, (s[:, 8:] & 15) | ((s[:, :4] >> 6) << 4)), 1)
    least = torch.cat((s[:, 4:8] & 63, (s[:, 8:] >> 4) | ((s[:, 4:8] >> 6) << 4)), 1)
    values = torch.stack((q & 15, q >> 4), 2).view(-1, 8, 32)
    if n_bytes == 176:
        values = values | (w[:, None, 16:48].int() >> torch.arange(8, device=w.device)[:, None] & 1) << 4
    return (values.float() * (d * scale)[..., None] - (low * least)[..., None]).view(rows, -1)


def plain_q5k(w):
    return plain_q4k(w, 176)


def plain_q6k(w):
    rows = w.shape[0]
    w = w.reshape(-1, 210)
    low, high = w[:, :128].int().view(-1, 2, 2, 32), w[:, 128:192].int().view(-1, 2, 1, 32)
    q = torch.cat((low & 15, low >> 4), 2) | (high >> 2 * torch.arange(4, device=w.device)[:, None] & 3) << 4
    scale = w[:, 192:208].contiguous().view(torch.int8).float() * w[:, 208:].contiguous().view(torch.float16).float()
    return ((q.view(-1, 16, 16) - 32).float() * scale[..., None]).view(rows, -1)

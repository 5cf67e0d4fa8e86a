"""Tensors are sent in both directions between two processes by torch.multiprocessing: their content, writes that come
back, and leftovers.

Small tensors share blocks of PyTorch's cache, large ones have their own. With a second device, its tensors are sent
too. (Without its cache PyTorch shares no tensors.)
"""
import sys

try:
    import torch
    import torch.multiprocessing as processes
except ImportError:
    print("no torch", file=sys.stderr)
    sys.exit(77)

SIZES = (1, 100, 1000, 25_000, 262_144, 1_000_000, 16_000_000)
N_ROUNDS = 5


def answer(inbox, outbox):
    """Adds 1 to each tensor that arrives, and sends a new tensor of the same size back."""
    while True:
        tensor = inbox.get()
        if tensor is None:
            return
        checksum = tensor.double().sum().item()
        tensor += 1
        torch.cuda.synchronize(tensor.device)
        own = torch.full_like(tensor, 7)
        outbox.put((checksum, own))
        inbox.get()  # until then `own` lives
        del own, tensor


def main():
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 77
    processes.set_start_method("spawn")
    inbox, outbox = processes.Queue(), processes.Queue()
    child = processes.Process(target=answer, args=(inbox, outbox))
    child.start()
    for device in range(min(2, torch.cuda.device_count())):
        for number in range(N_ROUNDS):
            for size in SIZES:
                mine = torch.arange(size, device=f"cuda:{device}", dtype=torch.float32) % 97
                expected = mine.double().sum().item()
                inbox.put(mine)
                seen, theirs = outbox.get()
                returned = mine.double().sum().item()
                sevens = bool((theirs == 7).all().item())
                inbox.put("done")
                del theirs
                if number == 0 or seen != expected or returned != expected + size or not sevens:
                    print(f"device {device}, {size} floats: arrived {seen == expected}, came back {returned == expected + size}, "
                          f"theirs {sevens}", flush=True)
    inbox.put(None)
    child.join()
    print("the child ended with", child.exitcode)
    return 0


if __name__ == "__main__":
    sys.exit(main())

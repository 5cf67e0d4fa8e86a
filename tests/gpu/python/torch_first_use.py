"""Kernels of PyTorch and cuSPARSE are loaded while the device may be full: each of three threads starts one child at a
time, which makes a context and multiplies sparse matrices in two threads.

    torch_first_use.py LINES SECONDS

One line of JSON per child: how often memory was out, other errors, and whether the sums are right. A call that is out
of memory is repeated, as in a program that frees something.
"""
import functools
import json
import os
import signal
import sys
import threading
import time

import torch  # makes no CUDA call yet, because the children make their contexts

WORKERS, CHILD_S, PATIENCE_S = 3, 25, 8
N, N_PRODUCTS, N_TRIES = 1024, 12, 300


def is_memory(error):
    return "out of memory" in str(error) or "ALLOC_FAILED" in str(error)


def patiently(make, until):
    """Loads everything that must exist before the test begins."""
    while True:
        try:
            return make()
        except RuntimeError as error:
            if not is_memory(error) or time.monotonic() > until:
                raise
            time.sleep(0.02)


def make_sparse():
    places = torch.arange(N, device="cuda")
    return torch.sparse_coo_tensor(torch.cartesian_prod(places, places).t(), torch.ones(N * N, device="cuda"))


def multiply(weight, result, errors):
    """The product divided by N; None after an error."""
    product = None
    for _ in range(N_TRIES):
        try:
            product = weight.mm(result) if product is None else product
            return product.div_(float(N))
        except RuntimeError as error:
            errors.append(str(error).splitlines()[0])
            if not is_memory(error):
                return None
            time.sleep(0.01)
    return None


def work(weight, results, number, barrier, errors):
    try:
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        barrier.wait()
        with torch.cuda.stream(stream):
            for _ in range(N_PRODUCTS):
                product = multiply(weight, results[number], errors)
                if product is None:
                    return
                results[number] = product
        torch.cuda.synchronize()
    except threading.BrokenBarrierError:
        pass  # the other thread has reported why
    except Exception as error:
        errors.append(str(error).splitlines()[0])
        barrier.abort()


def child(is_warm):
    """is_warm: make one product before the threads start, so that all code is loaded."""
    errors, sums = [], None
    try:
        until = time.monotonic() + PATIENCE_S
        patiently(lambda: torch.ones(8, device="cuda").sum().item(), until)
        weight = patiently(make_sparse, until)
        results = patiently(lambda: [torch.ones((N, N), device="cuda") for _ in range(2)], until)
        if is_warm:
            patiently(lambda: weight.mm(results[0]).sum().item(), until)
        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=work, args=(weight, results, number, barrier, errors)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sums = [patiently(functools.partial(lambda result: result.sum().item(), result), time.monotonic() + PATIENCE_S) for result in results]
    except Exception as error:
        errors.append(str(error).splitlines()[0])
    others = [error for error in errors if not is_memory(error)]
    return {"is_warm": is_warm, "n_out_of_memory": len(errors) - len(others), "errors": others[:4],
            "is_right": None if errors and sums is None else sums == [N * N] * 2}


def run_child(lines, fork_lock, is_warm):
    with fork_lock:
        pid = os.fork()
    if not pid:
        print(json.dumps(child(is_warm)), file=lines, flush=True)
        os._exit(0)
    end = time.monotonic() + CHILD_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(0.05)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            print(json.dumps({"is_warm": is_warm, "n_out_of_memory": 0, "errors": ["no end in time"], "is_right": None}), file=lines, flush=True)
            return


def main():
    lines, end, fork_lock = open(sys.argv[1], "a"), time.monotonic() + float(sys.argv[2]), threading.Lock()

    def run_children(number):
        n = number
        while time.monotonic() < end:
            n += 1
            run_child(lines, fork_lock, is_warm=n % 4 == 0)

    threads = [threading.Thread(target=run_children, args=(number,)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()

"""JAX: jitted descent steps on small whole numbers, so that sums are exact in any order, and sorts.

The runner sets XLA_PYTHON_CLIENT_ALLOCATOR=platform, so that buffers are driver allocations.
"""
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError:
    print("no jax", file=sys.stderr)
    sys.exit(77)
if not any(device.platform == "gpu" for device in jax.devices()):
    print("jax finds no GPU", file=sys.stderr)
    sys.exit(77)
jax.config.update("jax_default_matmul_precision", "highest")


def loss_of(weights, x, y):
    return jnp.sum((jax.nn.relu(x @ weights[0]) @ weights[1] - y) ** 2)


@jax.jit
def step(weights, x, y):
    loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
    return loss, [jnp.clip(w - jnp.sign(slope), -2, 2) for w, slope in zip(weights, slopes)]


random = numpy.random.default_rng(5)


def whole_numbers(*shape):
    return jnp.asarray(random.integers(-1, 2, shape), dtype=jnp.float32)


weights = [whole_numbers(16, 32), whole_numbers(32, 4)]
x, y = whole_numbers(64, 16), whole_numbers(64, 4)
for i in range(20):
    loss, weights = step(weights, x, y)
    print(f"step {i:2d} loss {float(loss).hex()}")
for n in (1000, 100_000, 3_000_000):
    values = jnp.asarray(random.integers(-1000, 1000, n), dtype=jnp.int32)
    assert int(values.sum()) == int(numpy.asarray(values).sum())
    assert (numpy.asarray(jnp.sort(values)) == numpy.sort(numpy.asarray(values))).all()
    print(f"{n} sum {int(values.sum())}")

"""Work captured once and launched again: a kernel that counts its launches.

    python3 graph.py [kernels.ptx]

It prints:

    captured: 2 nodes, 1 of them a kernel
    three launches: [100, 101, 102, 0]
    after an update: [7, 7, 7, 7]
"""
import array
import pathlib
import sys

import cushim

path = sys.argv[1] if sys.argv[1:] else pathlib.Path(__file__).parents[1] / "kernels.ptx"
advance = cushim.Module.from_file(path).get_function("advance")  # log[*counter] = 100 + *counter; *counter += 1
stream = cushim.Stream()
counter, log, other = cushim.DeviceMemory(4), cushim.DeviceMemory(16), cushim.DeviceMemory(16)
for block in counter, log, other:
    block.fill(0)
cushim.synchronize()

with cushim.Capture(stream) as captured:
    advance(counter, log, stream=stream)
    other.fill(1, width=4, stream=stream)
info = captured.graph.info()
print(f"captured: {info.nodes} nodes, {info.kernels} of them a kernel")

captured.graph.keep(counter, log, other)  # the graph uses them as long as it lives
executable = captured.graph.instantiate()
for i in range(3):
    executable.launch(stream)
stream.synchronize()
print("three launches:", array.array("I", log.read()).tolist())

again = cushim.Graph.capture(lambda stream: (advance(counter, log, stream=stream), other.fill(7, width=4, stream=stream)), stream)
executable.update(again)  # the same shape, other parameters
executable.launch(stream)
stream.synchronize()
print("after an update:", array.array("I", other.read()).tolist())

"""Devices, contexts, streams and events.

    python3 streams.py

It prints:

    at least one device, and the first has memory: True
    current inside: True
    events measured time: True
    after the block: None
"""
import cushim

device = cushim.Device(0)
print("at least one device, and the first has memory:", cushim.Device.count() >= 1 and device.total_memory() > 0)

with device.make_context() as context:  # made and pushed; popped and ended below
    print("current inside:", cushim.Context.current() is context)
    stream, start, end = cushim.Stream(), cushim.Event(), cushim.Event()
    block = cushim.DeviceMemory(16 << 20)
    start.record(stream)
    block.fill(1, stream=stream)  # queued, as all that names a stream
    end.record(stream)

    other = cushim.Stream()
    other.wait_for_event(end)  # the device waits, the host does not
    block.fill(2, stream=other)
    other.synchronize()
    print("events measured time:", start.time_till(end) > 0)  # milliseconds

print("after the block:", cushim.Context.current())

"""The same memory for PyCUDA: GPUArray takes it as its gpudata."""
import pycuda.driver

import vkgdr


class Memory(pycuda.driver.PointerHolderBase, vkgdr.RawMemory):
    """vkgdr.RawMemory that is freed when Python drops it, and keeps PyCUDA's current context alive."""

    def __init__(self, owner: vkgdr.Vkgdr, size: int, flags: int = 0) -> None:
        self._context = pycuda.driver.Context.get_current()
        if self._context is None:
            raise vkgdr.VkgdrError("no CUDA context is current")
        vkgdr.RawMemory.__init__(self, owner, size, flags)
        pycuda.driver.PointerHolderBase.__init__(self)

    def get_pointer(self) -> int:
        """What PyCUDA asks for."""
        return self.device_ptr

    def free(self) -> None:
        """Free it; again is nothing."""
        super().free()
        self._context = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.free()

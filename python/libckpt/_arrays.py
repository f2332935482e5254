# SPDX-License-Identifier: Apache-2.0
"""Where the memory of an array lies, by the interface that its library offers.

`__cuda_array_interface__` is described in numba's documentation, `__array_interface__` in NumPy's, DLPack in
_dlpack.py. PyTorch, pyopencl and the buffer protocol have methods of their own. None of them is imported here.
"""
from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from ._dlpack import DEVICE_TYPES, read_dlpack


class NotExcludable(ValueError):
    """This memory cannot be excluded; the text says why."""


@dataclass(frozen=True)
class Extent:
    """Memory of an object. `owner` keeps it alive."""

    address: int
    nbytes: int
    on_device: bool
    owner: object


def _contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], item: int, unit: int = 1) -> bool:
    """Whether the elements fill one range, in C's or Fortran's order. Strides count `unit` bytes."""
    if strides is None or math.prod(shape) <= 1:
        return True

    def packed(dimensions: Sequence[tuple[int, int]]) -> bool:
        expected = item
        for length, stride in dimensions:
            if length > 1 and stride * unit != expected:
                return False
            expected *= length
        return True

    pairs = list(zip(shape, strides))
    return packed(pairs[::-1]) or packed(pairs)


def _of_interface(interface: Mapping[str, Any], owner: object, on_device: bool) -> Extent:
    shape, item = tuple(interface["shape"]), int(str(interface["typestr"])[2:])
    if not _contiguous(shape, interface.get("strides"), item):
        raise NotExcludable("the array has gaps, which belong to another one: exclude the whole")
    address, readonly = interface["data"]
    if readonly and not on_device:
        raise NotExcludable("the array is read-only: after a checkpoint its contents would be undefined")
    return Extent(int(address), math.prod(shape) * item, on_device, owner)


def _of_torch(tensor: Any) -> Extent:
    kind = str(tensor.device.type)
    if kind not in ("cpu", "cuda"):
        raise NotExcludable(f"the tensor is on a device of the kind {kind!r}; ckpt knows cpu and cuda")
    if not tensor.is_contiguous():
        raise NotExcludable("the tensor has gaps, which belong to another one: exclude the whole")
    return Extent(int(tensor.data_ptr()), int(tensor.numel()) * int(tensor.element_size()), kind == "cuda", tensor)


def _of_opencl(memory: Any, owner: object) -> Extent:
    """A cl_mem. A sub-buffer's exclusion would be that of the whole buffer."""
    cl = sys.modules["pyopencl"]
    if not isinstance(memory, cl.MemoryObject):
        raise NotExcludable("the memory belongs to a pool of pyopencl, which gives it to other arrays, or is SVM")
    if memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) is not None:
        raise NotExcludable("this is a part of another buffer: exclude that one")
    return Extent(int(memory.int_ptr), 0, True, owner)


def _of_opencl_array(array: Any) -> Extent:
    extent = _of_opencl(array.base_data, array)
    if int(array.offset) != 0 or int(array.nbytes) < int(array.base_data.size):
        raise NotExcludable("the array is a part of its buffer: exclude that one (its base_data)")
    return extent


def _of_dlpack(array: Any) -> Extent:
    found = read_dlpack(array)
    kind = DEVICE_TYPES.get(found.device_type)
    if kind is None:
        raise NotExcludable(f"the array is on a device of DLPack's kind {found.device_type}; ckpt knows CPU and CUDA")
    if not _contiguous(found.shape, found.strides, found.item_bytes, found.item_bytes):
        raise NotExcludable("the array has gaps, which belong to another one: exclude the whole")
    return Extent(found.address, math.prod(found.shape) * found.item_bytes, kind == "cuda", (array, found.capsule))


def _of_buffer(memory: Any) -> Extent:
    view = memoryview(memory)
    if view.readonly:
        raise NotExcludable("the memory is read-only: after a checkpoint its contents would be undefined")
    if not view.contiguous:
        raise NotExcludable("the memory has gaps, which belong to another object: exclude the whole")
    start = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B") if view.nbytes else view)
    return Extent(ctypes.addressof(start), view.nbytes, False, (memory, start))


def extent_of(memory: Any) -> Extent:
    """The memory of an array, tensor or buffer. Raises NotExcludable."""
    module = type(memory).__module__
    if module.partition(".")[0] == "torch" and hasattr(memory, "data_ptr"):
        return _of_torch(memory)
    if module.startswith("pyopencl"):
        return _of_opencl_array(memory) if hasattr(memory, "base_data") else _of_opencl(memory, memory)
    for name, on_device in (("__cuda_array_interface__", True), ("__array_interface__", False)):
        interface = getattr(memory, name, None)
        if interface is not None:
            return _of_interface(interface, memory, on_device)
    if hasattr(memory, "__dlpack__"):
        return _of_dlpack(memory)
    try:
        return _of_buffer(memory)
    except TypeError:
        raise NotExcludable(
            f"{type(memory).__name__} says nowhere where its memory is: pass an address, and for host memory nbytes"
        ) from None

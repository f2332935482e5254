# SPDX-License-Identifier: Apache-2.0
"""Memory whose contents an image need not hold."""
from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Any, Optional, Union

from ._arrays import Extent, NotExcludable, extent_of
from ._errors import Error, ErrorCode
from ._library import call, in_session

# Allocators of frameworks round sizes up to this, so no other array lies in what is left of an allocation.
_ROUNDED_TO = 512


class Exclusion:
    """Memory that is excluded. include(), or the end of a ``with`` block, takes it back. Until then the array is
    kept alive: freed memory serves other purposes, and its new contents would be lost."""

    def __init__(self, address: int, nbytes: int, owner: object) -> None:
        self._address, self._nbytes, self._owner = address, nbytes, owner

    def _start(self) -> None:
        call("ckpt_exclude", self._address, self._nbytes)
        _excluded.add(self)

    def include(self) -> None:
        """Images hold the contents again. Later calls do nothing."""
        if self in _excluded:
            call("ckpt_include", self._address, self._nbytes)
            _excluded.discard(self)

    def __enter__(self) -> "Exclusion":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.include()


_excluded: set[Exclusion] = set()
os.register_at_fork(after_in_child=_excluded.clear)  # the library forgets them, too


def _check_whole_allocation(extent: Extent) -> None:
    """CUDA memory is excluded by allocation. An array of PyTorch or CuPy is often a part of a larger one, which holds
    other arrays: to exclude it would lose those."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuMemGetAddressRange_v2
    except (OSError, AttributeError) as error:
        raise NotExcludable(f"CUDA's driver does not say where the array's allocation ends: {error}") from error
    if (code := ask(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(extent.address))) != 0:
        raise NotExcludable(f"CUDA's driver does not know the array's memory (error {code})")
    if base.value != extent.address or size.value >= extent.nbytes + _ROUNDED_TO:
        raise NotExcludable(
            f"the array has {extent.nbytes} of the {size.value} bytes of its allocation, and other arrays may have "
            "the rest: give it an allocation of its own (numba.cuda, or the framework without its memory pool)"
        )


def _extent(memory: Any, nbytes: Optional[int]) -> Extent:
    if isinstance(memory, int):
        return Extent(memory, nbytes or 0, not nbytes, None)
    if nbytes is not None:
        raise ValueError("nbytes is for an address; an array knows its size")
    extent = extent_of(memory)
    if extent.on_device and extent.nbytes:
        _check_whole_allocation(extent)
    return extent


def exclude(memory: Union[int, Any], nbytes: Optional[int] = None) -> Exclusion:
    """Excludes memory from images: an array of NumPy, PyTorch, CuPy, numba, JAX or pyopencl, any object with the
    buffer protocol or DLPack, or an address.

    Host memory: AFTER ANY CHECKPOINT, COMPLETE OR FAILED, ALSO IN THE PROGRAM THAT CONTINUES, THE CONTENTS ARE
    UNDEFINED: whole private pages read as zero, others keep their contents. Device memory: the object survives, and
    its contents are undefined in a restored copy, and for CUDA also in the program that continues.

    With an address, ``nbytes`` > 0 means host memory of that size, and without it the address is a handle of a device
    API: a cl_mem, or a pointer from cudaMalloc.

    Raises NotExcludable where that would lose other data, and where the memory is not described; Error with the code
    UNKNOWN if no device API knows the handle. Outside of a session nothing is excluded.
    """
    if not in_session():
        return Exclusion(0, 0, None)
    extent = _extent(memory, nbytes)
    if not extent.on_device and extent.nbytes == 0:
        return Exclusion(0, 0, None)
    if extent.address == 0:
        raise Error("the memory has no address", ErrorCode.INVALID)
    exclusion = Exclusion(extent.address, 0 if extent.on_device else extent.nbytes, extent.owner)
    exclusion._start()
    return exclusion

# SPDX-License-Identifier: Apache-2.0
"""The header of a DLPack capsule: dlpack.h of version 0.8 and 1.0 (https://dmlc.github.io/dlpack/latest/)."""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Optional

DEVICE_TYPES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
"""DLDeviceType: kDLCPU, kDLCUDA, kDLCUDAHost (pinned host memory), kDLCUDAManaged."""


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class DlpackArray:
    """What a capsule says. `capsule` keeps the memory alive."""

    address: int
    device_type: int
    shape: tuple[int, ...]
    strides: Optional[tuple[int, ...]]
    """Counted in elements; None: in C's order."""
    item_bytes: int
    capsule: object


_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def read_dlpack(array: Any) -> DlpackArray:
    """Reads the capsule of ``array.__dlpack__()`` without taking it over: its destructor frees it. Without an
    argument, `__dlpack__` makes a capsule of the form before version 1.0."""
    capsule = array.__dlpack__()
    tensor = _Tensor.from_address(_pointer_in(capsule, b"dltensor"))
    dimensions = range(tensor.ndim)
    return DlpackArray(
        address=(tensor.data or 0) + tensor.byte_offset,
        device_type=tensor.device_type,
        shape=tuple(tensor.shape[i] for i in dimensions),
        strides=tuple(tensor.strides[i] for i in dimensions) if tensor.strides else None,
        item_bytes=(tensor.bits * tensor.lanes + 7) // 8,
        capsule=capsule,
    )

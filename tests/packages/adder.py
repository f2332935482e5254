# SPDX-License-Identifier: Apache-2.0
"""Adds 1 to a number in device memory, ten times a second, and prints what the host has counted and what the device
has, until the file "stop" is in the current folder. Needs a driver and no toolkit."""
import ctypes
import os
import sys
import time

KERNEL = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 where) {
  .reg .b64 %at;
  .reg .b32 %value;
  ld.param.u64 %at, [where];
  ld.global.u32 %value, [%at];
  add.u32 %value, %value, 1;
  st.global.u32 [%at], %value;
  ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    if error := getattr(cuda, name)(*arguments):
        sys.exit(f"{name} returns {error}")


context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
address, number, counted = ctypes.c_uint64(), ctypes.c_uint32(), 0
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), KERNEL)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"add_one")
call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4))
call("cuMemcpyHtoD_v2", address, ctypes.byref(number), ctypes.c_size_t(4))
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))
while not os.path.exists("stop"):
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    call("cuMemcpyDtoH_v2", ctypes.byref(number), address, ctypes.c_size_t(4))
    counted += 1
    print(counted, number.value, flush=True)
    if number.value != counted:
        sys.exit("the device has another number than the host")
    time.sleep(0.1)

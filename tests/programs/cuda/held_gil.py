# SPDX-License-Identifier: Apache-2.0
"""Calls the driver while it holds Python's global interpreter lock (ctypes.PyDLL), from two threads, until the file
"stop" is there."""
import ctypes
import os
import threading
import time

cuda = ctypes.PyDLL("libcuda.so.1")
context = ctypes.c_void_p()


def check(error, what):
    if error:
        print(what, "error", error, flush=True)
        os._exit(1)


def ask():
    check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    free, total, device = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_int()
    check(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
    check(cuda.cuCtxGetDevice(ctypes.byref(device)), "cuCtxGetDevice")
    p = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096)), "cuMemAlloc")
    check(cuda.cuMemFree_v2(p), "cuMemFree")


def ask_again():
    while not os.path.exists("stop"):
        ask()
        time.sleep(0.001)


check(cuda.cuInit(0), "cuInit")
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
ask()
print("ready", flush=True)
threads = [threading.Thread(target=ask_again) for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("right", flush=True)

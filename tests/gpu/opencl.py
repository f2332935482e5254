#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of OpenCL, by the machine's loader (libOpenCL.so.1) and without any Python package.

  opencl.py platform     is ckpt the only platform that the loader gives? Run it under ckpt-run.
  opencl.py STEPS        a few steps on the first GPU, or the first device. Prints "step N" after each step, waits there
                         while a file "pause" exists, and prints a checksum at the end.
"""
import ctypes
import os
import sys
import time
import zlib

SKIPPED = 77
CL_PLATFORM_NAME, CL_PLATFORM_ICD_SUFFIX_KHR = 0x0902, 0x0920
CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL = 4, 0xFFFFFFFF
CL_MEM_READ_WRITE, CL_TRUE = 1, 1
COUNT = 1 << 16
SOURCE = b"""__kernel void step_on(__global uint *data, uint round) {
  size_t i = get_global_id(0);
  data[i] = data[i] * 5 + (uint)i + round;
}"""


def skip(why):
    print(why)
    sys.exit(SKIPPED)


class OpenCl:
    def __init__(self):
        try:
            self.library = ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            skip("there is no libOpenCL.so.1 here")

    def check(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            sys.exit(f"{name}: OpenCL error {code}")

    def make(self, name, *arguments):
        function, code = getattr(self.library, name), ctypes.c_int()
        function.restype = ctypes.c_void_p
        handle = function(*arguments, ctypes.byref(code))
        if code.value != 0:
            sys.exit(f"{name}: OpenCL error {code.value}")
        return ctypes.c_void_p(handle)

    def platforms(self):
        count = ctypes.c_uint()
        if self.library.clGetPlatformIDs(0, None, ctypes.byref(count)) != 0 or count.value == 0:
            skip("there is no OpenCL platform")
        all_of_them = (ctypes.c_void_p * count.value)()
        self.check("clGetPlatformIDs", count, all_of_them, None)
        return [ctypes.c_void_p(p) for p in all_of_them]

    def text(self, platform, what):
        value = ctypes.create_string_buffer(256)
        self.library.clGetPlatformInfo(platform, what, ctypes.c_size_t(255), value, None)
        return value.value.decode(errors="replace")

    def device(self):
        found = ctypes.c_void_p()
        for kind in CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL:
            for platform in self.platforms():
                if self.library.clGetDeviceIDs(platform, ctypes.c_ulong(kind), 1, ctypes.byref(found), None) == 0:
                    return found
        skip("there is no OpenCL device")


def show_platforms(cl):
    names = [(cl.text(p, CL_PLATFORM_NAME), cl.text(p, CL_PLATFORM_ICD_SUFFIX_KHR)) for p in cl.platforms()]
    others = [name for name, suffix in names if suffix != "CKPT"]
    if others:
        sys.exit(f"the loader also gives {', '.join(others)}, which are not checkpointed")
    print(f"ckpt gives {', '.join(name for name, _ in names)}")


def work(cl, steps):
    device = cl.device()
    context = cl.make("clCreateContext", None, 1, ctypes.byref(device), None, None)
    queue = cl.make("clCreateCommandQueue", context, device, ctypes.c_ulong(0))
    program = cl.make("clCreateProgramWithSource", context, 1, ctypes.byref(ctypes.c_char_p(SOURCE)), None)
    cl.check("clBuildProgram", program, 0, None, None, None, None)
    kernel = cl.make("clCreateKernel", program, b"step_on")
    host = (ctypes.c_uint * COUNT)(*range(COUNT))
    size = ctypes.c_size_t(ctypes.sizeof(host))
    data = cl.make("clCreateBuffer", context, ctypes.c_ulong(CL_MEM_READ_WRITE), size, None)
    cl.check("clEnqueueWriteBuffer", queue, data, CL_TRUE, ctypes.c_size_t(0), size, host, 0, None, None)
    cl.check("clSetKernelArg", kernel, 0, ctypes.c_size_t(8), ctypes.byref(data))
    for i in range(steps):
        cl.check("clSetKernelArg", kernel, 1, ctypes.c_size_t(4), ctypes.byref(ctypes.c_uint(i)))
        cl.check("clEnqueueNDRangeKernel", queue, kernel, 1, None, ctypes.byref(ctypes.c_size_t(COUNT)), None, 0, None, None)
        cl.check("clFinish", queue)
        print(f"step {i + 1}", flush=True)
        while os.path.exists("pause"):
            time.sleep(0.02)
    cl.check("clEnqueueReadBuffer", queue, data, CL_TRUE, ctypes.c_size_t(0), size, host, 0, None, None)
    print(f"checksum {zlib.crc32(host):08x}", flush=True)


if sys.argv[1] == "platform":
    show_platforms(OpenCl())
else:
    work(OpenCl(), int(sys.argv[1]))

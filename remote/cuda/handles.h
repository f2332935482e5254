// SPDX-License-Identifier: Apache-2.0
//
// The numbers that stand for the driver's objects. A number is what the program has as its handle:
//
//     0x6b  kind (8 bits)  serial (48 bits)
//
// It is no valid address, so a program that follows it faults. The client chooses the number of an
// object that a call makes, and uses none twice: so the object can be made again under its number
// by another server, on another device.
#pragma once

// As in libckpt-cuda: each form of an entry has its own symbol.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>
#include <cudaTypedefs.h>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

enum class Kind : u8 {
  None,
  Context,
  Module,
  Library,
  Function,
  Kernel,
  Stream,
  Event,
  Pool,
  Array,
  Memory,  // physical memory, CUmemGenericAllocationHandle
  Mipmap,  // a mipmapped array; its levels are arrays
};
inline constexpr u8 kKinds = 12;

template <class T>
inline constexpr Kind kKindOf = Kind::None;
template <>
inline constexpr Kind kKindOf<CUcontext> = Kind::Context;
template <>
inline constexpr Kind kKindOf<CUmodule> = Kind::Module;
template <>
inline constexpr Kind kKindOf<CUlibrary> = Kind::Library;
template <>
inline constexpr Kind kKindOf<CUfunction> = Kind::Function;
template <>
inline constexpr Kind kKindOf<CUkernel> = Kind::Kernel;
template <>
inline constexpr Kind kKindOf<CUstream> = Kind::Stream;
template <>
inline constexpr Kind kKindOf<CUevent> = Kind::Event;
template <>
inline constexpr Kind kKindOf<CUmemoryPool> = Kind::Pool;
template <>
inline constexpr Kind kKindOf<CUarray> = Kind::Array;
template <>
inline constexpr Kind kKindOf<CUmipmappedArray> = Kind::Mipmap;

inline constexpr u64 kNumberTag = 0x6bull << 56;

constexpr u64 make_number(Kind kind, u64 serial) {
  return kNumberTag | static_cast<u64>(kind) << 48 | serial;
}
constexpr Kind kind_of(u64 number) {
  u8 kind = number >> 48 & 0xff;
  return number >> 56 == 0x6b && kind < kKinds ? static_cast<Kind>(kind) : Kind::None;
}
// A CUkernel may be passed as a CUfunction (cuLaunchKernel's documentation).
constexpr bool fits(Kind wanted, u64 number) {
  Kind kind = kind_of(number);
  return kind == wanted || (wanted == Kind::Function && kind == Kind::Kernel);
}

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, and the default stream, are no objects.
inline constexpr u64 kSpecialStreams = 2;

}  // namespace ckpt::remote::cuda

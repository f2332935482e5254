// SPDX-License-Identifier: Apache-2.0
//
// The CUDA fat binary as nvcc 13.0 writes it. NVIDIA does not document containers and entries:
// their layout was derived from nvcc's output. The wrapper and the names of the host's sections are
// declared in the toolkit's fatbinary_section.h, the array of a linked wrapper in its
// crt/link.stub.
//
//   wrapper    magic, version, pointer to a container, pointer. In version 2 the second pointer
//              leads to an array of pointers to the containers of all translation units, which ends
//              with a null pointer.
//   container  a header of 16 bytes, then entries up to the container's end
//   entry      a header with its own length, then the payload, padded to 8 bytes
#pragma once

#include "common/base/bytes.h"

namespace ckpt::fatbin {

// Exists only in a process: `data` and `units` are addresses there.
struct WrapperRecord {
  u32 magic;
  u32 version;
  const void *data;
  const void *units;
};
static_assert(sizeof(WrapperRecord) == 24);

constexpr u32 kWrapperMagic = 0x466243b1;
constexpr u32 kLinkedWrapper = 2;  // version: made by the device linker (-rdc=true)

struct ContainerRecord {
  u32 magic;
  u16 version;
  u16 header_bytes;
  u64 bytes;  // behind the header
};
static_assert(sizeof(ContainerRecord) == 16);

constexpr u32 kContainerMagic = 0xba55ed50;
constexpr u16 kContainerVersion = 1;

struct EntryRecord {
  u16 kind;
  u16 version;
  u32 header_bytes;
  u64 padded_bytes;      // of the payload, up to the next entry
  u32 compressed_bytes;  // 0: the payload is not compressed
  u32 options_at;        // offset of an OptionsRecord from the entry's start; 0: no options
  u16 code_minor;        // PTX: version of the language; ELF: version of the ABI
  u16 code_major;
  u32 arch;     // 90 is sm_90
  u32 name_at;  // offset of the source file's name, written for -G and -lineinfo; 0: no name
  u32 name_bytes;
  u64 flags;
  u64 identity;
  u64 raw_bytes;  // decompressed; 0 if the payload is not compressed
};
static_assert(sizeof(EntryRecord) == 64);

// Options for the driver's compiler, such as "--compile-only  -maxrregcount=32 ".
struct OptionsRecord {
  u32 text_at;  // offset from the entry's start
  u32 text_bytes;
};

constexpr u64 kFlagDebug = 0x2;
constexpr u64 kFlagLz4 = 0x2000;
constexpr u64 kFlagZstd = 0x8000;
constexpr u64 kFlagArchSpecific = 0x100000;    // sm_90a
constexpr u64 kFlagFamilySpecific = 0x200000;  // sm_100f

// Sections of an ELF file for the host.
constexpr const char *kLoadedSection = ".nv_fatbin";     // containers that the driver loads
constexpr const char *kUnitsSection = "__nv_relfatbin";  // translation units before linking
constexpr const char *kWrapperSection = ".nvFatBinSegment";

// Limits for untrusted files. The largest seen: libcufft.so.12 has 23984 entries, libnccl.so.2 one
// entry of 134 MB.
constexpr size_t kMaxEntries = 1u << 20;           // of a file
constexpr size_t kMaxHeaderTextBytes = 64u << 20;  // names and options of all entries
constexpr size_t kMaxUnits = 1u << 16;             // of a linked wrapper
constexpr u64 kMaxPayloadBytes = 256u << 20;       // of an entry, decompressed
constexpr u64 kMaxSections = 1u << 19;             // of an ELF file
constexpr u64 kMaxTableBytes = 256u << 20;         // of a section that is read as a whole

}  // namespace ckpt::fatbin

// SPDX-License-Identifier: Apache-2.0
//
// The CUDA fat binary as nvcc 13.0 writes it; docs/ARCHITECTURE.md says how it was found out. The
// wrapper and the names of the host's sections are declared in the toolkit's fatbinary_section.h,
// the array of a linked wrapper in its crt/link.stub.
//
//   wrapper    magic, version, pointer to a container, pointer (version 2: to the array of the
//              containers of all translation units, which ends with a null)
//   container  16 bytes, then entries to its end
//   entry      header of its own length, then the payload, padded to 8 bytes
#pragma once

#include "common/base/bytes.h"

namespace ckpt::fatbin {

// As it lies in the memory of a process: `data` and `units` are its addresses.
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
  u64 bytes;  // of what follows the header
};
static_assert(sizeof(ContainerRecord) == 16);

constexpr u32 kContainerMagic = 0xba55ed50;
constexpr u16 kContainerVersion = 1;

struct EntryRecord {
  u16 kind;
  u16 version;
  u32 header_bytes;
  u64 padded_bytes;      // of the payload, up to the next entry
  u32 compressed_bytes;  // 0: the payload is raw
  u32 options_at;        // 0, or where an OptionsRecord stands, from the entry's start
  u16 code_minor;        // PTX: of the language; ELF: its ABI
  u16 code_major;
  u32 arch;     // 90 is sm_90
  u32 name_at;  // the source file's name, with -G and -lineinfo; 0: none
  u32 name_bytes;
  u64 flags;
  u64 identity;
  u64 raw_bytes;  // once decompressed; 0 where the payload is raw
};
static_assert(sizeof(EntryRecord) == 64);

// What the driver's compiler is to be told: "--compile-only  -maxrregcount=32 ".
struct OptionsRecord {
  u32 text_at;  // from the entry's start
  u32 text_bytes;
};

constexpr u64 kFlagDebug = 0x2;
constexpr u64 kFlagLz4 = 0x2000;
constexpr u64 kFlagZstd = 0x8000;
constexpr u64 kFlagArchSpecific = 0x100000;    // sm_90a
constexpr u64 kFlagFamilySpecific = 0x200000;  // sm_100f

// Where a host's ELF file keeps them.
constexpr const char *kLoadedSection = ".nv_fatbin";     // what the driver loads
constexpr const char *kUnitsSection = "__nv_relfatbin";  // the translation units before linking
constexpr const char *kWrapperSection = ".nvFatBinSegment";

// Bounds. libcufft.so.12 has 23984 entries; libnccl.so.2 one of 134 MB.
constexpr size_t kMostEntries = 1u << 20;           // of a file
constexpr size_t kMostHeaderTextBytes = 64u << 20;  // names and options of all entries
constexpr size_t kMostUnits = 1u << 16;             // of a linked wrapper
constexpr u64 kMostPayloadBytes = 256u << 20;
constexpr u64 kMostSections = 1u << 19;      // of any ELF file
constexpr u64 kMostTableBytes = 256u << 20;  // of a host's symbol or string table

}  // namespace ckpt::fatbin

// SPDX-License-Identifier: Apache-2.0
//
// The container of a fat binary and the entries in it, each a program for one architecture. Only
// their headers are read here.
#pragma once

#include <string>
#include <vector>

#include "fatbin/format.h"
#include "fatbin/source.h"

namespace ckpt::fatbin {

enum class Kind : u16 { Ptx = 1, Elf = 2, LtoIr = 8 };  // others keep their number

enum class Compression : u8 { None, Lz4, Zstd, Unknown };

struct Entry {
  Kind kind{};
  Compression compression = Compression::None;
  u32 arch = 0;   // 90 is sm_90
  u64 flags = 0;  // kFlag…
  u64 at = 0;     // where the stored payload begins in the image's source
  u64 stored_bytes = 0;
  u64 bytes = 0;        // once decompressed, as the header says: may be a lie
  std::string name;     // of the source file; "" without -G and -lineinfo
  std::string options;  // for the compiler in the driver; "" mostly

  bool debug() const { return flags & kFlagDebug; }
  // "sm_90a"; for PTX and LTO-IR "compute_90a".
  std::string target() const;
  // PTX and LTO-IR that is one translation unit of several, by what the header says. Whether an
  // ELF entry is so stands in the ELF file (CodeFacts).
  bool is_unit() const;
};

// What the entries of a container are for.
enum class Role : u8 {
  Loaded,  // the driver loads one of them
  Unit,    // a translation unit of -rdc=true, as it was before linking
};

struct Container {
  u64 at = 0;
  u64 bytes = 0;  // header and entries
  Role role = Role::Loaded;
  std::vector<Entry> entries;
};

const char *name_of(Kind kind);                // "ptx", "elf", "lto-ir", "unknown"
const char *name_of(Compression compression);  // "raw", "lz4", "zstd", "unknown"

// How much may still be kept of one file's headers.
struct HeaderBudget {
  size_t entries = kMaxEntries;  // empty containers count, too
  size_t text_bytes = kMaxHeaderTextBytes;
};

// The container at `at`, of which at most `room` bytes belong to it. `left` counts down.
Result<Container> read_container(const Source &source, u64 at, u64 room, HeaderBudget &left);

// Containers one after the other, as in a section or a .fatbin file; zeros between them are
// padding.
Result<std::vector<Container>> read_containers(const Source &source, u64 at, u64 bytes,
                                               HeaderBudget &left);

}  // namespace ckpt::fatbin

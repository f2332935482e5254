// SPDX-License-Identifier: Apache-2.0
//
// The container of a fat binary and its entries. Each entry is device code for one architecture.
// Only headers are read here; payload.h reads the code.
#pragma once

#include <string>
#include <vector>

#include "fatbin/format.h"
#include "fatbin/source.h"

namespace ckpt::fatbin {

enum class Kind : u16 { Ptx = 1, Elf = 2, LtoIr = 8 };  // an unknown kind keeps its number

enum class Compression : u8 { None, Lz4, Zstd, Unknown };

struct Entry {
  Kind kind{};
  Compression compression = Compression::None;
  u32 arch = 0;       // 90 is sm_90
  u64 flags = 0;      // kFlag…
  u64 header_at = 0;  // offset of its header in the image's source
  u64 at = 0;         // and of the stored payload
  u64 stored_bytes = 0;
  u64 bytes = 0;        // decompressed, as the header claims; untrusted
  std::string name;     // of the source file; "" without -G and -lineinfo
  std::string options;  // for the driver's compiler; usually ""

  bool debug() const { return flags & kFlagDebug; }
  // "sm_90a"; for PTX and LTO-IR "compute_90a".
  std::string target() const;
  // Whether the header says that PTX or LTO-IR is one of several translation units. For an ELF
  // entry the cubin itself says so (CodeFacts::relocatable).
  bool is_unit() const;
};

// What the entries of a container are for.
enum class Role : u8 {
  Loaded,  // the driver loads one of them
  Unit,    // a translation unit of -rdc=true as it was before linking
};

struct Container {
  u64 at = 0;
  u64 bytes = 0;  // header and entries
  Role role = Role::Loaded;
  std::vector<Entry> entries;
};

bool has_ptx(const Container &container);

const char *name_of(Kind kind);                // "ptx", "elf", "lto-ir", "unknown"
const char *name_of(Compression compression);  // "raw", "lz4", "zstd", "unknown"

// What may still be kept of one file's headers; the readers below count it down.
struct HeaderBudget {
  size_t entries = kMaxEntries;  // an empty container counts as one
  size_t text_bytes = kMaxHeaderTextBytes;
};

// The container at `at`, which may have at most `room` bytes.
Result<Container> read_container(const Source &source, u64 at, u64 room, HeaderBudget &budget);

// All containers of [at, at + bytes), as in a section or a .fatbin file. Zeros between them are
// padding.
Result<std::vector<Container>> read_containers(const Source &source, u64 at, u64 bytes,
                                               HeaderBudget &budget);

}  // namespace ckpt::fatbin

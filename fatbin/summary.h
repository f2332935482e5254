// SPDX-License-Identifier: Apache-2.0
//
// What is in a whole image: all its entries' facts put together, and whether the program uses the
// device's heap.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "fatbin/facts.h"
#include "fatbin/image.h"

namespace ckpt::fatbin {

struct SummaryOptions {
  u64 max_payload_bytes = kMaxPayloadBytes;  // of an entry, once decompressed
  // Of all of them; 0: a hundred times what is stored, and at least 1 GiB. The toolkit's libraries
  // have up to 15 times.
  u64 max_total_bytes = 0;
  unsigned threads = 0;  // 0: one a core, at most four
  // Bytes read (stored, not decompressed) and to be read; from one thread at a time.
  std::function<void(u64 done, u64 total)> progress;
};

enum class HeapUse : u8 {
  No,
  Yes,
  Assumed,  // something could not be examined, so it must be taken for yes
};
const char *name_of(HeapUse use);  // "no", "yes", "assumed"

struct Heap {
  HeapUse use = HeapUse::No;
  std::string reason;
};

enum class Use : u8 { No, Yes, Unknown };
const char *name_of(Use use);  // "no", "yes", "unknown"

struct KernelSummary {
  Kernel kernel;                  // of the first entry that has it
  size_t first = 0;               // its number among those that count
  std::set<std::string> targets;  // "sm_90a", "compute_90"
  bool differs = false;           // another entry has other parameters under this name
};

struct VariableSummary {
  Variable variable;
  size_t first = 0;
  std::set<std::string> targets;
  bool differs = false;
};

// An entry that could not be examined.
struct Unexamined {
  size_t container = 0, entry = 0;  // indexes
  std::string reason;
};

struct Summary {
  Heap heap;
  bool prints = false;
  bool launches = false;  // dynamic parallelism
  Use textures = Use::No, surfaces = Use::No;
  std::map<std::string, KernelSummary> kernels;
  std::map<std::string, VariableSummary> variables;
  std::map<std::string, ReferenceKind> references;
  std::vector<Unexamined> unexamined;
  u64 payload_bytes = 0;  // of what was examined, once decompressed
};

// Decompresses and reads every entry that counts (see scopes_of()). Memory: for each thread one
// payload, decompressed and stored. What cannot be read is in `unexamined` and makes `heap`
// Assumed; only too many names to keep are an error.
Result<Summary> summarize(const Image &image, const SummaryOptions &options = {});

// What an entry is examined for.
enum class Scope : u8 {
  Nothing,       // the linked program stands beside it
  Instructions,  // only for what a cubin does not tell: textures and surfaces
  AllButHeap,    // for all but the heap: a cubin for the same target stands beside it
  All,
};
// For each container its entries', in order.
std::vector<std::vector<Scope>> scopes_of(const Image &image);

}  // namespace ckpt::fatbin

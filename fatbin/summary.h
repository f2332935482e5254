// SPDX-License-Identifier: Apache-2.0
//
// What a whole image contains: the facts of all its entries put together, and whether the program
// uses the device heap.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "fatbin/facts.h"
#include "fatbin/image.h"

namespace ckpt::fatbin {

struct SummaryOptions {
  u64 max_payload_bytes = kMaxPayloadBytes;  // of an entry, decompressed
  // Of all entries together, decompressed. 0: 100 times the stored bytes, and at least 1 GiB; the
  // toolkit's libraries expand up to 15 times.
  u64 max_total_bytes = 0;
  unsigned threads = 0;  // 0: one for each core, at most four
  // Called after each entry, by one thread at a time; in stored bytes.
  std::function<void(u64 done, u64 total)> progress;
};

enum class HeapUse : u8 {
  No,
  Yes,
  Assumed,  // some code could not be examined and might use it
};
const char *name_of(HeapUse use);  // "no", "yes", "assumed"

struct HeapVerdict {
  HeapUse use = HeapUse::No;
  std::string reason;
};

enum class Use : u8 { No, Yes, Unknown };
const char *name_of(Use use);  // "no", "yes", "unknown"

struct KernelSummary {
  Kernel kernel;                  // of the first entry that has it
  size_t first = 0;               // the number of that entry among the examined ones
  std::set<std::string> targets;  // "sm_90a", "compute_90"
  bool differs = false;           // another entry declares other parameters under this name
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
  HeapVerdict heap;
  bool prints = false;
  bool launches = false;  // dynamic parallelism
  Use textures = Use::No, surfaces = Use::No;
  std::map<std::string, KernelSummary> kernels;
  std::map<std::string, VariableSummary> variables;
  std::map<std::string, ReferenceKind> references;
  std::vector<Unexamined> unexamined;
  u64 payload_bytes = 0;  // of the examined entries, decompressed
};

// Decompresses and examines the entries that examination.h selects. Memory: one payload for each
// thread, stored and decompressed. An entry that cannot be read is listed in `unexamined`, which
// can make the verdict Assumed; only names beyond their limit are an error.
Result<Summary> summarize(const Image &image, const SummaryOptions &options = {});

}  // namespace ckpt::fatbin

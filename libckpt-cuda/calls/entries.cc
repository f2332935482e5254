// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/entries.h"

#include <cstdlib>
#include <cstring>

#include "cuda/jump.h"
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "slicing/settings.h"

namespace ckpt::cuda {

void *g_real[kEntries];

namespace {

// The target of an entry that the driver does not have, or of all where no driver was found.
CUresult not_found() { return CUDA_ERROR_NOT_FOUND; }

// Returns the address of our function; null: the entry is not in cuda.api. A function, because the
// address of another function, cast to void *, is no constant expression.
template <Id I>
inline constexpr void *(*kOurs)() = nullptr;

#define GATED(symbol, type)                            \
  template <>                                          \
  inline constexpr void *(*kOurs<Id::id_##symbol>)() = \
      [] { return reinterpret_cast<void *>(&Gated<Id::id_##symbol, type>::call); };
#define BLOCKING(symbol, type, reason)                                                        \
  constexpr Reason reason_##symbol{reason};                                                   \
  template <>                                                                                 \
  inline constexpr void *(*kOurs<Id::id_##symbol>)() = [] {                                   \
    return reinterpret_cast<void *>(&Blocking<Id::id_##symbol, reason_##symbol, type>::call); \
  };
#define HINT(symbol, type, n)                          \
  template <>                                          \
  inline constexpr void *(*kOurs<Id::id_##symbol>)() = \
      [] { return reinterpret_cast<void *>(&Hint<Id::id_##symbol, n, type>::call); };
#define OURS(symbol, type, how)                        \
  template <>                                          \
  inline constexpr void *(*kOurs<Id::id_##symbol>)() = \
      [] { return reinterpret_cast<void *>(&entry_##symbol); };
#define REFUSED(symbol, reason)                        \
  constexpr Reason reason_##symbol{reason};            \
  template <>                                          \
  inline constexpr void *(*kOurs<Id::id_##symbol>)() = \
      [] { return reinterpret_cast<void *>(&Refused<Id::id_##symbol, reason_##symbol>::call); };
#include "libckpt-cuda/cuda.api"
#undef GATED
#undef BLOCKING
#undef HINT
#undef OURS
#undef REFUSED

// The same for guest.api, which counts under --guest and --slice alone.
template <Id I>
inline constexpr void *(*kSliced)() = nullptr;

#define SLICED(symbol, type)                             \
  template <>                                            \
  inline constexpr void *(*kSliced<Id::id_##symbol>)() = \
      [] { return reinterpret_cast<void *>(&guest_##symbol); };
#include "libckpt-cuda/guest.api"
#undef SLICED

void *ours(void *(*address)(), void *(*sliced)()) {
  if (sliced != nullptr && std::getenv(slicing::kSlicesVariable) != nullptr) return sliced();
  return address == nullptr ? nullptr : address();
}

}  // namespace

// One jump for each entry (see entries.h). A target needs no synchronisation: the constructor
// writes it before the program can call.
#define CU_ENTRY(name, version, symbol, per_thread) CKPT_CUDA_JUMP(symbol)
#include "cuda/entries.api"
#undef CU_ENTRY

namespace {

void **const kTargets[] = {
#define CU_ENTRY(name, version, symbol, per_thread) &target_##symbol,
#include "cuda/entries.api"
#undef CU_ENTRY
};

template <Id I>
inline constexpr bool kStraight = false;

#define STRAIGHT(symbol, reason) \
  template <>                    \
  inline constexpr bool kStraight<Id::id_##symbol> = true;
#include "libckpt-cuda/straight.api"
#undef STRAIGHT

// A local static, because the constructor in driver.cc may run before those of this file.
const EntryInfo *infos() {
  static const EntryInfo kInfo[] = {
#define CU_ENTRY(name, version, symbol, per_thread)        \
  {#name,                                                  \
   version,                                                \
   #symbol,                                                \
   per_thread,                                             \
   ours(kOurs<Id::id_##symbol>, kSliced<Id::id_##symbol>), \
   kStraight<Id::id_##symbol>},
#include "cuda/entries.api"
#undef CU_ENTRY
  };
  return kInfo;
}

}  // namespace

const EntryInfo &entry_info(Id id) { return infos()[static_cast<size_t>(id)]; }

void *given_for(const EntryInfo &info, void *real) {
  if (info.ours != nullptr) return info.ours;
  return info.straight ? real : held_thunk(real);
}

void fill_targets(bool wrap) {
  for (size_t i = 0; i < kEntries; i++) {
    void *real = g_real[i];
    if (real == nullptr) real = reinterpret_cast<void *>(&not_found);
    *kTargets[i] = wrap && g_real[i] != nullptr ? given_for(infos()[i], real) : real;
  }
}

}  // namespace ckpt::cuda

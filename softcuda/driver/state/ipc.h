// SPDX-License-Identifier: Apache-2.0
//
// Memory and events that processes of one user share (cuIpc*).
//
// A handle has the number of what is shared; the broker has the file in memory behind it and passes
// it to whoever knows the number (broker/shares.h). What an exporting process frees is withdrawn,
// and so is all that it exports when it ends; processes that have opened it keep the memory.
#pragma once

#include <cuda.h>

#include <cstring>
#include <optional>
#include <string>

#include "softcuda/broker/shares.h"
#include "softcuda/driver/state/objects.h"

namespace ckpt::softcuda::driver {

// What this process shares or has opened, in words; no value: nothing. A checkpoint would end the
// sharing, so it is refused.
std::optional<std::string> shared_with_others();
std::optional<std::string> shared_memory();
std::optional<std::string> shared_events();

// Before an event that this process exports is destroyed.
void withdraw_event(const Event &e);

enum class HandleKind : u32 { Memory = 1, Event };

// The contents of a CUipcMemHandle or CUipcEventHandle; zeros follow.
struct HandleContents {
  char magic[8] = {'c', 'k', 'p', 't', 'i', 'p', 'c', '1'};
  HandleKind kind{};
  broker::ShareId id{};
};

template <class H>
H handle_of(HandleKind kind, const broker::ShareId &id) {
  HandleContents c;
  c.kind = kind;
  c.id = id;
  H h{};
  static_assert(sizeof c <= sizeof h.reserved);
  std::memcpy(h.reserved, &c, sizeof c);
  return h;
}

// No value: not a handle of this kind.
template <class H>
std::optional<broker::ShareId> id_in(const H &h, HandleKind kind) {
  HandleContents c, expected;
  std::memcpy(&c, h.reserved, sizeof c);
  if (std::memcmp(c.magic, expected.magic, sizeof c.magic) != 0 || c.kind != kind) return {};
  return c.id;
}

}  // namespace ckpt::softcuda::driver

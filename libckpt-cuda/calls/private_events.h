// SPDX-License-Identifier: Apache-2.0
//
// Uses of an event that other processes would not see: as a node of a graph, or for a whole
// context.
#pragma once

#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/events/interprocess_events.h"

namespace ckpt::cuda {

inline constexpr const char *kNotPrivate =
    "an event that processes share cannot be in a graph, or be recorded in a whole context: record "
    "it in a stream that is not being captured";

// An error, which was logged: other processes may use the event. Otherwise none will.
template <class EventOrNode>
CUresult make_private(Id id, EventOrNode event) {
  return interprocess_events().make_private(event) ? CUDA_SUCCESS : refuse(id, kNotPrivate);
}

}  // namespace ckpt::cuda

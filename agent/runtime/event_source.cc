// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/event_source.h"

namespace ckpt::agent {
namespace {

// Initialised at compile time, so before any static initializer of another file.
constinit MakeEventSource g_make = nullptr;

}  // namespace

bool register_event_source(MakeEventSource make) {
  g_make = make;
  return true;
}

std::unique_ptr<EventSource> make_event_source(Lifecycle &lifecycle) {
  return g_make ? g_make(lifecycle) : nullptr;
}

}  // namespace ckpt::agent

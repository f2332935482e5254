// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/graph_calls.h"

namespace ckpt::cuda::guest {
namespace {

GraphCalls found() {
  GraphCalls calls;
#define X(symbol, type) calls.symbol = reinterpret_cast<type>(real_entry(Id::id_##symbol));
  CKPT_CUDA_GRAPH_CALLS(X)
#undef X
  return calls;
}

}  // namespace

const GraphCalls &graph_calls() {
  static const GraphCalls kCalls = found();
  return kCalls;
}

bool has_graph_calls() {
  const GraphCalls &calls = graph_calls();
  bool all = true;
#define X(symbol, type) all = all && calls.symbol != nullptr;
  CKPT_CUDA_GRAPH_CALLS(X)
#undef X
  return all;
}

}  // namespace ckpt::cuda::guest

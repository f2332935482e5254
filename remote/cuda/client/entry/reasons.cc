// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/entry/reasons.h"

#include <string_view>

namespace ckpt::remote::cuda {
namespace {

struct Reason {
  std::string_view begin;  // of the entry's name
  const char *text;
};

// docs/REMOTE.md has this list, too.
constexpr Reason kReasons[] = {
    {"cuGraphConditional", "a graph is executed node by node, so nothing can decide on the device"},
    {"cuGraphAddBatchMemOp",
     "waits for and writes of single values are not carried to other nodes"},
    {"cuGraphBatchMemOp", "waits for and writes of single values are not carried to other nodes"},
    {"cuGraphExecBatchMemOp",
     "waits for and writes of single values are not carried to other nodes"},
    {"cuGraphAddExternalSemaphores", "semaphores cannot be shared with another API"},
    {"cuGraphExternalSemaphores", "semaphores cannot be shared with another API"},
    {"cuGraphExecExternalSemaphores", "semaphores cannot be shared with another API"},
    {"cuTexRef", "CUDA 12 has no texture references; texture objects work"},
    {"cuSurfRef", "CUDA 12 has no surface references; surface objects work"},
    {"cuArray", "sparse arrays and planes are not carried to other nodes"},
    {"cuMipmappedArray", "sparse arrays are not carried to other nodes"},
    {"cuMemPrefetch", "batches of them are not carried to other nodes"},
    {"cuIpc", "memory cannot be shared with another process"},
    {"cuMemExport", "memory cannot be shared with another process"},
    {"cuMemImport", "memory cannot be shared with another process"},
    {"cuMemMapArray", "sparse arrays are not carried to other nodes"},
    {"cuMemGetHandle", "memory cannot be shared with another process"},
    {"cuMulticast", "devices cannot reach each other's memory"},
    {"cuCheckpoint", "ckpt-dump makes checkpoints"},
    {"cuGraphics", "there is no graphics device there"},
};

}  // namespace

const char *reason_against(const char *symbol) {
  for (const Reason &r : kReasons)
    if (std::string_view(symbol).starts_with(r.begin)) return r.text;
  return "the function is not carried to other nodes yet";
}

}  // namespace ckpt::remote::cuda

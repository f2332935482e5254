// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any text as PTX, rewritten for slices. What is printed must be stable: its own outline
// has the same routines, and nothing of the grid is read any more by a kernel that was changed.
#include <cstdlib>

#include "slicing/outline.h"
#include "slicing/rewrite.h"

using namespace ckpt;
using namespace ckpt::slicing;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size > 64 << 10) return 0;
  std::string_view text(reinterpret_cast<const char *>(data), size);
  Result<Rewritten> r = rewrite(text);
  if (!r) return 0;
  Result<Outline> before = outline_of(text), after = outline_of(r->ptx);
  if (!before || !after || before->routines.size() != after->routines.size()) std::abort();
  for (size_t i = 0; i < after->routines.size(); ++i)
    if (before->routines[i].name != after->routines[i].name) std::abort();
  if (r->ptx.size() > size + (before->routines.size() + 1) * 2048 + size * 4) std::abort();
  return 0;
}

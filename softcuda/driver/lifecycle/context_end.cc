// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/lifecycle/context_end.h"

#include "softcuda/driver/arrays/array.h"
#include "softcuda/driver/code/code.h"

namespace ckpt::softcuda::driver {

void empty_context(Context *c) {
  c->synchronize();
  for (Module *m : std::set(c->modules)) unload_module(m);
  for (Stream *s : std::set(c->streams)) {
    process().streams.remove(s);
    s->queue->close();
  }
  c->streams.clear();
  c->legacy.queue->close();
  end_arrays(c);
  process().memory->release_all(c);
  c->inactive = true;
}

// The object is not deleted: threads may still have it on their stacks of contexts.
void destroy_context(Context *c) {
  if (process().contexts.remove(c)) empty_context(c);
}

}  // namespace ckpt::softcuda::driver

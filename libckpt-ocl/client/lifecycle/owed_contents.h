// SPDX-License-Identifier: Apache-2.0
//
// A save that leaves contents to the proxy: it copies them to a file from which the tool writes the
// image, while the program already runs on.
#pragma once

#include <vector>

#include "agent/participant/participant.h"
#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {

// The name of a memory object's region in an image.
std::string region_name(const Mem &m);

class OwedContents {
 public:
  // For as many of these roots as there is host memory for their copies. None if the save or the
  // proxy does not do so.
  static Result<OwedContents> offer(agent::Sink &sink, const std::vector<Mem *> &roots);
  // Leaves the contents of a root to the proxy. False: it is not one of them.
  Result<bool> take(Mem &m, agent::Sink &sink);
  // After the last take().
  Result<> begin();

 private:
  std::unordered_map<const Mem *, u64> places_;  // in the file
  UniqueFd tool_;                                // the end of a socket that is for the proxy
};

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
#include "fatbin/facts.h"

namespace ckpt::fatbin {

const char *name_of(Space space) {
  switch (space) {
    case Space::Global: return "global";
    case Space::Constant: return "constant";
    case Space::Managed: break;
  }
  return "managed";
}

const char *name_of(ReferenceKind kind) {
  switch (kind) {
    case ReferenceKind::Texture: return "texture";
    case ReferenceKind::Surface: return "surface";
    case ReferenceKind::Sampler: break;
  }
  return "sampler";
}

}  // namespace ckpt::fatbin

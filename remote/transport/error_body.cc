// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/error_body.h"

namespace ckpt::remote {

Bytes body_of(const Error &error) {
  Writer w;
  w.str(error.what).str(error.hint);
  return w.take();
}

Error read_error(Reader r) {
  Error e;
  e.what = r.str();
  e.hint = r.str();
  return e;
}

}  // namespace ckpt::remote

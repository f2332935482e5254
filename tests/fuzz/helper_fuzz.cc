// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: all that ckpt-helper reads from a caller. The first byte says what the others are:
// frames of a request, a core file of an image, /proc/PID/status, /proc/PID/limits.
#include "common/proc/status.h"
#include "helper/protocol.h"
#include "helper/resource_limits.h"
#include "helper/vetting.h"

namespace {

using namespace ckpt;
using namespace ckpt::helper;

// Each frame: u16 type, u8 descriptors, u16 size, body.
void as_request(ByteView bytes) {
  Request request;
  for (Reader in(bytes); !in.done();) {
    Message frame{in.get<u16>(), {}, {}};
    for (int n = in.get<u8>() % 9; n > 0; n--) frame.fds.emplace_back();
    ByteView body = in.raw(in.get<u16>());
    if (!in.ok()) return;
    frame.body.assign(body.begin(), body.end());
    Result<bool> complete = add_frame(request, std::move(frame));
    if (!complete || *complete) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size == 0) return 0;
  ByteView bytes = view(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0: as_request(bytes); break;
    case 1: (void)check_core_file(bytes); break;
    case 2: (void)proc::parse_status(text(bytes)); break;
    default: (void)proc::parse_limits(text(bytes));
  }
  return 0;
}

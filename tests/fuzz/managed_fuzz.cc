// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: feeds any bytes to ckptd as if a peer had sent them: they are cut into frames and
// decoded, and the messages are given to the policy, as in the daemon. Each decoded message must
// encode to the same bytes. The bytes are also decoded as messages to a program.
#include <cstdlib>

#include "manager/daemon/io/peer.h"
#include "manager/policy/policy.h"

namespace {

using namespace ckpt;
using namespace ckpt::manager;

void same_again(u16 type, const managed::ToManager &message, ByteView body) {
  Writer again = managed::encode(message);
  if (managed::number_of(message) != type || text(again.bytes()) != text(body)) std::abort();
}

void as_a_program(u16 type, ByteView body) {
  Result<managed::ToProgram> message = managed::decode_to_program(type, body);
  if (message && text(managed::encode(*message).bytes()) != text(body)) std::abort();
}

// Peers may send times and sizes that would overflow.
void run(ByteView bytes) {
  Settings settings;
  settings.time_slice = Time(3);
  settings.credit_bytes = 10;
  settings.rebalance_after = Time(5);
  settings.placement = static_cast<PlacementMode>(bytes.size() % 3);
  Policy policy(settings, {{.uuid = "A", .total = 1000, .free = 1000},
                           {.uuid = "B", .total = 50},
                           {.uuid = "C", .total = 99, .apis = managed::kCuda}});
  Frames frames;
  frames.add(bytes);
  Time now{0};
  for (ProgramId from = 1;; from = 1 + from % 3) {
    Result<std::optional<Frames::Frame>> frame = frames.next();
    if (!frame || !*frame) return;
    as_a_program((*frame)->type, (*frame)->body);
    Result<managed::ToManager> message = managed::decode_to_manager((*frame)->type, (*frame)->body);
    if (!message) continue;
    same_again((*frame)->type, *message, (*frame)->body);
    policy.receive(now += Time(1), from, *message);
    if (bytes.size() % 2 == 0) policy.tick(now += Time(2));
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  run(view(data, size));
  return 0;
}

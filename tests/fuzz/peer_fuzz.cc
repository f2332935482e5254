// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: a hostile peer of a connection between two nodes, before it is admitted and behind it.
// First byte odd: it speaks where the other side expects a munge credential. Even: blocks of a
// packed stream; what has been read is never more than they declare.
#include <cstdlib>

#include "common/base/clock.h"
#include "remote/transport/munge_exchange.h"
#include "remote/transport/packed_stream.h"
#include "tests/fuzz/input_stream.h"

namespace {

using namespace ckpt;
using namespace ckpt::remote;

// Believes every credential to be of uid 1, for another connection.
class Credulous final : public CredentialService {
 public:
  Result<std::string> encode(ByteView, uid_t, Deadline) const override { return "MUNGE:x:"; }
  Result<Content> decode(const std::string &, Deadline) const override {
    return Content{Bytes(4), 1};
  }
};

void read_packed(ByteView bytes) {
  PackedStream packed(std::make_unique<InputStream>(bytes), {});
  Bytes into(bytes.size() % 7 * 50'000 + 1);
  for (int i = 0; i < 1000; i++) {
    Result<size_t> n = packed.read_some(into);
    if (!n || *n == 0) return;
    if (*n > into.size()) std::abort();
  }
}

void exchange_credentials(ByteView bytes) {
  auto deadline = Clock::now() + std::chrono::seconds(1);
  Binding binding;
  binding.client.fill(std::byte{1});
  binding.server.fill(std::byte{2});
  Connection server(std::make_unique<InputStream>(bytes)),
      client(std::make_unique<InputStream>(bytes));
  if (check_credential(server, Credulous(), binding, deadline)) std::abort();
  if (show_credential(client, Credulous(), binding, {0, 1}, deadline)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size == 0) return 0;
  ByteView rest = view(data + 1, size - 1);
  if (data[0] & 1)
    exchange_credentials(rest);
  else
    read_packed(rest);
  return 0;
}

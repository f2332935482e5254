// SPDX-License-Identifier: Apache-2.0
#include "tools/job/messages.h"

#include "common/base/fields.h"

namespace ckpt::tools {
namespace {

constexpr u32 kMaxConnections = 100'000;

void write(Writer &w, const Endpoint &e) {
  w.put(static_cast<u8>(e.v6)).raw(e.address.data(), e.address.size()).put(e.port);
}

Endpoint read_endpoint(Reader &r) {
  Endpoint e;
  e.v6 = r.get<u8>() != 0;
  if (ByteView address = r.raw(e.address.size()); r.ok())
    std::memcpy(e.address.data(), address.data(), address.size());
  e.port = r.get<u16>();
  return e;
}

JobConnection read_connection(Reader &r) {
  JobConnection c;
  c.local = read_endpoint(r);
  c.remote = read_endpoint(r);
  c.state = r.get<u8>();
  c.held = r.get<u8>() != 0;
  c.may_close = r.get<u8>() != 0;
  c.owner = r.str();
  return c;
}

}  // namespace

Bytes encode(const Begin &b) {
  return Writer()
      .put(b.task)
      .str(b.member)
      .put(static_cast<u32>(b.checkpoint))
      .put(static_cast<u8>(b.stop))
      .str(b.attempt)
      .put(static_cast<u32>(b.timeout_seconds))
      .take();
}

Bytes encode(const Reached &reached) {
  Writer w;
  w.put(reached.stage).str(reached.node).str(reached.report);
  w.put(static_cast<u32>(reached.connections.size()));
  for (const JobConnection &c : reached.connections) {
    write(w, c.local);
    write(w, c.remote);
    w.put(c.state).put(static_cast<u8>(c.held)).put(static_cast<u8>(c.may_close)).str(c.owner);
  }
  return w.take();
}

std::optional<Begin> parse_begin(ByteView body) {
  Reader r(body);
  Begin b;
  b.task = read_choice(r, Task::Restore);
  b.member = r.str();
  b.checkpoint = r.get<u32>();
  b.stop = r.get<u8>() != 0;
  b.attempt = r.str();
  b.timeout_seconds = r.get<u32>();
  return r.done() ? std::optional(std::move(b)) : std::nullopt;
}

std::optional<Reached> parse_reached(ByteView body) {
  Reader r(body);
  Reached reached;
  reached.stage = read_choice(r, Stage::Restored);
  reached.node = r.str();
  reached.report = r.str();
  for (u32 n = read_count(r, sizeof(u32), kMaxConnections); n > 0 && r.ok(); n--)
    reached.connections.push_back(read_connection(r));
  return r.done() ? std::optional(std::move(reached)) : std::nullopt;
}

}  // namespace ckpt::tools

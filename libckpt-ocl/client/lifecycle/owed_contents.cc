// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/lifecycle/owed_contents.h"

#include <sys/resource.h>

#include "common/base/available_memory.h"
#include "common/base/fields.h"
#include "common/ipc/shared_memory.h"
#include "common/ipc/unix_socket.h"
#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {
namespace {

// Of what the tool learns at once. A multiple of agent::kChunkBytes.
constexpr u64 kPieceBytes = 16u << 20;

u64 with_padding(u64 bytes) {
  return (bytes + agent::kRegionAlign - 1) / agent::kRegionAlign * agent::kRegionAlign;
}

// Half of what there is, and no file that would end the program (SIGXFSZ, setrlimit(2)).
u64 most_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return 0;
  return std::min<u64>(available_memory() / 2, limit.rlim_cur);
}

}  // namespace

std::string region_name(const Mem &m) { return fmt::format("mem-{}", m.number); }

Result<OwedContents> OwedContents::offer(agent::Sink &sink, const std::vector<Mem *> &roots) {
  OwedContents owed;
  if (link().compiles_elsewhere()) return owed;
  if (!sink.takes_owed()) {
    // A program that is suspended gives its devices back: what the last dump waits for comes first.
    link().round_trip(Op::Settle, 0, Writer().put(u64{0}).bytes());
    return owed;
  }
  u64 bytes = 0;
  for (u64 most = most_bytes(); const Mem *m : roots) {
    if (with_padding(m->size) > most - bytes) continue;
    owed.places_[m] = bytes;
    bytes += with_padding(m->size);
  }
  if (bytes == 0) return owed;
  CKPT_TRY(UniqueFd file, make_memfd("ckpt-owed", bytes));
  if (link().round_trip(Op::OwedFile, Writer().put(bytes).bytes(), file.get()) != CL_SUCCESS)
    return OwedContents();
  CKPT_TRY(auto ends, socket_pair());
  CKPT_CHECK(sink.begin_owed({file.get(), bytes}, ends.first.get()));
  owed.tool_ = std::move(ends.second);
  return owed;
}

Result<bool> OwedContents::take(Mem &m, agent::Sink &sink) {
  auto place = places_.find(&m);
  if (place == places_.end()) return false;
  CKPT_TRY(u32 region, sink.region(region_name(m), m.size));
  for (u64 at = 0; at < m.size; at += kPieceBytes) {
    u64 bytes = std::min<u64>(kPieceBytes, m.size - at), in_file = place->second + at;
    CKPT_CHECK(sink.owed(region, at, bytes, in_file));
    Writer w;
    w.put(m.number).put(at).put(bytes).put(in_file);
    if (link().send(Op::Owed, 0, w.bytes()) != CL_SUCCESS)
      return fail("the OpenCL proxy has ended");
  }
  m.owed = true;
  return true;
}

Result<> OwedContents::begin() {
  if (!tool_) return {};
  if (link().round_trip(Op::OwedBegin, {}, tool_.get()) == CL_SUCCESS) return {};
  return fail("the OpenCL proxy cannot copy the contents of buffers; its log names the reason");
}

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/link/call_counts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "cuda/entries.h"
#include "remote/cuda/client/link/gate.h"
#include "remote/cuda/protocol.h"

namespace ckpt::remote::cuda {
namespace {

constexpr const char *kVariable = "CKPT_REMOTE_COUNTS";
constexpr size_t kMostLines = 256;
constexpr u16 kFirstOp = static_cast<u16>(Op::First);

constexpr auto kLineNames = [] {
  std::array<const char *, kMostLines> all{};
#define ASKED(n, symbol, type) all[n] = #symbol;
#include "remote/cuda/cuda.api"
  return all;
}();

constexpr const char *kOpNames[] = {"lane ended",     "arena",
                                    "map memory",     "unmap memory",
                                    "code",           "load code",
                                    "find variable",  "kernel parameters",
                                    "launch",         "write",
                                    "read",           "copy",
                                    "fill",           "write box",
                                    "read box",       "copy box",
                                    "host function",  "settle",
                                    "idle",           "mirror",
                                    "end mirror",     "push",
                                    "fetch",          "make array",
                                    "make texture",   "end texture",
                                    "link",           "make texture at",
                                    "end texture at", "value in stream",
                                    "make memory",    "end memory",
                                    "map own memory", "unmap own memory",
                                    "set access",     "read changed",
                                    "devices",        "empty context",
                                    "make mipmap",    "level of mipmap"};
static_assert(std::size(kOpNames) == static_cast<size_t>(Op::Last) - kFirstOp);

// The call came first, so that the program's own environment is meant.
const char *path() {
  static const char *const kPath = ::secure_getenv(kVariable);
  return kPath;
}

std::string as_json(CallCounts &c) {
  std::string waited;
  u64 sum = 0;
  for (size_t i = 0; i < c.waited.size(); i++) {
    u64 n = c.waited[i];
    if (n == 0) continue;
    u16 op = static_cast<u16>(i < kMostLines ? i : i - kMostLines + kFirstOp);
    waited += fmt::format("{}\"{}\": {}", sum > 0 ? ", " : "", name_of_call(op), n);
    sum += n;
  }
  return fmt::format(
      "{{\"calls\": {}, \"one_way\": {}, \"batches\": {}, \"waited\": {}, "
      "\"waited_for\": {{{}}}}}\n",
      gate().entered().count, c.one_way.load(), c.batches.load(), sum, waited);
}

[[gnu::destructor]] void write_counts() {
  CallCounts *c = call_counts();
  if (!c || gate().entered().count == 0) return;
  UniqueFd fd(::open(path(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::string line = as_json(*c);
  if (!fd || ::write(fd.get(), line.data(), line.size()) < 0)
    log::warn("cannot write to {}; check {}", path(), kVariable);
}

}  // namespace

const char *name_of_call(u16 op) {
  const char *name = nullptr;
  if (op < kMostLines) name = kLineNames[op];
  if (op >= kFirstOp && op < static_cast<u16>(Op::Last)) name = kOpNames[op - kFirstOp];
  return name ? name : "a call";
}

CallCounts *call_counts() {
  static CallCounts *const kCounts = path() ? new CallCounts : nullptr;
  return kCounts;
}

void count_waited(u16 op) {
  if (CallCounts *c = call_counts())
    c->waited[op < kMostLines ? op : op - kFirstOp + kMostLines].fetch_add(
        1, std::memory_order_relaxed);
}

}  // namespace ckpt::remote::cuda

// SPDX-License-Identifier: Apache-2.0
#include "tools/job/decision.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/io.h"
#include "common/base/json_depth.h"
#include "common/base/unique_fd.h"
#include "tools/job/create_once.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

constexpr off_t kMaxDecisionBytes = 16 << 20;
constexpr int kMaxDecisionDepth = 8;

}  // namespace

Result<nlohmann::json> decide(const std::string &path, const nlohmann::json &proposal) {
  CKPT_CHECK(create_once(path, view(json_text(proposal, 1) + "\n")));
  CKPT_TRY(nlohmann::json holds, read_decision(path));
  if (holds.is_null()) return fail("{} has vanished", path);
  return holds;
}

Result<nlohmann::json> read_decision(const std::string &path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd && errno == ENOENT) return nlohmann::json();
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) return fail_errno("cannot read {}", path);
  if (!S_ISREG(st.st_mode) || st.st_size > kMaxDecisionBytes)
    return fail("{} is not a decision of a job", path);
  std::string text(static_cast<size_t>(st.st_size), '\0');
  CKPT_CHECK(read_exactly(fd.get(), text.data(), text.size()));
  bool sound = json_depth(text) <= kMaxDecisionDepth;
  nlohmann::json j = sound ? nlohmann::json::parse(text, nullptr, false) : nlohmann::json();
  if (!j.is_object()) return fail("{} is not a decision of a job", path);
  return j;
}

bool is_complete(const nlohmann::json &decision) {
  return decision.is_object() && decision.contains("result") && decision["result"] == "complete";
}

nlohmann::json abandoned(const std::string &why) { return {{"result", "abandoned"}, {"why", why}}; }

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/criu_guard/record.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/io.h"
#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

constexpr const char *kFile = "ckpt-suspended.json";
constexpr size_t kMaxBytes = 1u << 20;

NestedPid pids_of(const nlohmann::json &list) {
  NestedPid pids;
  for (const nlohmann::json &j : list) {
    if (!j.is_number_integer() || !std::in_range<pid_t>(j.get<i64>())) return {};
    pids.push_back(j.get<pid_t>());
  }
  return pids;
}

}  // namespace

NestedPid nested_pid(const Process &p, size_t level) {
  if (p.ns_pids.size() < level || level == 0) return {p.ns_pid()};
  return {p.ns_pids.begin() + static_cast<std::ptrdiff_t>(level - 1), p.ns_pids.end()};
}

std::string record_text(const std::vector<NestedPid> &keepers) {
  return nlohmann::json{{"suspended", keepers}}.dump();
}

std::vector<NestedPid> parse_record(std::string_view text) {
  std::vector<NestedPid> all;
  nlohmann::json record = parse_json(text);
  for (const nlohmann::json &entry : json_list(record, "suspended"))
    if (NestedPid pids = entry.is_array() ? pids_of(entry) : NestedPid(); !pids.empty())
      all.push_back(std::move(pids));
  return all;
}

Result<> write_record(int folder, const std::vector<NestedPid> &keepers) {
  if (::unlinkat(folder, kFile, 0) < 0 && errno != ENOENT)
    return fail_errno("cannot remove {} in CRIU's folder of images", kFile);
  if (keepers.empty()) return {};
  UniqueFd file(::openat(folder, kFile, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail_errno("cannot create {} in CRIU's folder of images", kFile);
  return write_all(file.get(), view(record_text(keepers)));
}

std::vector<NestedPid> read_record(int folder) {
  UniqueFd file(::openat(folder, kFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return {};
  std::string text(kMaxBytes, '\0');
  Result<size_t> n = read_at(file.get(), std::as_writable_bytes(std::span(text)), 0);
  return parse_record(std::string_view(text).substr(0, n.value_or(0)));
}

}  // namespace ckpt::tools

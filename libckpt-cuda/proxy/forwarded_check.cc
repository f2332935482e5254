// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/proxy/forwarded_check.h"

#include <algorithm>
#include <charconv>

#include "common/base/bytes.h"
#include "common/base/json_fields.h"
#include "common/base/units.h"

namespace ckpt::cuda {
namespace {

using nlohmann::json;

std::string version(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

std::string reason_against_code(const json &code, const RealDevice &d, bool software) {
  std::vector<std::string> targets = json_strings(json_member(code, "targets"));
  auto runs = [&](const std::string &t) { return runs_on(t, d.capability, software); };
  if (std::ranges::any_of(targets, runs)) return {};
  return fmt::format(
      "the code with the kernel \"{}\" has no version for \"{}\" (compute capability {}): it has "
      "{}{}",
      json_string(code, "kernel"), d.name, version(d.capability), fmt::join(targets, ", "),
      software ? ", and the software device executes PTX (compute_…) only" : "");
}

std::vector<RealDevice> visible(const std::vector<RealDevice> &offered,
                                const std::vector<std::string> &chosen) {
  if (chosen.empty()) return offered;
  std::vector<RealDevice> all;
  for (const std::string &uuid : chosen)
    for (const RealDevice &d : offered)
      if (d.uuid == uuid) all.push_back(d);
  return all;
}

}  // namespace

bool is_forwarded(const json &requirements) { return json_value(requirements, "forwarded", false); }

// A cubin runs on chips of the same major and no smaller minor version, PTX on all later ones; with
// an "a" only on that very chip, with an "f" on its family (CUDA C++ Programming Guide, "Compute
// capabilities").
bool runs_on(std::string_view target, int capability, bool software) {
  bool ptx = target.starts_with("compute_");
  if (!ptx && (software || !target.starts_with("sm_"))) return false;
  std::string_view digits = target.substr(target.find('_') + 1);
  int number = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{}) return false;
  std::string_view suffix = digits.substr(static_cast<size_t>(end - digits.data()));
  if (suffix == "a") return number == capability;
  bool same_major = number / 10 == capability / 10;
  return number <= capability && (same_major || (ptx && suffix.empty()));
}

DeviceCheck check_forwarded(const json &requirements, const std::vector<RealDevice> &offered,
                            const std::vector<std::string> &chosen, bool software) {
  DeviceCheck check;
  std::vector<RealDevice> now = visible(offered, chosen);
  for (const json &old : json_list(requirements, "devices")) {
    if (!json_value(old, "used", false)) continue;
    u64 n = json_value(old, "number", u64{0}), bytes = json_value(old, "bytes", u64{0});
    if (n >= now.size()) {
      check.reasons.push_back(
          fmt::format("there is no CUDA device for \"{}\", device {} of the program",
                      json_string(old, "name"), n));
      continue;
    }
    const RealDevice &d = now[n];
    if (bytes > d.free_bytes)
      check.reasons.push_back(fmt::format(
          "the program has {} on \"{}\", and only {} are free on {}", mebibytes_needed(bytes),
          json_string(old, "name"), mebibytes(d.free_bytes), d.uuid));
    for (const json &code : json_list(requirements, "code"))
      if (std::string why = reason_against_code(code, d, software); !why.empty())
        check.reasons.push_back(std::move(why));
  }
  return check;
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/report/profiles_file.h"

#include <errno.h>
#include <stdio.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/base/json_fields.h"
#include "common/base/log.h"

namespace ckpt::manager {

namespace {

using nlohmann::json;

// Enough for the 256 profiles that are kept.
constexpr size_t kMaxBytes = 1 << 20;
constexpr double kMaxNumber = 1e18;
constexpr int kVersion = 2;
constexpr std::chrono::minutes kSaveInterval{10};

bool is_sane(double x) { return std::isfinite(x) && x >= 0 && x <= kMaxNumber; }

std::optional<ProfileFacts> one_profile(const json &j) {
  for (const char *number : {"hash", "calls", "peak_bytes"})
    if (!j.contains(number) || !j[number].is_number_unsigned()) return {};
  for (const char *number : {"copied_bytes", "observed_seconds"})
    if (!j.contains(number) || !j[number].is_number() || !is_sane(j[number])) return {};
  if (!j.contains("name") || !j["name"].is_string() || j["hash"] == 0) return {};
  return ProfileFacts{.hash = j["hash"],
                      .name = j["name"],
                      .calls = j["calls"],
                      .peak = j["peak_bytes"],
                      .copied = j["copied_bytes"],
                      .observed = j["observed_seconds"]};
}

}  // namespace

json profiles_as_json(const std::vector<ProfileFacts> &all) {
  json profiles = json::array();
  for (const ProfileFacts &p : all)
    profiles.push_back({{"hash", p.hash},
                        {"name", p.name},
                        {"calls", p.calls},
                        {"peak_bytes", p.peak},
                        {"copied_bytes", p.copied},
                        {"observed_seconds", p.observed}});
  return profiles;
}

Result<std::vector<ProfileFacts>> read_profiles(const std::string &path) {
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return std::vector<ProfileFacts>{};
  std::string text(kMaxBytes, 0);
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.eof()) return fail("cannot read {}, or it is larger than 1 MiB", path);
  json j = json::parse(text, nullptr, false);
  if (json_member(j, "version") != kVersion || !json_member(j, "profiles").is_array())
    return fail("{} is not a file of profiles of this version of ckptd", path);
  std::vector<ProfileFacts> all;
  for (const json &profile : j["profiles"])
    if (std::optional<ProfileFacts> facts = one_profile(profile)) all.push_back(std::move(*facts));
  if (all.size() < j["profiles"].size())
    log::warn("{}: cannot parse {} of {} profiles; they are left out", path,
              j["profiles"].size() - all.size(), j["profiles"].size());
  return all;
}

Result<> write_profiles(const std::string &path, const std::vector<ProfileFacts> &all) {
  std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  json j = {{"version", kVersion}, {"profiles", profiles_as_json(all)}};
  file << j.dump(1, ' ', false, json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) return fail_errno("cannot write {}", fresh);
  if (::rename(fresh.c_str(), path.c_str()) < 0) return fail_errno("cannot replace {}", path);
  return {};
}

Result<std::vector<ProfileFacts>> ProfilesFile::load(Time now) {
  std::vector<ProfileFacts> all;
  if (path_.empty()) return all;
  saved_at_ = now;
  Result<std::vector<ProfileFacts>> known = read_profiles(path_);
  if (known)
    all = std::move(*known);
  else
    log::warn("{}; starting without profiles", known.error().what);
  CKPT_CHECK(write_profiles(path_, all));
  return all;
}

void ProfilesFile::save(const WorkloadProfiles &profiles, Time now) {
  if (!has_changed(profiles)) return;
  saved_at_ = now;
  u64 changes = profiles.changes();
  if (Result<> saved = write_profiles(path_, profiles.facts()); saved)
    saved_changes_ = changes;
  else
    log::warn("cannot save the profiles of workloads: {}", saved.error().what);
}

int ProfilesFile::timeout(const WorkloadProfiles &profiles, Time now) const {
  if (!has_changed(profiles)) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(saved_at_ + kSaveInterval - now);
  return static_cast<int>(std::max<i64>(left.count(), 0));
}

}  // namespace ckpt::manager

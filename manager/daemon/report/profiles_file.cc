// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/report/profiles_file.h"

#include <errno.h>
#include <stdio.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "common/base/log.h"

namespace ckpt::manager {

namespace {

using nlohmann::json;

// Of 256 profiles, which is as many as are remembered.
constexpr size_t kMostBytes = 1 << 20;
constexpr double kMost = 1e18;
constexpr int kVersion = 1;
// What is learned is written so often.
constexpr std::chrono::minutes kEvery{10};

bool is_sane(double x) { return std::isfinite(x) && x >= 0 && x <= kMost; }

std::optional<ProfileFacts> one_profile(const json &j) {
  for (const char *number : {"hash", "calls", "peak_bytes"})
    if (!j.contains(number) || !j[number].is_number_unsigned()) return {};
  for (const char *number : {"copied_bytes", "watched_seconds"})
    if (!j.contains(number) || !j[number].is_number() || !is_sane(j[number])) return {};
  if (!j.contains("name") || !j["name"].is_string() || j["hash"] == 0) return {};
  return ProfileFacts{.hash = j["hash"],
                      .name = j["name"],
                      .calls = j["calls"],
                      .peak = j["peak_bytes"],
                      .copied = j["copied_bytes"],
                      .watched = j["watched_seconds"]};
}

}  // namespace

json profiles_as_json(const std::vector<ProfileFacts> &all) {
  json profiles = json::array();
  for (const ProfileFacts &k : all)
    profiles.push_back({{"hash", k.hash},
                        {"name", k.name},
                        {"calls", k.calls},
                        {"peak_bytes", k.peak},
                        {"copied_bytes", k.copied},
                        {"watched_seconds", k.watched}});
  return profiles;
}

Result<std::vector<ProfileFacts>> read_profiles(const std::string &path) {
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return std::vector<ProfileFacts>{};
  std::string text(kMostBytes, 0);
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.eof()) return fail("{} cannot be read, or has more than 1 MiB", path);
  json j = json::parse(text, nullptr, false);
  if (!j.is_object() || j.value("version", json()) != kVersion || !j["profiles"].is_array())
    return fail("{} is not what a ckptd of this version has written", path);
  std::vector<ProfileFacts> all;
  for (const json &profile : j["profiles"])
    if (std::optional<ProfileFacts> facts = one_profile(profile)) all.push_back(std::move(*facts));
  if (all.size() < j["profiles"].size())
    log::warn("{}: {} of {} profiles are not understood", path, j["profiles"].size() - all.size(),
              j["profiles"].size());
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

Result<std::vector<ProfileFacts>> ProfilesFile::recall(Time now) {
  std::vector<ProfileFacts> all;
  if (path_.empty()) return all;
  kept_at_ = now;
  Result<std::vector<ProfileFacts>> known = read_profiles(path_);
  if (known)
    all = std::move(*known);
  else
    log::warn("{}; it begins anew", known.error().what);
  CKPT_CHECK(write_profiles(path_, all));
  return all;
}

void ProfilesFile::keep(const WorkloadProfiles &profiles, Time now) {
  if (!has_news(profiles)) return;
  kept_at_ = now;
  u64 changes = profiles.changes();
  if (Result<> kept = write_profiles(path_, profiles.facts()); kept)
    kept_ = changes;
  else
    log::warn("what is known of profiles of programs is not kept: {}", kept.error().what);
}

int ProfilesFile::timeout(const WorkloadProfiles &profiles, Time now) const {
  if (!has_news(profiles)) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(kept_at_ + kEvery - now);
  return static_cast<int>(std::max<i64>(left.count(), 0));
}

}  // namespace ckpt::manager

// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/checks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace ckpt::tools {
namespace {

bool is_regular(const std::string &path, struct stat &st) {
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool grew(const ImageManifest::File &f) {
  struct stat st {};
  return is_regular(f.path, st) && static_cast<u64>(st.st_size) > f.size;
}

}  // namespace

void check_files(const ImageManifest &m, bool truncate, Reasons &reasons) {
  for (const auto &f : m.files) {
    struct stat st {};
    if (!is_regular(f.path, st)) {
      reasons.push_back(fmt::format("the file {} is missing: put it back", f.path));
      continue;
    }
    u64 now = static_cast<u64>(st.st_size);
    if (f.append_only || now == f.size) continue;
    if (now < f.size)
      reasons.push_back(
          fmt::format("the file {} is shorter than at the dump ({} bytes instead of {}): put "
                      "it back as it was",
                      f.path, now, f.size));
    else if (!f.writable)
      reasons.push_back(
          fmt::format("the file {} has changed since the dump ({} bytes instead of {}): put it "
                      "back as it was",
                      f.path, now, f.size));
    else if (!truncate)
      reasons.push_back(fmt::format(
          "the file {} grew since the dump ({} bytes instead of {}): --truncate-files truncates it",
          f.path, now, f.size));
  }
}

void check_mapped_files(const ImageManifest &m, Reasons &reasons) {
  for (const auto &f : m.mapped_files) {
    struct stat st {};
    if (!is_regular(f.path, st))
      reasons.push_back(
          fmt::format("{}, which the program has mapped, is missing: install it again", f.path));
    else if (static_cast<u64>(st.st_size) != f.size)
      reasons.push_back(fmt::format(
          "{}, which the program has mapped, has changed ({} bytes instead of {}): put back the "
          "version of the dump",
          f.path, st.st_size, f.size));
  }
}

DeviceMaps check_devices_of(const ImageManifest &m, const DeviceChoice &choice, bool ignore_limits,
                            Reasons &reasons) {
  DeviceMaps maps;
  std::set<std::string> apis;
  for (const auto &r : m.requirements) apis.insert(r.api);
  if (std::string why = misdirected(choice, apis); !why.empty()) {
    reasons.push_back(std::move(why));
    return maps;
  }
  for (const auto &r : m.requirements) {
    Result<DeviceCheck> check = check_devices(r.api, choice, r.requirements, ignore_limits);
    if (!check) {
      reasons.push_back(check.error().text());
      continue;
    }
    reasons.insert(reasons.end(), check->reasons.begin(), check->reasons.end());
    if (!check->map.empty()) maps[r.agent][r.api] = std::move(check->map);
  }
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  return maps;
}

Result<> truncate_files(const ImageManifest &m) {
  for (const auto &f : m.files)
    if (f.writable && !f.append_only && grew(f) &&
        ::truncate(f.path.c_str(), static_cast<off_t>(f.size)) < 0)
      return fail_errno("cannot truncate {}", f.path);
  return {};
}

bool pids_taken(const ImageManifest &m) {
  std::vector<pid_t> pids = m.pids();
  return std::any_of(pids.begin(), pids.end(), [](pid_t p) {
    return ::kill(p, 0) == 0 || errno == EPERM || ::kill(-p, 0) == 0 || errno == EPERM;
  });
}

}  // namespace ckpt::tools

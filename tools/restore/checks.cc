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
      reasons.push_back(fmt::format("the file {} is missing", f.path));
      continue;
    }
    u64 now = static_cast<u64>(st.st_size);
    if (f.append_only || now == f.size) continue;
    if (now < f.size)
      reasons.push_back(fmt::format("the file {} is shorter than it was ({} bytes instead of {})",
                                    f.path, now, f.size));
    else if (!f.writable)
      reasons.push_back(
          fmt::format("the file {} has changed ({} bytes instead of {})", f.path, now, f.size));
    else if (!truncate)
      reasons.push_back(fmt::format(
          "the file {} grew since ({} bytes instead of {}): --truncate-files cuts it back", f.path,
          now, f.size));
  }
}

void check_mapped_files(const ImageManifest &m, Reasons &reasons) {
  for (const auto &f : m.mapped_files) {
    struct stat st {};
    if (!is_regular(f.path, st))
      reasons.push_back(fmt::format("{}, which the program has mapped, is missing", f.path));
    else if (static_cast<u64>(st.st_size) != f.size)
      reasons.push_back(fmt::format(
          "{}, which the program has mapped, has changed ({} bytes instead of {}; upgraded "
          "or rebuilt?)",
          f.path, st.st_size, f.size));
  }
}

DeviceMaps check_device_needs(const ImageManifest &m, const DeviceChoice &choice,
                              bool ignore_limits, Reasons &reasons) {
  DeviceMaps maps;
  std::set<std::string> apis;
  for (const auto &need : m.needs) apis.insert(need.api);
  if (std::string why = misdirected(choice, apis); !why.empty()) {
    reasons.push_back(std::move(why));
    return maps;
  }
  for (const auto &need : m.needs) {
    Result<DeviceCheck> theirs = check_devices(need.api, choice, need.needs, ignore_limits);
    if (!theirs) {
      reasons.push_back(theirs.error().text());
      continue;
    }
    reasons.insert(reasons.end(), theirs->reasons.begin(), theirs->reasons.end());
    if (!theirs->map.empty()) maps[need.agent][need.api] = std::move(theirs->map);
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

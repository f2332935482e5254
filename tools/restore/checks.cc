// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/checks.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

namespace ckpt::tools {

DeviceMaps check_devices_of(const ImageManifest &m, const DeviceChoice &choice, ReadLimits limits,
                            Reasons &reasons) {
  DeviceMaps maps;
  std::set<std::string> apis;
  for (const auto &r : m.requirements) apis.insert(r.api);
  if (std::string why = misdirected(choice, apis); !why.empty()) {
    reasons.push_back(std::move(why));
    return maps;
  }
  for (const auto &r : m.requirements) {
    Result<DeviceCheck> check = check_devices(r.api, choice, r.requirements, limits);
    if (!check) {
      reasons.push_back(check.error().text());
      continue;
    }
    reasons.insert(reasons.end(), check->reasons.begin(), check->reasons.end());
    warn_of_limits(check->warnings);
    if (!check->map.empty()) maps[r.agent][r.api] = std::move(check->map);
  }
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  return maps;
}

bool pids_taken(const ImageManifest &m) {
  std::vector<pid_t> pids = m.pids();
  return std::any_of(pids.begin(), pids.end(), [](pid_t p) {
    return ::kill(p, 0) == 0 || errno == EPERM || ::kill(-p, 0) == 0 || errno == EPERM;
  });
}

bool terminals_taken(const ImageManifest &m) {
  return std::any_of(m.streams.own_terminals.begin(), m.streams.own_terminals.end(), [](int n) {
    return ::access(fmt::format("/dev/pts/{}", n).c_str(), F_OK) == 0;
  });
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/protocol.h"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace ckpt::softcuda::broker {

std::string Configuration::text() const { return fmt::format("{}x{}M", devices, bytes >> 20); }

Result<Configuration> parse_configuration(std::string_view text) {
  Configuration c;
  if (text.empty()) return c;
  auto bad = [&] {
    return fail_with_hint(
        fmt::format("the configuration '{}' of software devices is invalid", text),
        fmt::format(
            "4x4800M means four devices of 4800 MiB; at most {} devices, with at least 64 MiB each",
            kMaxDevices));
  };
  const char *end = text.data() + text.size();
  auto [x, e1] = std::from_chars(text.data(), end, c.devices);
  if (e1 != std::errc() || x == end || *x != 'x' || c.devices == 0 || c.devices > kMaxDevices)
    return bad();
  u64 size = 0;
  auto [unit, e2] = std::from_chars(x + 1, end, size);
  if (e2 != std::errc() || unit + 1 != end || (*unit != 'M' && *unit != 'G') || size == 0 ||
      size > (1u << 22))
    return bad();
  c.bytes = size << (*unit == 'G' ? 30 : 20);
  if (c.bytes < 64ull << 20) return bad();
  return c;
}

Result<std::string> socket_path(const Configuration &c) {
  std::string folder;
  if (const char *set = std::getenv("CKPT_RUNTIME_DIR"); set != nullptr && *set != '\0')
    folder = set;
  else if (const char *xdg = std::getenv("XDG_RUNTIME_DIR");
           xdg != nullptr && access(xdg, W_OK) == 0)
    folder = fmt::format("{}/ckpt", xdg);
  else
    folder = fmt::format("/tmp/ckpt-{}", getuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot create the folder {}", folder);
  struct stat s {};
  if (stat(folder.c_str(), &s) != 0) return fail_errno("cannot access the folder {}", folder);
  if (s.st_uid != geteuid())
    return fail_with_hint(fmt::format("the folder {} belongs to another user", folder),
                          "set CKPT_RUNTIME_DIR to a folder of your own");
  return fmt::format("{}/softcuda-{}.sock", folder, c.text());
}

}  // namespace ckpt::softcuda::broker

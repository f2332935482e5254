// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/devices/node_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "common/base/file_text.h"

namespace ckpt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char *kProcFolder = "/proc/driver/nvidia/gpus";
constexpr std::string_view kUuidLine = "GPU UUID:";

// Empty: the file has none, or one of question marks, which the driver writes before the GPU's
// first use.
std::string uuid_in(const fs::path &information) {
  std::istringstream in(file_text(information).value_or(""));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kUuidLine)) continue;
    size_t at = line.find("GPU-", kUuidLine.size());
    if (at == std::string::npos || line.find('?') != std::string::npos) return {};
    return line.substr(at, line.find_last_not_of(" \t\r") + 1 - at);
  }
  return {};
}

}  // namespace

std::vector<std::string> gpus_in_files() {
  std::vector<std::string> all;
  std::error_code ec;
  for (const fs::directory_entry &gpu : fs::directory_iterator(kProcFolder, ec))
    all.push_back(uuid_in(gpu.path() / "information"));
  if (std::ranges::find(all, "") != all.end()) return {};
  std::ranges::sort(all);
  return all;
}

std::string bus_id_text(const char *bus_id) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) return bus_id;
  return fmt::format("{:08x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

}  // namespace ckpt::cuda

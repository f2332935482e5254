// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/devices/node_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "common/base/file_text.h"
#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::cuda {
namespace {

namespace fs = std::filesystem;

// Empty: the file has none, or one of question marks, which the driver writes before the GPU's
// first use.
std::string uuid_in(const fs::path &information) {
  std::string text = file_text(information).value_or("");
  std::string_view uuid = after_name(text, "GPU UUID:");
  uuid = next_word(uuid);
  return uuid.starts_with("GPU-") && uuid.find('?') == uuid.npos ? std::string(uuid) : "";
}

}  // namespace

std::vector<std::string> gpus_in_files() {
  std::vector<std::string> all;
  std::error_code ec;
  for (const fs::directory_entry &gpu :
       fs::directory_iterator(proc::path_of_machine("driver/nvidia/gpus"), ec))
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

// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/surroundings.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tools/text_file.h"

namespace ckpt::tools {

namespace fs = std::filesystem;

// Documentation/ABI/testing/sysfs-class-power of Linux: a battery in use is "Discharging". Those of
// mice and headsets have the scope "Device".
bool on_battery(const std::string &root) {
  std::error_code ec;
  for (const fs::directory_entry &e :
       fs::directory_iterator(root + "/sys/class/power_supply", ec)) {
    auto is = [&](const char *name, const char *value) {
      return contents_of(e.path() / name).value_or("").starts_with(value);
    };
    if (is("type", "Battery") && is("status", "Discharging") && !is("scope", "Device")) return true;
  }
  return false;
}

std::optional<double> warmest_celsius(const std::string &root) {
  std::optional<double> warmest;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(root + "/sys/class/thermal", ec)) {
    Result<std::string> text = contents_of(e.path() / "temp");
    if (!text || text->empty()) continue;
    double celsius = std::strtod(text->c_str(), nullptr) / 1000;
    warmest = std::max(warmest.value_or(celsius), celsius);
  }
  return warmest;
}

int minute_of_day() {
  time_t now = ::time(nullptr);
  tm local{};
  ::localtime_r(&now, &local);
  return local.tm_hour * 60 + local.tm_min;
}

}  // namespace ckpt::tools

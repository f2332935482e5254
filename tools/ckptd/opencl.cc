// SPDX-License-Identifier: Apache-2.0
#include "tools/ckptd/opencl.h"

#include <algorithm>
#include <sstream>

#include "common/base/json_fields.h"
#include "tools/command_line.h"
#include "tools/device/device.h"

namespace ckpt::tools {
namespace {

constexpr const char *kApi = "ocl";

manager::OpenClDevice as_managed(const Device &d, std::optional<u64> cap) {
  return {d.uuid, d.name, d.memory_bytes, cap};
}

// One entry of the list: a device, and the memory that programs may use there.
struct Entry {
  std::string device;
  std::optional<u64> cap;
};

Result<Entry> read_entry(const std::string &text) {
  size_t equals = text.rfind('=');
  if (equals == text.npos) return Entry{text, {}};
  std::optional<u64> bytes = parse_size(text.substr(equals + 1));
  if (bytes.value_or(0) == 0)
    return fail_with_hint(fmt::format("\"{}\" has no size after the =", text),
                          "write, for example, --opencl-devices ocl:NAME=64M");
  return Entry{text.substr(0, equals), bytes};
}

bool is_selected(const Device &d, const std::string &wanted) {
  return wanted == "all" || json_string(d.all, "type") != "cpu";
}

}  // namespace

Result<std::vector<manager::OpenClDevice>> opencl_devices(const std::string &wanted) {
  std::vector<manager::OpenClDevice> out;
  if (wanted == "none") return out;
  CKPT_TRY(std::vector<Device> devices, list_devices(kApi));
  if (wanted == "gpus" || wanted == "all") {
    for (const Device &d : devices)
      if (is_selected(d, wanted)) out.push_back(as_managed(d, {}));
    return out;
  }
  std::istringstream entries(wanted);
  for (std::string text; std::getline(entries, text, ',');) {
    CKPT_TRY(Entry entry, read_entry(text));
    CKPT_TRY(DeviceChoice choice, choose_devices(entry.device, devices));
    for (const std::string &id : choice[kApi])
      out.push_back(as_managed(*std::ranges::find(devices, id, &Device::id), entry.cap));
  }
  return out;
}

}  // namespace ckpt::tools

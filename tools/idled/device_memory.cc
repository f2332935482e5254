// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/device_memory.h"

#include <charconv>

#include "common/base/gpu.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "manager/daemon/measure/nvml.h"
#include "tools/idled/small_file.h"
#include "tools/manager_status.h"
#include "tools/text_file.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

u64 less(u64 a, u64 b) { return a > b ? a - b : 0; }

class ByMeter final : public DeviceMemory {
 public:
  explicit ByMeter(std::unique_ptr<manager::Meter> meter) : meter_(std::move(meter)) {}

  Result<u64> owner_bytes(const Guests &guests) override {
    u64 owner = 0;
    for (size_t i = 0; i < meter_->gpus().size(); i++) {
      CKPT_TRY(manager::Reading reading, meter_->read(i));
      if (!reading.processes)
        return fail_with_hint("the driver does not report what each process holds",
                              "start ckpt-idled outside of containers, as root, or with "
                              "--device-memory=ckptd");
      u64 held = less(meter_->gpus()[i].total, reading.free);
      for (const manager::Reading::Process &p : *reading.processes)
        if (guests.has(p.pid)) held = less(held, p.bytes);
      owner += held;
    }
    return owner;
  }

 private:
  std::unique_ptr<manager::Meter> meter_;
};

class ByManager final : public DeviceMemory {
 public:
  explicit ByManager(std::string socket) : socket_(std::move(socket)) {}

  Result<u64> owner_bytes(const Guests &guests) override {
    CKPT_TRY(UniqueFd socket, connect_manager(socket_));
    CKPT_TRY(json status, manager_status(socket.get()));
    u64 held = 0;
    for (const json &gpu : json_list(status, "gpus"))
      held += less(json_value(gpu, "total_bytes", u64{0}), json_value(gpu, "free_bytes", u64{0}));
    for (const json &p : json_list(status, "programs"))
      if (guests.has(json_value(p, "pid", 0)) && json_member(p, "gpu").is_string())
        held = less(held, json_value(p, "used_bytes", u64{0}) +
                              json_value(p, "variable_bytes", u64{0}) + context_bytes(status, p));
    return held;
  }

 private:
  static u64 context_bytes(const json &status, const json &program) {
    if (!json_value(program, "context", false)) return 0;
    for (const json &gpu : json_list(status, "gpus"))
      if (json_string(gpu, "uuid") == json_string(program, "gpu"))
        return json_value(gpu, "context_bytes", u64{0});
    return 0;
  }

  std::string socket_;
};

}  // namespace

std::unique_ptr<DeviceMemory> memory_by_meter(std::unique_ptr<manager::Meter> meter) {
  return std::make_unique<ByMeter>(std::move(meter));
}
std::unique_ptr<DeviceMemory> memory_by_manager(std::string socket) {
  return std::make_unique<ByManager>(std::move(socket));
}

Result<std::unique_ptr<DeviceMemory>> find_device_memory(const std::string &source,
                                                         const std::string &nvml_library,
                                                         const std::string &manager_socket) {
  bool automatic = source == "auto";
  if (source == "nvml" || (automatic && (has_nvidia_gpu() || !nvml_library.empty()))) {
    CKPT_TRY(std::unique_ptr<manager::Meter> meter,
             manager::open_nvml(nvml_library.empty() ? "libnvidia-ml.so.1" : nvml_library));
    return memory_by_meter(std::move(meter));
  }
  if (source == "ckptd" || (automatic && connect_manager(manager_socket)))
    return memory_by_manager(manager_socket);
  return nullptr;
}

BootMemory::BootMemory(std::string file) : file_(std::move(file)) {
  std::string text = contents_of(file_).value_or("");
  u64 bytes = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc() && end != text.data()) least_ = bytes;
}

u64 BootMemory::more_than_after_boot(u64 bytes) {
  if (!least_ || bytes < *least_) {
    least_ = bytes;
    if (Result<> r = replace_small_file(file_, std::to_string(bytes)); !r)
      log::warn("{}", r.error().what);
  }
  return bytes - *least_;
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// ckpt-cuda-proxy answers the tools' questions about CUDA devices. Unlike ckpt-ocl-proxy it serves
// no program's calls: the CUDA driver runs in the process of the program itself. A tool does not
// load the driver, so that a driver that crashes or hangs cannot take the tool along.
//
// A program that was started on a device of another node calls a server (remote/cuda). If it moves
// to this node, this process becomes that server.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>

#include "agent/protocol.h"
#include "ckpt_config.h"
#include "common/base/installation.h"
#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/ipc/unix_socket.h"
#include "driver-checkpoint/owner/owner_process.h"
#include "libckpt-cuda/proxy/device_check.h"
#include "libckpt-cuda/proxy/environment.h"
#include "libckpt-cuda/proxy/forwarded_check.h"
#include "libckpt-cuda/proxy/nvml.h"

namespace ckpt::cuda {
namespace {

using nlohmann::json;

void print(const json &j) {
  std::cout << j.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

// The software device finds its broker by a variable, as in the program.
void set_driver_variables(const RealDriver &driver) {
  json set = json_object(environment(driver, ""), "set");
  for (auto &[name, value] : set.items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 0);
}

json as_json(const RealDevice &d, const RealDriver &driver) {
  return {{"api", "cuda"},
          {"id", d.uuid},
          {"platform", driver.software ? "softcuda" : "NVIDIA"},
          {"name", d.name},
          {"uuid", d.uuid},
          {"memory_bytes", d.memory_bytes},
          {"capability", fmt::format("{}.{}", d.capability / 10, d.capability % 10)},
          {"driver", driver.path}};
}

int list() {
  RealDriver driver = find_driver();
  set_driver_variables(driver);
  Result<std::vector<RealDevice>> devices = list_devices(driver, false);
  if (!devices) {
    log::error(devices.error());
    return 1;
  }
  json all = json::array();
  for (const RealDevice &d : *devices) all.push_back(as_json(d, driver));
  print(all);
  return 0;
}

// Where nothing tells the others, the devices that this process sees.
std::vector<std::string> all_gpus(const std::vector<RealDevice> &visible) {
  std::vector<std::string> gpus = gpus_in_files();
  if (gpus.empty())
    for (const GpuMemory &gpu : ask_nvml()) gpus.push_back(gpu.uuid);
  if (gpus.empty())
    for (const RealDevice &d : visible) gpus.push_back(d.uuid);
  return gpus;
}

DeviceCheck check_installed(const json &requirements, const std::string &chosen) {
  if (!requirements.is_object())
    return {{"the image does not say what it requires of a CUDA device"}, {}};
  RealDriver driver = find_driver();
  set_driver_variables(driver);
  Result<std::vector<RealDevice>> devices = list_devices(driver, true);
  if (!devices) return {{devices.error().text()}, {}};
  if (is_forwarded(requirements))
    return check_forwarded(requirements, *devices, split_at_commas(chosen), driver.software);
  DeviceCheck c = check_devices(requirements, *devices, split_at_commas(chosen));
  complete_check(c, requirements, all_gpus(*devices), driver_version(driver));
  return c;
}

// Reads {"needs": {…}} from standard input.
int check(const std::string &chosen) {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  json input = json::parse(text, nullptr, false);
  DeviceCheck c = check_installed(json_member(input, "needs"), chosen);
  json map = json::array();
  for (auto &[from, to] : c.map) map.push_back({from, to});
  print({{"reasons", c.reasons}, {"map", map}});
  return c.reasons.empty() ? 0 : 1;
}

// Keeps the devices initialised until the program at the other end hangs up
// (driver-checkpoint/initialised_devices.h).
int serve(int connection) {
  RealDriver driver = find_driver();
  set_driver_variables(driver);
  if (Result<std::vector<RealDevice>> devices = list_devices(driver, false); !devices) {
    log::error(devices.error());
    return 1;
  }
  if (!send_message(connection, static_cast<u16>(protocol::Type::Ok))) return 1;
  (void)receive_message(connection);
  return 0;
}

// Tells the program at the other end of the GPUs' free memory (devices/outside_gpus.h).
int serve_memory(int connection) {
  RealDriver driver = find_driver();
  set_driver_variables(driver);
  load_nvml_of(driver);
  keep_nvml();
  if (!send_message(connection, static_cast<u16>(protocol::Type::Ok))) return 1;
  for (;;) {
    Result<std::optional<Message>> m = receive_message(connection);
    if (!m || !*m || (*m)->type != static_cast<u16>(protocol::Type::GpuMemoryWanted)) return 0;
    std::vector<GpuMemory> all = ask_nvml();
    Writer w;
    w.put(static_cast<u32>(all.size()));
    for (const GpuMemory &gpu : all) w.str(gpu.uuid).str(gpu.bus_id).put(gpu.free_bytes);
    if (!send_message(connection, static_cast<u16>(protocol::Type::Ok), w.bytes())) return 1;
  }
}

// Owns the device memory of the program at the other end while it is dumped
// (driver-checkpoint/owner/memory_owner.h).
int serve_owner(int connection, int control, u64 token) {
  RealDriver driver = find_driver();
  set_driver_variables(driver);
  return own_memory({driver.path, UniqueFd(connection), UniqueFd(control), token});
}

// The program may make its calls itself, with this driver and these devices (all if there is none),
// and hangs up then. Otherwise its first call comes. False: it has hung up.
bool program_calls(int connection, const std::string &driver, const std::string &devices) {
  std::vector<std::string> chosen = split_at_commas(devices);
  Writer offer;
  offer.str(driver).put(static_cast<u32>(chosen.size()));
  for (const std::string &d : chosen) offer.str(d);
  if (!send_message(connection, static_cast<u16>(protocol::Type::Ok), offer.bytes())) return false;
  char first = 0;
  ssize_t n = 0;
  do n = ::recv(connection, &first, sizeof first, MSG_PEEK);
  while (n < 0 && errno == EINTR);
  return n > 0;
}

// Becomes ckpt-cuda-server, which serves the calls of the program at the other end.
int become_server(int connection, const std::string &devices) {
  RealDriver driver = find_driver();
  json set = json_object(environment(driver, devices), "set");
  if (set.empty()) {
    log::error("this node has no CUDA driver");
    return 1;
  }
  for (auto &[name, value] : set.items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  constexpr const char *kName = "ckpt-cuda-server";
  std::string server = internal_executable("remote/cuda", kName);
  if (!program_calls(connection, driver.path, devices)) return 0;
  std::string number = std::to_string(connection);
  ::execl(server.c_str(), kName, "--serve", number.c_str(), nullptr);
  log::error("cannot start {}: {}", kName, std::strerror(errno));
  return 1;
}

int run(int argc, char **argv) {
  CLI::App app{"answers the questions of ckpt's tools about CUDA devices"};
  app.set_version_flag("--version", CKPT_VERSION);
  bool want_list = false, want_check = false, want_environment = false;
  std::string devices;
  app.add_flag("--list", want_list, "print the devices as JSON");
  app.add_flag("--check", want_check,
               "read an image's requirements from standard input, and print as JSON which devices "
               "can take it over, or why they cannot");
  app.add_flag("--environment", want_environment,
               "print as JSON the environment that makes a program load ckpt's libcuda.so.1");
  app.add_option("--device", devices, "UUIDs of the devices that may be used, separated by commas");
  std::optional<int> connection;
  app.add_option("--serve", connection, "a connection: keep the devices initialised until it ends");
  bool calls = false;
  app.add_flag("--calls", calls,
               "with --serve: serve the driver calls of a program that was started on another "
               "node's device");
  bool memory = false;
  app.add_flag("--memory", memory, "with --serve: tell a program of the devices' free memory");
  bool owner = false;
  int control = -1;
  u64 token = 0;
  app.add_flag("--owner", owner, "with --serve: own a program's device memory during a dump");
  app.add_option("--control", control, "with --owner: the keeper's descriptor");
  app.add_option("--token", token, "with --owner: the keeper's name for this process");
  app.allow_extras();  // what the keeper says to all proxies
  CLI11_PARSE(app, argc, argv);
  if (connection && owner) return serve_owner(*connection, control, token);
  if (connection && memory) return serve_memory(*connection);
  if (connection) return calls ? become_server(*connection, devices) : serve(*connection);
  if (want_list) return list();
  if (want_check) return check(devices);
  if (want_environment) {
    print(environment(find_driver(), devices));
    return 0;
  }
  std::cerr << app.help();
  return 2;
}

}  // namespace
}  // namespace ckpt::cuda

int main(int argc, char **argv) {
  ckpt::log::set_name("ckpt-cuda-proxy");
  return ckpt::cuda::run(argc, argv);
}

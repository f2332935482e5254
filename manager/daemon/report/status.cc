// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/report/status.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "manager/daemon/report/profiles_file.h"

namespace ckpt::manager {
namespace {

using nlohmann::json;

// Programs choose their names, which need not be valid UTF-8.
std::string text(const json &j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

json apis_as_json(u32 apis) {
  json names = json::array();
  if (apis & managed::kCuda) names.push_back("cuda");
  if (apis & managed::kOpenCl) names.push_back("opencl");
  return names;
}

json gpu_as_json(const Gpu &gpu, const GpuAccount &account, const Meter &meter, size_t index) {
  json j = {{"uuid", gpu.uuid},
            {"name", meter.gpus()[index].name},
            {"total_bytes", gpu.total},
            {"free_bytes", account.free},
            {"measured", gpu.measured},
            {"apis", apis_as_json(gpu.apis)},
            {"reserved_bytes", account.reserved},
            {"staying_bytes", account.staying},
            {"programs", account.programs},
            {"others", gpu.foreign},
            {"exclusive", account.exclusive != nullptr}};
  if (std::optional<Power> power = meter.power(index)) {
    j["watts"] = power->watts;
    if (power->joules) j["joules"] = *power->joules;
  }
  if (std::optional<Utilization> used = meter.utilization(index)) {
    j["utilization"] = used->kernels;
    j["memory_utilization"] = used->memory;
  }
  j["context_bytes"] = gpu.context_known ? json(gpu.context_bytes) : json();
  return j;
}

json program_as_json(const Program &p, const std::vector<Gpu> &gpus) {
  json j = {{"pid", p.pid},
            {"name", p.name},
            {"priority", p.priority},
            {"apis", apis_as_json(p.apis)},
            {"state", p.suspended_by_tool() ? "suspended" : name_of(p.phase())},
            {"used_bytes", p.used},
            {"variable_bytes", p.variables},
            {"requested_bytes", p.requested()},
            {"expected_bytes", p.workload.expected},
            {"kept_bytes", p.contents().bytes},
            {"kept_on_disk", p.contents().on_disk},
            {"exclusive", p.alone()},
            {"context", p.context()},
            {"waits", p.waiting() || p.blocked()},
            {"answers", !p.unresponsive()},
            {"evictions", p.evictions},
            {"passed_over", p.workload.times_skipped}};
  j["gpu"] = p.gpu() == kNoGpu ? json() : json(gpus[static_cast<size_t>(p.gpu())].uuid);
  if (const Stay *stay = p.stay()) {
    j["stays_on"] = gpus[static_cast<size_t>(stay->gpu)].uuid;
    j["stays_bytes"] = stay->bytes;
  }
  if (!p.cannot_leave.empty()) j["cannot_be_suspended"] = p.cannot_leave;
  for (const auto &[gpu, why] : p.unsuited)
    j["unsuited"][gpus[static_cast<size_t>(gpu)].uuid] = why;
  return j;
}

// A program says itself how old it is, when it joins a new Manager.
u64 seconds_since(Time begin, Time now) {
  return static_cast<u64>(std::max(now - begin, Time(0)).count() / 1'000'000);
}

}  // namespace

std::string status_as_json(const Policy &policy, const Meter &meter, const Users &users, Time now,
                           const EnergyShares &energy) {
  Accounting accounting = policy.accounting();
  json gpus = json::array(), programs = json::array();
  for (size_t i = 0; i < accounting.gpus.size(); i++)
    gpus.push_back(gpu_as_json(policy.gpus()[i], accounting.gpus[i], meter, i));
  for (const auto &p : policy.programs()) {
    programs.push_back(program_as_json(*p, policy.gpus()));
    programs.back()["seconds"] = seconds_since(p->arrived, now);
    if (std::optional<double> joules = energy.of(p->id)) programs.back()["joules"] = *joules;
    if (auto user = users.find(p->id); user != users.end()) programs.back()["uid"] = user->second;
  }
  json interference = json::array();
  for (const Interference::Finding &f : policy.findings())
    interference.push_back({{"a", policy.profiles().name(f.a)},
                            {"b", policy.profiles().name(f.b)},
                            {"throughput", f.throughput},
                            {"kept_apart", f.kept_apart}});
  return text({{"gpus", gpus},
               {"profiles", profiles_as_json(policy.profiles().facts())},
               {"interference", interference},
               {"programs", programs},
               {"host_kept_bytes", accounting.host_kept},
               {"disk_kept_bytes", accounting.disk_kept}});
}

std::string journal_line(Time now, const char *direction, ProgramId program, const char *message,
                         const Program *state) {
  json j = {{"us", now.count()}, {"program", program}, {direction, message}};
  if (state != nullptr)
    j.update({{"pid", state->pid},
              {"name", state->name},
              {"state", name_of(state->phase())},
              {"gpu", state->gpu()},
              {"used_bytes", state->used}});
  return text(j);
}

}  // namespace ckpt::manager

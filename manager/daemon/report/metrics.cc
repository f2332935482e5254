// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/report/metrics.h"

#include <algorithm>

#include <fmt/format.h>

#include "ckpt_config.h"
#include "common/base/metrics_text.h"

namespace ckpt::manager {
namespace {

using Text = MetricsText;

void put_gpus(Text &text, const Policy &policy, const Accounting &accounting, const Meter &meter) {
  auto gauge = [&](const char *name, const char *help, auto value) {
    text.metric(name, "gauge", help);
    for (size_t g = 0; g < accounting.gpus.size(); g++)
      text.sample(value(policy.gpus()[g], accounting.gpus[g]), {{"gpu", policy.gpus()[g].uuid}});
  };
  gauge("ckpt_gpu_memory_bytes", "Memory of the GPU.",
        [](const Gpu &g, const GpuAccount &) { return g.total; });
  gauge("ckpt_gpu_free_bytes", "Free memory of the GPU, as it was last measured.",
        [](const Gpu &, const GpuAccount &b) { return b.free; });
  gauge("ckpt_gpu_reserved_bytes", "Free memory that is promised to programs.",
        [](const Gpu &, const GpuAccount &b) { return b.reserved; });
  gauge("ckpt_gpu_staying_bytes", "Used memory that evicted programs give back if it is needed.",
        [](const Gpu &, const GpuAccount &b) { return b.staying; });
  gauge("ckpt_gpu_programs", "Programs on the GPU.",
        [](const Gpu &, const GpuAccount &b) { return b.programs; });
  gauge("ckpt_gpu_exclusive", "1 if one program has the GPU for itself, or will.",
        [](const Gpu &, const GpuAccount &b) { return b.exclusive != nullptr ? 1 : 0; });
  text.metric("ckpt_gpu_info", "gauge", "Always 1.");
  for (const MeteredGpu &g : meter.gpus()) text.sample(1, {{"gpu", g.uuid}, {"name", g.name}});
}

// Devices without a sensor have no sample.
void put_power(Text &text, const Meter &meter, const EnergyShares &energy) {
  std::vector<std::optional<Power>> all;
  for (size_t g = 0; g < meter.gpus().size(); g++) all.push_back(meter.power(g));
  text.metric("ckpt_gpu_power_watts", "gauge", "Power of the GPU, by NVML.");
  for (size_t g = 0; g < all.size(); g++)
    if (all[g]) text.sample(all[g]->watts, {{"gpu", meter.gpus()[g].uuid}});
  text.metric("ckpt_gpu_energy_joules_total", "counter",
              "Energy of the GPU since its driver was loaded, by NVML.");
  for (size_t g = 0; g < all.size(); g++)
    if (all[g] && all[g]->joules) text.sample(*all[g]->joules, {{"gpu", meter.gpus()[g].uuid}});
  text.metric("ckpt_gpu_programs_energy_joules_total", "counter",
              "The part of it that programs had, by the time of their kernels.");
  for (size_t g = 0; g < all.size(); g++)
    if (std::optional<double> joules = energy.of_programs(g); joules && all[g] && all[g]->joules)
      text.sample(*joules, {{"gpu", meter.gpus()[g].uuid}});
}

// There is no sample for a device if its driver does not report it.
void put_utilization(Text &text, const Meter &meter) {
  std::vector<std::optional<Utilization>> all;
  for (size_t g = 0; g < meter.gpus().size(); g++) all.push_back(meter.utilization(g));
  text.metric("ckpt_gpu_utilization_ratio", "gauge",
              "Share of NVML's last sample period in which kernels ran on the GPU.");
  for (size_t g = 0; g < all.size(); g++)
    if (all[g]) text.sample(all[g]->kernels, {{"gpu", meter.gpus()[g].uuid}});
  text.metric("ckpt_gpu_memory_utilization_ratio", "gauge",
              "Share of NVML's last sample period in which the GPU's memory was read or written.");
  for (size_t g = 0; g < all.size(); g++)
    if (all[g]) text.sample(all[g]->memory, {{"gpu", meter.gpus()[g].uuid}});
}

void put_programs(Text &text, const Policy &policy, const Accounting &accounting) {
  text.metric("ckpt_programs", "gauge", "Programs by state.");
  auto count = [&](auto holds) { return std::ranges::count_if(policy.programs(), holds); };
  for (Phase phase : {Phase::Unassigned, Phase::Pending, Phase::Assigned, Phase::Evicting,
                      Phase::Evicted, Phase::Resuming})
    text.sample(
        count([&](const auto &p) { return !p->suspended_by_tool() && p->phase() == phase; }),
        {{"state", name_of(phase)}});
  text.sample(count([](const auto &p) { return p->suspended_by_tool(); }),
              {{"state", "suspended"}});
  text.metric("ckpt_programs_waiting", "gauge", "Programs that wait for a GPU or for memory.")
      .sample(count([](const auto &p) { return p->waiting() || p->blocked(); }));
  text.metric("ckpt_kept_bytes", "gauge", "Contents of evicted programs.")
      .sample(accounting.host_kept, {{"where", "memory"}})
      .sample(accounting.disk_kept, {{"where", "disk"}});
}

void put_events(Text &text, const Counters &c) {
  text.metric("ckpt_evictions_total", "counter", "Evictions of programs from a GPU.")
      .sample(c.evictions);
  text.metric("ckpt_resumes_total", "counter", "Evicted programs that have resumed.")
      .sample(c.resumes);
  text.metric("ckpt_migrations_total", "counter", "Programs that have resumed on another GPU.")
      .sample(c.migrations);
  text.metric("ckpt_moved_bytes_total", "counter", "Contents moved by evictions and resumptions.")
      .sample(c.bytes_out, {{"direction", "out"}})
      .sample(c.bytes_in, {{"direction", "in"}});
  text.metric("ckpt_evicted_seconds_total", "counter",
              "Time for which resumed programs were evicted.")
      .sample(seconds(c.away));
  text.metric("ckpt_waits_total", "counter", "Requests that were granted after a wait.")
      .sample(c.waits);
  text.metric("ckpt_wait_seconds_total", "counter", "Time that granted requests have waited.")
      .sample(seconds(c.waited));
  text.metric("ckpt_denials_total", "counter", "Requests denied with an out-of-memory error.")
      .sample(c.denials);
}

void put_decisions(Text &text, const Counters &c) {
  text.metric("ckpt_decision_seconds", "histogram", "Time of one decision, without measurements.");
  text.histogram(c.decisions, Counters::kBucketSeconds, c.deciding.count());
}

void put_messages(Text &text, const Counters &c) {
  text.metric("ckpt_messages_total", "counter", "Messages from and to programs.");
  for (auto &[name, n] : c.from_programs)
    text.sample(n, {{"direction", "from"}, {"message", name}});
  for (auto &[name, n] : c.to_programs) text.sample(n, {{"direction", "to"}, {"message", name}});
}

}  // namespace

std::string metrics_text(const Policy &policy, const Meter &meter, const Counters &counters,
                         const EnergyShares &energy) {
  Text text;
  Accounting accounting = policy.accounting();
  text.metric("ckptd_build_info", "gauge", "Always 1; the version of ckptd.")
      .sample(1, {{"version", CKPT_VERSION}});
  put_gpus(text, policy, accounting, meter);
  put_power(text, meter, energy);
  put_utilization(text, meter);
  put_programs(text, policy, accounting);
  put_events(text, counters);
  put_decisions(text, counters);
  put_messages(text, counters);
  return text.take();
}

}  // namespace ckpt::manager

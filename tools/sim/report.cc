// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/report.h"

namespace ckpt::tools {

using namespace schedule;

Means means_of(const Workload &w, const Outcome &o) {
  Means m;
  size_t n = w.jobs.size() - o.impossible;
  if (n == 0) return m;
  for (size_t i = 0; i < w.jobs.size(); i++) {
    const JobResult &r = o.jobs[i];
    if (r.end == 0) continue;
    m.turnaround += seconds_of(r.turnaround(w.jobs[i]));
    m.execution += seconds_of(r.execution);
    m.migration += seconds_of(r.migration);
    m.wait_a += seconds_of(r.wait_a);
    m.wait_b += seconds_of(r.wait_b);
    m.moves += r.moves;
  }
  for (double *mean : {&m.turnaround, &m.execution, &m.migration, &m.wait_a, &m.wait_b, &m.moves})
    *mean /= static_cast<double>(n);
  return m;
}

std::string table_of(const std::vector<Run> &runs, bool with_load) {
  std::string text;
  if (with_load) text += " load  ";
  text +=
      "policy   / MCT  turnaround   execution   migration      wait A      wait B  moves   jobs\n";
  for (const Run &r : runs) {
    if (with_load) text += fmt::format("{:5.2f}  ", r.load);
    std::string ratio = r.to_mct > 0 ? fmt::format("{:.3f}", r.to_mct) : "-";
    const Means &m = r.means;
    text += fmt::format("{:<7}{:>7}{:>12.1f}{:>12.1f}{:>12.1f}{:>12.1f}{:>12.1f}{:>7.2f} {:>6}\n",
                        name_of(r.policy), ratio, m.turnaround, m.execution, m.migration, m.wait_a,
                        m.wait_b, m.moves, r.jobs - r.impossible);
  }
  text += "(means in seconds)\n";
  if (!runs.empty() && runs[0].impossible > 0)
    text += fmt::format("{} jobs fit on no class: they need more nodes, or name other classes\n",
                        runs[0].impossible);
  if (!runs.empty() && runs[0].left_out > 0)
    text += fmt::format("{} records were left out: they have no run time, no nodes or no GPU\n",
                        runs[0].left_out);
  return text;
}

nlohmann::json json_of(const std::vector<Run> &runs, bool with_load) {
  nlohmann::json all = nlohmann::json::array();
  for (const Run &r : runs) {
    nlohmann::json j = {{"policy", name_of(r.policy)},      {"jobs", r.jobs},
                        {"impossible", r.impossible},       {"left_out", r.left_out},
                        {"turnaround", r.means.turnaround}, {"execution", r.means.execution},
                        {"migration", r.means.migration},   {"wait_a", r.means.wait_a},
                        {"wait_b", r.means.wait_b},         {"moves", r.means.moves}};
    if (with_load) j["load"] = r.load;
    if (r.to_mct > 0) j["to_mct"] = r.to_mct;
    all.push_back(std::move(j));
  }
  return {{"unit", "s"}, {"runs", all}};
}

std::string outcome_header() {
  return "load,policy,job,submit,start,end,execution,migration,wait_a,wait_b,moves\n";
}

std::string outcome_lines(const Workload &w, const Run &run, const Outcome &o) {
  std::string text;
  for (size_t i = 0; i < w.jobs.size(); i++) {
    const JobResult &r = o.jobs[i];
    if (r.end == 0) continue;  // it fits on no class
    text +=
        fmt::format("{:.3f},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{}\n", run.load,
                    name_of(run.policy), i + 1, seconds_of(w.jobs[i].submit), seconds_of(r.start),
                    seconds_of(r.end), seconds_of(r.execution), seconds_of(r.migration),
                    seconds_of(r.wait_a), seconds_of(r.wait_b), r.moves);
  }
  return text;
}

}  // namespace ckpt::tools

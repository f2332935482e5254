// SPDX-License-Identifier: Apache-2.0
#include "tools/fatbin/commands.h"

namespace ckpt::tools {
namespace {

using namespace fatbin;
using nlohmann::json;

json entry_json(const Entry &e) {
  json j = {{"kind", name_of(e.kind)},
            {"target", e.target()},
            {"compression", name_of(e.compression)},
            {"stored_bytes", e.stored_bytes},
            {"bytes", e.bytes},
            {"debug", e.debug()},
            {"flags", e.flags}};
  if (!e.name.empty()) j["name"] = e.name;
  if (!e.options.empty()) j["options"] = e.options;
  return j;
}

json containers_json(const Image &image) {
  json out = json::array();
  for (const Container &c : image.containers()) {
    json entries = json::array();
    for (const Entry &e : c.entries) entries.push_back(entry_json(e));
    out.push_back({{"offset", c.at},
                   {"bytes", c.bytes},
                   {"role", c.role == Role::Unit ? "unit" : "loaded"},
                   {"entries", entries}});
  }
  return out;
}

json kernel_json(const KernelSummary &s) {
  json parameters = json::array();
  for (const Parameter &p : s.kernel.parameters)
    parameters.push_back({{"offset", p.offset}, {"bytes", p.bytes}});
  return {{"name", s.kernel.name},
          {"parameters", parameters},
          {"parameter_bytes", s.kernel.parameter_bytes},
          {"targets", s.targets},
          {"differs", s.differs}};
}

json variable_json(const VariableSummary &s) {
  return {{"name", s.variable.name},
          {"space", name_of(s.variable.space)},
          {"bytes", s.variable.bytes},
          {"targets", s.targets},
          {"differs", s.differs}};
}

void add_summary(json &out, const Summary &s) {
  out["heap"] = {{"use", name_of(s.heap.use)}, {"reason", s.heap.reason}};
  out["printf"] = s.prints;
  out["dynamic_parallelism"] = s.launches;
  out["textures"] = name_of(s.textures);
  out["surfaces"] = name_of(s.surfaces);
  out["kernels"] = out["variables"] = out["references"] = out["unexamined"] = json::array();
  for (const auto &[name, k] : s.kernels) out["kernels"].push_back(kernel_json(k));
  for (const auto &[name, v] : s.variables) out["variables"].push_back(variable_json(v));
  for (const auto &[name, kind] : s.references)
    out["references"].push_back({{"name", name}, {"kind", name_of(kind)}});
  for (const Unexamined &u : s.unexamined)
    out["unexamined"].push_back(
        {{"entry", fmt::format("{}.{}", u.container, u.entry)}, {"reason", u.reason}});
}

}  // namespace

json show_json(const std::string &path, const Image &image, const Summary *summary) {
  json out = {
      {"file", path},
      {"form", name_of(image.form())},
      {"runtime", {{"kind", name_of(image.runtime().runtime)}, {"reason", image.runtime().reason}}},
      {"fat_binaries", containers_json(image)}};
  if (summary) add_summary(out, *summary);
  return out;
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "softcuda/device/model.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace ckpt::softcuda {
namespace {

double *field(Model &m, const std::string &name) {
  return name == "compute"   ? &m.compute
         : name == "memory"  ? &m.memory
         : name == "copy"    ? &m.copy
         : name == "launch"  ? &m.launch
         : name == "switch"  ? &m.switch_cost
         : name == "mapped"  ? &m.mapped
         : name == "crowd"   ? &m.crowd
         : name == "idle"    ? &m.idle
         : name == "active"  ? &m.active
         : name == "copying" ? &m.copying
                             : nullptr;
}

}  // namespace

Result<Model> read_model(const std::string &path) {
  std::ifstream in(path);
  if (!in)
    return fail_with_hint(fmt::format("cannot read the device model {}", path),
                          "CKPT_SOFTCUDA_MODEL must name a readable file");
  Model m;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, rest;
    double value = 0;
    if (!(words >> name)) continue;
    double *at = field(m, name);
    if (at == nullptr || !(words >> value) || value < 0 || (words >> rest))
      return fail_with_hint(
          fmt::format("{}:{}: '{}' is invalid", path, number, line),
          "valid lines are: compute RATE, memory RATE, copy RATE, launch SECONDS, switch "
          "SECONDS, mapped PART, crowd PART, idle WATTS, active WATTS, copying WATTS");
    *at = value;
  }
  return m;
}

Result<std::optional<Model>> model_of_environment() {
  const char *path = std::getenv("CKPT_SOFTCUDA_MODEL");
  if (path == nullptr || *path == '\0') return std::nullopt;
  CKPT_TRY(Model m, read_model(path));
  return m;
}

}  // namespace ckpt::softcuda

// SPDX-License-Identifier: Apache-2.0
//
// ckpt-cuda-proxy: what tools ask of CUDA devices. The driver itself is in the programs that use it
// (design decision 1), so there is nothing to serve.
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "libckpt-cuda/proxy/check.h"
#include "libckpt-cuda/proxy/environment.h"

namespace ckpt::cuda {
namespace {

using nlohmann::json;

void print(const json &j) {
  std::cout << j.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

std::vector<std::string> words_of(const std::string &list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

// A driver may be told by variables where the rest of it is.
void use_its_parts(const RealDriver &driver) {
  json set = environment(driver, "").value("set", json::object());
  for (auto &[name, value] : set.items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 0);
}

int list() {
  RealDriver driver = find_driver();
  use_its_parts(driver);
  Result<std::vector<RealDevice>> devices = list_devices(driver, false);
  if (!devices) return log::error(devices.error()), 1;
  json all = json::array();
  for (const RealDevice &d : *devices)
    all.push_back({{"api", "cuda"},
                   {"id", d.uuid},
                   {"platform", driver.software ? "softcuda" : "NVIDIA"},
                   {"name", d.name},
                   {"uuid", d.uuid},
                   {"memory_bytes", d.memory_bytes},
                   {"capability", fmt::format("{}.{}", d.capability / 10, d.capability % 10)},
                   {"driver", driver.path}});
  print(all);
  return 0;
}

int check(const std::string &chosen) {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  json input = json::parse(text, nullptr, false);
  json needs = input.is_object() ? input.value("needs", json()) : json();
  Verdict v;
  RealDriver driver = find_driver();
  use_its_parts(driver);
  Result<std::vector<RealDevice>> devices = list_devices(driver, true);
  if (!needs.is_object())
    v.reasons.push_back("the image does not say what it needs of a CUDA device");
  else if (!devices)
    v.reasons.push_back(devices.error().text());
  else
    v = check_needs(needs, *devices, words_of(chosen));
  json map = json::array();
  for (auto &[from, to] : v.map) map.push_back({from, to});
  print({{"reasons", v.reasons}, {"map", map}});
  return v.reasons.empty() ? 0 : 1;
}

int run(int argc, char **argv) {
  CLI::App app{"says what ckpt's tools ask about CUDA devices"};
  app.set_version_flag("--version", CKPT_VERSION);
  bool want_list = false, want_check = false, want_environment = false;
  std::string devices;
  app.add_flag("--list", want_list, "print the devices as JSON");
  app.add_flag("--check", want_check,
               "read what an image needs, print why the devices cannot give it");
  app.add_flag("--environment", want_environment, "print how a program is led to our library");
  app.add_option("--device", devices, "UUIDs of the devices that may be used, by commas");
  CLI11_PARSE(app, argc, argv);
  if (want_list) return list();
  if (want_check) return check(devices);
  if (want_environment) return print(environment(find_driver(), devices)), 0;
  std::cerr << app.help();
  return 2;
}

}  // namespace
}  // namespace ckpt::cuda

int main(int argc, char **argv) {
  ckpt::log::set_name("ckpt-cuda-proxy");
  return ckpt::cuda::run(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/processor.h"

#include <algorithm>
#include <array>

#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

// The names of x86 that are instructions for programs; the others tell of the kernel's use,
// of virtualization and of speed. Whole families by their beginning.
constexpr std::array<std::string_view, 53> kInstructions{
    "3dnow",     "3dnowext",   "abm",        "adx",    "aes",       "bmi1",     "bmi2",
    "cldemote",  "clflush",    "clflushopt", "clwb",   "clzero",    "cmov",     "cx16",
    "cx8",       "enqcmd",     "f16c",       "fma",    "fma4",      "fsgsbase", "fxsr",
    "gfni",      "hle",        "lahf_lm",    "lwp",    "mmx",       "mmxext",   "movbe",
    "movdir64b", "movdiri",    "mwaitx",     "ospke",  "pclmulqdq", "pku",      "pni",
    "popcnt",    "prefetchi",  "ptwrite",    "rdpid",  "rdrand",    "rdseed",   "rdtscp",
    "rtm",       "serialize",  "sha512",     "sha_ni", "ssse3",     "tbm",      "user_shstk",
    "vaes",      "vpclmulqdq", "waitpkg",    "xop"};
constexpr std::array<std::string_view, 5> kFamilies{"amx", "avx", "sse", "xgetbv", "xsave"};

bool is_for_programs(std::string_view name) {
  return std::ranges::find(kInstructions, name) != kInstructions.end() ||
         std::ranges::any_of(kFamilies, [&](std::string_view f) { return name.starts_with(f); });
}

std::set<std::string> words_of(std::string_view line) {
  std::set<std::string> words;
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.emplace(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// What follows "NAME\t: " in the first line of this name.
std::string_view value_in(std::string_view cpuinfo, std::string_view name) {
  for (size_t at = 0; at < cpuinfo.size();) {
    std::string_view line = cpuinfo.substr(at, cpuinfo.find('\n', at) - at);
    size_t colon = line.find(':');
    if (line.starts_with(name) && colon != line.npos &&
        line.find_first_not_of(" \t", name.size()) == colon)
      return line.substr(colon + 1);
    at += line.size() + 1;
  }
  return {};
}

}  // namespace

std::set<std::string> processor_features_in(std::string_view cpuinfo) {
  std::set<std::string> of_x86 = words_of(value_in(cpuinfo, "flags"));
  std::erase_if(of_x86, [](const std::string &name) { return !is_for_programs(name); });
  if (!of_x86.empty()) return of_x86;
  return words_of(value_in(cpuinfo, "Features"));  // of ARM: all are for programs
}

std::string processor_model() {
  std::string cpuinfo = proc::text_of_machine("cpuinfo");
  std::string_view model = value_in(cpuinfo, "model name");
  model.remove_prefix(std::min(model.find_first_not_of(' '), model.size()));
  return std::string(model);
}

std::set<std::string> processor_features() {
  return processor_features_in(proc::text_of_machine("cpuinfo"));
}

}  // namespace ckpt::tools

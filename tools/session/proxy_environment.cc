// SPDX-License-Identifier: Apache-2.0
#include "tools/session/proxy_environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "common/base/bytes.h"

namespace ckpt::tools {
namespace {

// The kernel accepts at most 6 MiB of arguments and environment (three quarters of _STK_LIM).
constexpr u64 kMaxEnvironmentBytes = 6u << 20;
// One variable may have at most 128 KiB (MAX_ARG_STRLEN); execve(2) would fail.
constexpr size_t kMaxEntryBytes = 128u << 10;

bool is_keepers_own(std::string_view name, const ProgramEnvironment &program) {
  bool loader = name.starts_with("LD_") && name != "LD_LIBRARY_PATH";
  auto same = [&](const auto &x) { return x.first == name; };
  bool led = std::ranges::any_of(program.set, same) && !std::ranges::any_of(program.front, same);
  return loader || led || name.starts_with("CKPT_") || name == "OPENCL_LAYERS" ||
         std::ranges::find(program.without, name) != program.without.end();
}

// A list of paths without those that ckpt-run has put in front.
std::string without_front(const std::string &paths, const std::string &front) {
  std::set<std::string> ours;
  std::istringstream in_front(front), all(paths);
  for (std::string one; std::getline(in_front, one, ':');) ours.insert(one);
  std::string left;
  for (std::string one; std::getline(all, one, ':');)
    if (!ours.contains(one)) left += (left.empty() ? "" : ":") + one;
  return left;
}

}  // namespace

Result<std::vector<std::string>> read_environment(int file) {
  struct stat st {};
  if (::fstat(file, &st) < 0 || !S_ISREG(st.st_mode) ||
      static_cast<u64>(st.st_size) > kMaxEnvironmentBytes)
    return fail("the program's environment is not a file of at most {} bytes",
                kMaxEnvironmentBytes);
  std::string all(static_cast<size_t>(st.st_size), '\0');
  ssize_t n = ::pread(file, all.data(), all.size(), 0);
  if (n < 0) return fail_errno("cannot read the program's environment");
  all.resize(static_cast<size_t>(n));
  std::vector<std::string> entries;
  std::istringstream in(all);
  for (std::string entry; std::getline(in, entry, '\0');) entries.push_back(entry);
  return entries;
}

EnvironmentChanges proxy_environment(const std::vector<std::string> &entries,
                                     const ProgramEnvironment &program) {
  EnvironmentChanges changes;
  std::set<std::string> seen;
  for (const std::string &entry : entries) {
    size_t equals = entry.find('=');
    std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || name.empty() || entry.size() >= kMaxEntryBytes) continue;
    if (is_keepers_own(name, program)) continue;
    std::string value = entry.substr(equals + 1);
    for (const auto &[list, front] : program.front)
      if (list == name) value = without_front(value, front);
    seen.insert(name);
    changes.set.emplace_back(name, value);
  }
  for (char **e = environ; *e; e++) {
    std::string_view entry = *e;
    std::string name(entry.substr(0, entry.find('=')));
    if (!seen.contains(name) && !is_keepers_own(name, program)) changes.without.push_back(name);
  }
  return changes;
}

}  // namespace ckpt::tools

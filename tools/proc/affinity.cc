// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/affinity.h"

#include <sched.h>

#include <array>
#include <charconv>

namespace ckpt::tools {
namespace {

constexpr int kProcessors = 8192;  // as many as Linux supports (CONFIG_NR_CPUS)
constexpr size_t kBytes = kProcessors / 8;
using Set = std::array<cpu_set_t, kBytes / sizeof(cpu_set_t)>;

// Digits only.
std::optional<int> number(std::string_view text) {
  int n = 0;
  const char *end = text.data() + text.size();
  auto [read, error] = std::from_chars(text.data(), end, n);
  if (error != std::errc() || read != end || n < 0) return std::nullopt;
  return n;
}

}  // namespace

Affinity Affinity::of(pid_t thread) {
  Set set{};
  if (::sched_getaffinity(thread, kBytes, set.data()) != 0) return {};
  Affinity a;
  for (int n = 0, left = CPU_COUNT_S(kBytes, set.data()); left > 0; n++) {
    if (!CPU_ISSET_S(n, kBytes, set.data())) continue;
    left--;
    if (a.empty() || a.ranges_.back().second != n - 1)
      a.ranges_.emplace_back(n, n);
    else
      a.ranges_.back().second = n;
  }
  return a;
}

std::optional<Affinity> Affinity::parse(std::string_view list) {
  Affinity a;
  for (;;) {
    size_t comma = list.find(',');
    if (!a.add(list.substr(0, comma))) return std::nullopt;
    if (comma == std::string_view::npos) return a;
    list.remove_prefix(comma + 1);
  }
}

// "8" or "0-3".
bool Affinity::add(std::string_view range) {
  size_t dash = range.find('-');
  std::optional<int> first = number(range.substr(0, dash)), last = first;
  if (dash != std::string_view::npos) last = number(range.substr(dash + 1));
  if (!first || !last || *first > *last || *last >= kProcessors) return false;
  if (!empty() && *first <= ranges_.back().second + 1) return false;
  ranges_.emplace_back(*first, *last);
  return true;
}

std::string Affinity::list() const {
  std::string text;
  for (auto [first, last] : ranges_) {
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::vector<int> Affinity::numbers() const {
  std::vector<int> all;
  for (auto [first, last] : ranges_)
    for (int n = first; n <= last; n++) all.push_back(n);
  return all;
}

Result<> Affinity::apply_to(pid_t thread) const {
  const std::string name = list();
  Set set{};
  for (auto [first, last] : ranges_)
    for (int n = first; n <= last; n++) CPU_SET_S(n, kBytes, set.data());
  if (::sched_setaffinity(thread, kBytes, set.data()) == 0) return {};
  return fail_errno("processors {}", name);
}

}  // namespace ckpt::tools

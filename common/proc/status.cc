// SPDX-License-Identifier: Apache-2.0
#include "common/proc/status.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <set>

#include "common/base/file_text.h"

namespace ckpt::proc {
namespace {

std::string_view next_word(std::string_view &line) {
  constexpr const char *kSpace = " \t";
  size_t begin = std::min(line.find_first_not_of(kSpace), line.size());
  size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
  std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

template <class T>
bool number(std::string_view word, T &value, int base = 10) {
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  return error == std::errc() && end == word.data() + word.size();
}

template <class T>
bool first_number(std::string_view line, T &value, int base = 10) {
  return number(next_word(line), value, base);
}

template <class T>
bool numbers(std::string_view line, std::array<T, 4> &values) {
  return std::ranges::all_of(values, [&](T &v) { return number(next_word(line), v); });
}

template <class T>
bool list(std::string_view line, std::vector<T> &values) {
  for (std::string_view word; !(word = next_word(line)).empty();)
    if (!number(word, values.emplace_back())) return false;
  return true;
}

// A process of our namespace or of one inside of it has at least one; others read as 0.
bool pids(std::string_view line, std::vector<pid_t> &values) {
  return list(line, values) && !values.empty() && values.back() > 0;
}

bool flag(std::string_view line, bool &set) {
  int value = 0;
  bool sound = first_number(line, value);
  set = value != 0;
  return sound;
}

bool letter(std::string_view line, char &value) {
  std::string_view word = next_word(line);
  value = word.empty() ? '?' : word.front();
  return !word.empty();
}

bool kibibytes(std::string_view line, u64 &bytes) {
  bool sound = first_number(line, bytes);
  bytes <<= 10;
  return sound;
}

constexpr int kHex = 16;

struct Field {
  std::string_view name;
  bool (*parse)(std::string_view line, Status &s);
  bool always = true;  // what is missing would otherwise read as "nothing"
};

using Line = std::string_view;
constexpr std::array kFields{
    Field{"State", [](Line l, Status &s) { return letter(l, s.state); }},
    Field{"PPid", [](Line l, Status &s) { return first_number(l, s.parent); }},
    Field{"TracerPid", [](Line l, Status &s) { return first_number(l, s.tracer); }},
    Field{"NSpid", [](Line l, Status &s) { return pids(l, s.pids); }},
    Field{"NSpgid", [](Line l, Status &s) { return list(l, s.groups_of_processes); }},
    Field{"NSsid", [](Line l, Status &s) { return list(l, s.sessions); }},
    Field{"Uid", [](Line l, Status &s) { return numbers(l, s.uids); }},
    Field{"Gid", [](Line l, Status &s) { return numbers(l, s.gids); }},
    Field{"Groups", [](Line l, Status &s) { return list(l, s.groups); }},
    Field{"ShdPnd", [](Line l, Status &s) { return first_number(l, s.pending_signals, kHex); }},
    Field{"CapInh", [](Line l, Status &s) { return first_number(l, s.inheritable, kHex); }},
    Field{"CapPrm", [](Line l, Status &s) { return first_number(l, s.permitted, kHex); }},
    Field{"CapEff", [](Line l, Status &s) { return first_number(l, s.effective, kHex); }},
    Field{"CapBnd", [](Line l, Status &s) { return first_number(l, s.bounding, kHex); }},
    Field{"CapAmb", [](Line l, Status &s) { return first_number(l, s.ambient, kHex); }},
    Field{"NoNewPrivs", [](Line l, Status &s) { return flag(l, s.no_new_privileges); }},
    Field{"Seccomp", [](Line l, Status &s) { return flag(l, s.seccomp); }},
    Field{"VmRSS", [](Line l, Status &s) { return kibibytes(l, s.resident_bytes); }, false},
};
constexpr auto kAlways = std::ranges::count_if(kFields, &Field::always);

Result<Status> read_status_file(const std::string &path) {
  CKPT_TRY(std::string text, file_text(path));
  std::optional<Status> status = parse_status(text);
  return status ? Result<Status>(std::move(*status)) : fail("{} cannot be parsed", path);
}

std::vector<pid_t> numbers_in(const std::string &folder) {
  std::vector<pid_t> all;
  std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(folder.c_str()), ::closedir);
  while (dirent *e = dir ? ::readdir(dir.get()) : nullptr)
    if (pid_t pid = 0; number(std::string_view(e->d_name), pid)) all.push_back(pid);
  std::ranges::sort(all);
  return all;
}

}  // namespace

bool Status::has_uid(uid_t uid) const {
  return std::ranges::all_of(uids, [uid](uid_t u) { return u == uid; });
}

std::optional<Status> parse_status(std::string_view text) {
  Status s;
  std::set<std::string_view> found;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t colon = line.find(':');
    if (colon == line.npos) continue;
    auto field = std::ranges::find(kFields, line.substr(0, colon), &Field::name);
    if (field == kFields.end()) continue;
    if (!field->parse(line.substr(colon + 1), s)) return std::nullopt;
    if (field->always && !found.insert(field->name).second) return std::nullopt;
  }
  return found.size() == kAlways ? std::optional(std::move(s)) : std::nullopt;
}

Result<Status> read_status(pid_t pid) {
  return read_status_file(fmt::format("/proc/{}/status", pid));
}

Result<Status> read_status(pid_t pid, pid_t thread) {
  return read_status_file(fmt::format("/proc/{}/task/{}/status", pid, thread));
}

std::vector<pid_t> processes() { return numbers_in("/proc"); }

std::vector<pid_t> threads_of(pid_t pid) { return numbers_in(fmt::format("/proc/{}/task", pid)); }

std::vector<int> descriptors_of(pid_t pid) { return numbers_in(fmt::format("/proc/{}/fd", pid)); }

std::vector<pid_t> tree_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (pid_t pid : processes())
    if (Result<Status> s = read_status(pid)) children.emplace(s->parent, pid);
  std::vector<pid_t> tree{root};
  std::set<pid_t> known{root};  // a PID that was used again may close a circle
  for (size_t i = 0; i < tree.size(); i++)
    for (auto [at, end] = children.equal_range(tree[i]); at != end; ++at)
      if (known.insert(at->second).second) tree.push_back(at->second);
  return tree;
}

// The 22nd field of /proc/PID/stat (proc_pid_stat(5)). The second, the name in brackets, may
// contain blanks and brackets.
Result<u64> start_ticks_of(pid_t pid) {
  constexpr int kSkipped = 19;
  std::string path = fmt::format("/proc/{}/stat", pid);
  CKPT_TRY(std::string text, file_text(path));
  std::string_view rest(text);
  rest.remove_prefix(std::min(rest.rfind(')') + 1, rest.size()));
  for (int i = 0; i < kSkipped; i++) next_word(rest);
  u64 ticks = 0;
  return first_number(rest, ticks) ? Result<u64>(ticks) : fail("{} cannot be parsed", path);
}

u64 namespace_inode(pid_t pid, const char *name) {
  struct stat st {};
  return ::stat(fmt::format("/proc/{}/ns/{}", pid, name).c_str(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace ckpt::proc

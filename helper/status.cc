// SPDX-License-Identifier: Apache-2.0
#include "helper/status.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace ckpt::helper {
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
bool numbers(std::string_view line, std::array<T, 4> &values) {
  return std::ranges::all_of(values, [&](T &v) { return number(next_word(line), v); });
}

bool parse_groups(std::string_view line, std::vector<gid_t> &groups) {
  for (std::string_view word; !(word = next_word(line)).empty();)
    if (!number(word, groups.emplace_back())) return false;
  return true;
}

// From the outermost PID namespace that can be seen to the process's own.
bool parse_pids(std::string_view line, pid_t &last) {
  for (std::string_view word; !(word = next_word(line)).empty();)
    if (!number(word, last)) return false;
  return last > 0;
}

bool parse_flag(std::string_view line, bool &set) {
  int value = 0;
  bool sound = number(next_word(line), value);
  set = value != 0;
  return sound;
}

bool parse_field(std::string_view name, std::string_view line, Status &s) {
  constexpr int kHex = 16;
  if (name == "PPid") return number(next_word(line), s.parent);
  if (name == "NSpid") return parse_pids(line, s.pid_inside);
  if (name == "Uid") return numbers(line, s.uids);
  if (name == "Gid") return numbers(line, s.gids);
  if (name == "Groups") return parse_groups(line, s.groups);
  if (name == "CapInh") return number(next_word(line), s.inheritable, kHex);
  if (name == "CapPrm") return number(next_word(line), s.permitted, kHex);
  if (name == "CapEff") return number(next_word(line), s.effective, kHex);
  if (name == "CapBnd") return number(next_word(line), s.bounding, kHex);
  if (name == "CapAmb") return number(next_word(line), s.ambient, kHex);
  if (name == "NoNewPrivs") return parse_flag(line, s.no_new_privileges);
  if (name == "Seccomp") return parse_flag(line, s.seccomp);
  return false;
}

// Every one of these must be there: what is missing would otherwise read as "nothing".
constexpr std::array<std::string_view, 12> kFields{"PPid",   "NSpid",  "Uid",        "Gid",
                                                   "Groups", "CapInh", "CapPrm",     "CapEff",
                                                   "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"};

}  // namespace

bool Status::has_uid(uid_t uid) const {
  return std::ranges::all_of(uids, [uid](uid_t u) { return u == uid; });
}

std::optional<Status> parse_status(std::string_view text) {
  Status s;
  size_t found = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t colon = line.find(':');
    if (colon == line.npos || std::ranges::find(kFields, line.substr(0, colon)) == kFields.end())
      continue;
    if (!parse_field(line.substr(0, colon), line.substr(colon + 1), s)) return std::nullopt;
    found++;
  }
  return found == kFields.size() ? std::optional(std::move(s)) : std::nullopt;
}

Result<Status> read_status(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/status", pid));
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.empty()) return fail("there is no process {}", pid);
  std::optional<Status> status = parse_status(text);
  return status ? Result<Status>(std::move(*status))
                : fail("/proc/{}/status cannot be parsed", pid);
}

std::vector<pid_t> tree_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  DIR *proc = ::opendir("/proc");
  for (dirent *e; proc && (e = ::readdir(proc));) {
    pid_t pid = 0;
    if (!number(std::string_view(e->d_name), pid)) continue;
    if (Result<Status> s = read_status(pid)) children.emplace(s->parent, pid);
  }
  if (proc) ::closedir(proc);
  std::vector<pid_t> tree{root};
  std::set<pid_t> known{root};  // a PID that was used again may close a circle
  for (size_t i = 0; i < tree.size(); i++)
    for (auto [at, end] = children.equal_range(tree[i]); at != end; ++at)
      if (known.insert(at->second).second) tree.push_back(at->second);
  return tree;
}

u64 namespace_inode(pid_t pid, const char *name) {
  struct stat st {};
  return ::stat(fmt::format("/proc/{}/ns/{}", pid, name).c_str(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace ckpt::helper

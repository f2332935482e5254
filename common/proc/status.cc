// SPDX-License-Identifier: Apache-2.0
#include "common/proc/status.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "common/base/file_text.h"
#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::proc {
namespace {

template <class T>
bool first_number(std::string_view line, T &value, int base = 10) {
  return parse_number(next_word(line), value, base);
}

template <class T>
bool numbers(std::string_view line, std::array<T, 4> &values) {
  return std::ranges::all_of(values, [&](T &v) { return parse_number(next_word(line), v); });
}

template <class T>
bool list(std::string_view line, std::vector<T> &values) {
  for (std::string_view word; !(word = next_word(line)).empty();)
    if (!parse_number(word, values.emplace_back())) return false;
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
    Field{"SigBlk", [](Line l, Status &s) { return first_number(l, s.blocked_signals, kHex); }},
    Field{"CapInh", [](Line l, Status &s) { return first_number(l, s.inheritable, kHex); }},
    Field{"CapPrm", [](Line l, Status &s) { return first_number(l, s.permitted, kHex); }},
    Field{"CapEff", [](Line l, Status &s) { return first_number(l, s.effective, kHex); }},
    Field{"CapBnd", [](Line l, Status &s) { return first_number(l, s.bounding, kHex); }},
    Field{"CapAmb", [](Line l, Status &s) { return first_number(l, s.ambient, kHex); }},
    Field{"NoNewPrivs", [](Line l, Status &s) { return flag(l, s.no_new_privileges); }},
    Field{"Seccomp", [](Line l, Status &s) { return first_number(l, s.seccomp); }},
    Field{"VmLck", [](Line l, Status &s) { return kibibytes(l, s.locked_bytes); }, false},
    Field{"VmRSS", [](Line l, Status &s) { return kibibytes(l, s.resident_bytes); }, false},
};
constexpr auto kAlways = std::ranges::count_if(kFields, &Field::always);

Result<Status> read_status_file(const std::string &path) {
  CKPT_TRY(std::string text, file_text(path));
  std::optional<Status> status = parse_status(text);
  return status ? Result<Status>(std::move(*status)) : fail("{} cannot be parsed", path);
}

std::vector<pid_t> numbers_in(DIR &dir) {
  std::vector<pid_t> all;
  while (dirent *e = ::readdir(&dir))
    if (pid_t pid = 0; parse_number(std::string_view(e->d_name), pid)) all.push_back(pid);
  std::ranges::sort(all);
  return all;
}

std::vector<pid_t> numbers_in(const std::string &folder) {
  std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(folder.c_str()), ::closedir);
  return dir ? numbers_in(*dir) : std::vector<pid_t>();
}

}  // namespace

bool Status::has_uid(uid_t uid) const {
  return std::ranges::all_of(uids, [uid](uid_t u) { return u == uid; });
}

std::optional<Status> parse_status(std::string_view text) {
  Status s;
  std::set<std::string_view> found;
  for (std::string_view line : lines_of(text)) {
    size_t colon = line.find(':');
    if (colon == line.npos) continue;
    auto field = std::ranges::find(kFields, line.substr(0, colon), &Field::name);
    if (field == kFields.end()) continue;
    if (!field->parse(line.substr(colon + 1), s)) return std::nullopt;
    if (field->always && !found.insert(field->name).second) return std::nullopt;
  }
  return found.size() == kAlways ? std::optional(std::move(s)) : std::nullopt;
}

Result<Status> read_status(pid_t pid) { return read_status_file(path(pid, "status")); }

Result<Status> read_status(pid_t pid, pid_t thread) {
  return read_status_file(path(pid, thread, "status"));
}

std::vector<pid_t> processes() { return numbers_in(path_of_machine("")); }

std::vector<pid_t> threads_of(pid_t pid) { return numbers_in(path(pid, "task")); }

Result<std::vector<int>> own_descriptors() {
  std::string folder = path(kSelf, "fd");
  std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(folder.c_str()), ::closedir);
  if (!dir) return fail_errno("cannot list {}", folder);
  std::vector<int> all = numbers_in(*dir);
  std::erase(all, ::dirfd(dir.get()));
  return all;
}

std::vector<int> descriptors_of(pid_t pid) { return numbers_in(path(pid, "fd")); }

UniqueFd duplicate_descriptor(pid_t pid, int fd) {
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return {};
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), fd, 0)));
}

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

u64 namespace_inode(pid_t pid, const char *name) {
  struct stat st {};
  return ::stat(path(pid, fmt::format("ns/{}", name)).c_str(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace ckpt::proc

// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/describe_program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "agent/protocol.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

pid_t last_or(const std::vector<pid_t> &v, pid_t otherwise) {
  return v.empty() ? otherwise : v.back();
}

// A restore compares the size of every file with the recorded one, except for these.
bool append_only(const Descriptor &d) {
  return (d.flags & O_APPEND) && (d.flags & O_ACCMODE) == O_WRONLY;
}

}  // namespace

json describe_processes(const Target &target, const std::set<pid_t> &stopped_before) {
  json list = json::array();
  for (const Process &p : target.processes)
    list.push_back({{"pid", p.ns_pid()},
                    {"host_pid", p.pid},
                    {"command", p.command},
                    {"threads", ns_threads_of(p.pid)},
                    {"group", last_or(p.ns_groups, p.group)},
                    {"session", last_or(p.ns_sessions, p.session)},
                    {"agent", target.has_agent(p.pid)},
                    {"stopped", stopped_before.contains(p.pid)}});
  return list;
}

// The root's standard streams, and whether any process of the program has a terminal open.
json describe_streams(const Target &target, const DescriptorTable &table) {
  static constexpr const char *kNames[] = {"stdin", "stdout", "stderr"};
  json streams = json::object();
  bool terminal = false;
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors) {
      terminal |= d.kind == Descriptor::Kind::Terminal;
      if (pid == target.root && d.fd >= 0 && d.fd <= 2)
        streams[kNames[d.fd]] = {{"kind", d.target == "/dev/null" ? "null" : kind_name(d.kind)},
                                 {"target", d.target},
                                 {"rdev", d.rdev},
                                 {"inode", d.inode}};
    }
  streams["terminal"] = terminal;
  return streams;
}

json describe_pipes(const std::vector<OuterPipe> &pipes) {
  json list = json::array();
  for (const OuterPipe &p : pipes)
    list.push_back({{"inode", p.inode}, {"fd", p.fd}, {"program_reads", p.program_reads}});
  return list;
}

json describe_files(const DescriptorTable &table) {
  std::map<std::string, json> by_path;
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors) {
      if (d.kind != Descriptor::Kind::File || d.deleted) continue;
      auto [it, is_new] = by_path.emplace(d.target, json{{"path", d.target},
                                                         {"size", d.size},
                                                         {"append", true},
                                                         {"writable", false},
                                                         {"pids", json::array()}});
      json &f = it->second;
      f["append"] = f["append"].get<bool>() && append_only(d);
      f["writable"] = f["writable"].get<bool>() || d.writable();
      if (f["pids"].empty() || f["pids"].back() != pid) f["pids"].push_back(pid);
    }
  json list = json::array();
  for (auto &[path, f] : by_path) list.push_back(std::move(f));
  return list;
}

json describe_mapped_files(const Target &target) {
  std::map<std::string, json> by_path;
  for (const Process &p : target.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      struct stat st {};
      if (!m.path.starts_with('/') || ::stat(m.path.c_str(), &st) != 0 || st.st_ino != m.inode ||
          !S_ISREG(st.st_mode))
        continue;
      by_path[m.path] = {{"path", m.path}, {"size", st.st_size}, {"mtime", st.st_mtim.tv_sec}};
    }
  json list = json::array();
  for (auto &[path, f] : by_path) list.push_back(std::move(f));
  return list;
}

json describe_host() {
  utsname u{};
  ::uname(&u);
  return {
      {"name", u.nodename}, {"system", u.sysname}, {"kernel", u.release}, {"machine", u.machine}};
}

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t);
  return text;
}

std::string session_folder_of(pid_t root) {
  return std::filesystem::path(environment_of(root, protocol::kSessionVariable)).parent_path();
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/describe_program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "agent/protocol.h"
#include "ckpt_config.h"
#include "tools/criu/first_code.h"
#include "tools/dump/own_terminals.h"
#include "tools/manifest/file_checks.h"
#include "tools/proc/affinity.h"
#include "tools/proc/file_writers.h"
#include "tools/proc/processor.h"
#include "tools/session/isolation.h"
#include "tools/session/session_folder.h"

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

const char *kind_of_stream(const Descriptor &d, bool outer_terminal) {
  if (d.target == "/dev/null") return "null";
  if (d.kind == Descriptor::Kind::Terminal && !outer_terminal) return "own tty";
  return kind_name(d.kind);
}

// The program itself changes these, and may do so after the dump.
std::set<std::string> written_files(const DescriptorTable &table) {
  std::set<std::string> paths;
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors)
      if (d.kind == Descriptor::Kind::File && d.writable()) paths.insert(d.target);
  return paths;
}

bool is_outer_file(const Descriptor &d) {
  return d.kind == Descriptor::Kind::File && !d.deleted && !d.made_by_kernel();
}

std::vector<pid_t> ns_ids(const std::vector<ThreadIds> &threads) {
  std::vector<pid_t> ids;
  for (const ThreadIds &t : threads) ids.push_back(t.ns_id);
  return ids;
}

// The threads for which the program has chosen other processors than those of the keeper. All
// others will have those of ckpt-restore.
json describe_affinities(const std::vector<ThreadIds> &threads, const Affinity &given) {
  std::map<std::string, std::vector<pid_t>> by_processors;
  for (const ThreadIds &t : threads)
    if (Affinity own = Affinity::of(t.id); !own.empty() && own != given)
      by_processors[own.list()].push_back(t.ns_id);
  json list = json::array();
  for (const auto &[processors, ids] : by_processors)
    list.push_back({{"processors", processors}, {"threads", ids}});
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

}  // namespace

json describe_program(const Target &target, const Criu &criu) {
  return {{"isolated", is_isolated()},
          {"program", executable_of(target.root)},
          {"argv", arguments_of(target.root)},
          {"cwd", working_folder_of(target.root)},
          {"created", utc_now()},
          {"ckpt_version", CKPT_VERSION},
          {"protocol", protocol::kVersion},
          {"criu_version", criu.version},
          {"host", describe_host()},
          {"processor", {{"features", processor_features()}}},
          {"root_pid", target.processes.front().ns_pid()},
          {"session_dir", session_folder_of(target.root, target.keeper, target.session_socket)}};
}

json describe_processes(const Target &target, const std::set<pid_t> &stopped_before) {
  const Affinity given = Affinity::of(target.keeper);
  json list = json::array();
  for (const Process &p : target.processes) {
    std::vector<ThreadIds> threads = thread_ids_of(p.pid);
    json &entry = list.emplace_back(json{{"pid", p.ns_pid()},
                                         {"host_pid", p.pid},
                                         {"command", p.command},
                                         {"threads", ns_ids(threads)},
                                         {"group", last_or(p.ns_groups, p.group)},
                                         {"session", last_or(p.ns_sessions, p.session)},
                                         {"agent", target.has_agent(p.pid)},
                                         {"stopped", stopped_before.contains(p.pid)}});
    if (json affinities = describe_affinities(threads, given); !affinities.empty())
      entry["affinities"] = std::move(affinities);
    if (std::optional<FirstCode> code = FirstCode::of(p.pid))
      entry["first_code"] = {code->address, code->bytes};
    if (p.ending) entry["ended"] = true;
  }
  return list;
}

// The root's standard streams, and whether any process of the program has an outer terminal open.
json describe_streams(const Target &target, const DescriptorTable &table) {
  static constexpr const char *kNames[] = {"stdin", "stdout", "stderr"};
  OwnTerminals own(table);
  json streams = {{"own_terminals", own.indices()}};
  bool terminal = false;
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      bool outer = d.kind == Descriptor::Kind::Terminal && !own.has(p, d);
      terminal |= outer;
      if (p.pid == target.root && d.fd >= 0 && d.fd <= 2)
        streams[kNames[d.fd]] = {{"kind", kind_of_stream(d, outer)},
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

json describe_files(const Target &target, const DescriptorTable &table, const FileHashes &hashes) {
  std::map<std::string, json> by_path;
  for (const Process &p : target.processes) {
    for (const Descriptor &d : table.at(p.pid)) {
      if (!is_outer_file(d)) continue;
      auto [it, is_new] = by_path.emplace(d.target, json{{"path", d.target},
                                                         {"size", d.size},
                                                         {"mtime_ns", d.mtime_ns},
                                                         {"append", true},
                                                         {"writable", false},
                                                         {"pids", json::array()}});
      json &f = it->second;
      f["append"] = f["append"].get<bool>() && append_only(d);
      f["writable"] = f["writable"].get<bool>() || d.writable();
      if (f["pids"].empty() || f["pids"].back() != p.pid) f["pids"].push_back(p.pid);
      if (auto hash = hashes.find(d.target, d.mtime_ns)) f["hash"] = *hash;
    }
  }
  json list = json::array();
  for (auto &[path, f] : by_path) list.push_back(std::move(f));
  return list;
}

json describe_mapped_files(const Target &target, const DescriptorTable &table, FileHashes &hashes,
                           bool stopped) {
  std::map<std::string, json> by_path;
  std::set<std::string> written = written_files(table), shared, changed;
  for (const Process &p : target.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      struct stat st {};
      if (!m.path.starts_with('/') || ::stat((target.files + m.path).c_str(), &st) != 0 ||
          st.st_ino != m.inode || !S_ISREG(st.st_mode))
        continue;
      if (m.permissions.ends_with('s')) shared.insert(m.path);
      if (can_write(p.pid, m)) changed.insert(m.path);
      by_path[m.path] = {
          {"path", m.path}, {"size", st.st_size}, {"mtime_ns", modification_time(st)}};
    }
  json list = json::array();
  for (auto &[path, f] : by_path) {
    std::optional<u64> hash;
    // Others may change it, too, as nscd(8) does, and the program sees it.
    if (shared.contains(path)) f["shared"] = true;
    if (changed.contains(path))
      hash = stopped ? hashes.of_shared_file(path) : std::nullopt;
    else if (!written.contains(path))
      hash = hashes.add_mapped_file(path);
    if (hash) f["hash"] = *hash;
    list.push_back(std::move(f));
  }
  return list;
}

}  // namespace ckpt::tools

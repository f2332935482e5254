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
#include "tools/dump/connections.h"
#include "tools/dump/own_terminals.h"
#include "tools/manifest/carried_files.h"
#include "tools/manifest/file_checks.h"
#include "tools/proc/affinity.h"
#include "tools/proc/file_writers.h"
#include "tools/proc/processor.h"
#include "tools/session/isolation.h"
#include "tools/session/namespace_root.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

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
std::vector<manifest::ThreadAffinity> describe_affinities(const std::vector<ThreadIds> &threads,
                                                          const Affinity &given) {
  std::map<std::string, manifest::ThreadAffinity> by_processors;
  for (const ThreadIds &t : threads)
    if (Affinity own = Affinity::of(t.id); !own.empty() && own != given) {
      manifest::ThreadAffinity &same = by_processors[own.list()];
      same.processors = own;
      same.threads.push_back(t.ns_id);
    }
  std::vector<manifest::ThreadAffinity> list;
  for (auto &[processors, affinity] : by_processors) list.push_back(std::move(affinity));
  return list;
}

manifest::Host describe_host() {
  utsname u{};
  ::uname(&u);
  return {u.nodename, u.sysname, u.release, u.machine};
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

manifest::Manifest describe_program(const Target &target, const Criu &criu) {
  manifest::Manifest m;
  m.protocol = protocol::kVersion;
  m.isolated = is_isolated();
  m.of_namespace_root = is_namespace_root();
  m.program = original_path(executable_of(target.root));
  m.argv = arguments_of(target.root);
  m.cwd = working_folder_of(target.root);
  m.created = utc_now();
  m.ckpt_version = CKPT_VERSION;
  m.criu_version = criu.version;
  m.host = describe_host();
  m.processor = {processor_model(), processor_features()};
  m.root_pid = target.processes.front().ns_pid();
  m.session_folder = session_folder_of(target.root, target.keeper, target.session_socket);
  return m;
}

std::vector<manifest::ProcessEntry> describe_processes(const Target &target,
                                                       const std::set<pid_t> &stopped_before) {
  const Affinity given = Affinity::of(target.keeper);
  std::vector<manifest::ProcessEntry> list;
  for (const Process &p : target.processes) {
    std::vector<ThreadIds> threads = thread_ids_of(p.pid);
    manifest::ProcessEntry &entry = list.emplace_back();
    entry.pid = p.ns_pid();
    entry.group = last_or(p.ns_groups, p.group);
    entry.session = last_or(p.ns_sessions, p.session);
    entry.threads = ns_ids(threads);
    entry.stopped = stopped_before.contains(p.pid);
    entry.affinities = describe_affinities(threads, given);
    entry.ended = p.ending;
    entry.first_code = FirstCode::of(p.pid);
    entry.command = p.command;
    entry.host_pid = p.pid;
    entry.agent = target.has_agent(p.pid);
  }
  return list;
}

// The root's standard streams, and whether any process of the program has an outer terminal open.
manifest::Streams describe_streams(const Target &target, const DescriptorTable &table) {
  OwnTerminals own(table);
  manifest::Streams streams;
  streams.own_terminals = {own.indices().begin(), own.indices().end()};
  std::optional<manifest::Stream> *of_root[] = {&streams.in, &streams.out, &streams.err};
  for (const Process &p : target.processes)
    for (const Descriptor &d : table.at(p.pid)) {
      bool outer = d.kind == Descriptor::Kind::Terminal && !own.has(p, d);
      streams.terminal |= outer;
      if (p.pid == target.root && d.fd >= 0 && d.fd <= 2)
        *of_root[d.fd] = {kind_of_stream(d, outer), d.target, d.rdev, d.inode};
    }
  return streams;
}

std::vector<manifest::Pipe> describe_pipes(const std::vector<OuterPipe> &pipes) {
  std::vector<manifest::Pipe> list;
  for (const OuterPipe &p : pipes) list.push_back({p.inode, p.fd, p.program_reads});
  return list;
}

std::vector<manifest::File> describe_files(const Target &target, const DescriptorTable &table,
                                           const FileHashes &hashes) {
  std::map<std::string, manifest::File> by_path;
  for (const Process &p : target.processes) {
    for (const Descriptor &d : table.at(p.pid)) {
      if (!is_outer_file(d)) continue;
      manifest::File first{{d.target, d.size, d.mtime_ns}, true};
      manifest::File &f = by_path.emplace(d.target, std::move(first)).first->second;
      f.append_only = f.append_only && append_only(d);
      f.writable = f.writable || d.writable();
      if (f.pids.empty() || f.pids.back() != p.pid) f.pids.push_back(p.pid);
      if (auto hash = hashes.find(d.target, d.mtime_ns)) f.hash = hash;
    }
  }
  std::vector<manifest::File> list;
  for (auto &[path, f] : by_path) list.push_back(std::move(f));
  return list;
}

std::vector<manifest::MappedFile> describe_mapped_files(const Target &target,
                                                        const DescriptorTable &table,
                                                        FileHashes &hashes, bool stopped) {
  std::map<std::string, manifest::MappedFile> by_path;
  std::set<std::string> written = written_files(table), changed;
  for (const Process &p : target.processes)
    for (const ProcMapping &m : mappings_of(p.pid)) {
      struct stat st {};
      if (!m.path.starts_with('/') || ::stat((target.files + m.path).c_str(), &st) != 0 ||
          st.st_ino != m.inode || !S_ISREG(st.st_mode))
        continue;
      if (can_write(p.pid, m)) changed.insert(m.path);
      manifest::MappedFile &f = by_path[m.path];
      f.path = m.path;
      f.size = static_cast<u64>(st.st_size);
      f.mtime_ns = modification_time(st);
      // Others may change it, too, as nscd(8) does, and the program sees it.
      f.shared |= m.permissions.ends_with('s');
    }
  std::vector<manifest::MappedFile> list;
  for (auto &[path, f] : by_path) {
    if (changed.contains(path))
      f.hash = stopped ? hashes.of_shared_file(path) : std::nullopt;
    else if (!written.contains(path))
      f.hash = hashes.add_mapped_file(path);
    list.push_back(std::move(f));
  }
  return list;
}

manifest::Manifest describe_running(const Target &target, const Criu &criu, FileHashes &hashes) {
  DescriptorTable table = read_descriptors(target);
  manifest::Manifest m = describe_program(target, criu);
  m.processes = describe_processes(target, stopped_in(target.processes));
  m.streams = describe_streams(target, table);
  m.files = describe_files(target, table, hashes);
  m.mapped_files = describe_mapped_files(target, table, hashes, false);
  m.sockets = Connections::read(target).describe();
  return m;
}

}  // namespace ckpt::tools

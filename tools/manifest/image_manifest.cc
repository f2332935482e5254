// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/image_manifest.h"

#include <algorithm>
#include <filesystem>

#include "agent/protocol.h"
#include "storage/format/format.h"
#include "tools/device/apis.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

template <class T, class F>
std::vector<T> each(const json &list, F &&f) {
  std::vector<T> v;
  for (const json &j : list) v.push_back(f(j));
  return v;
}

template <class T>
std::optional<T> optional_at(const json &j, const char *name) {
  return j.contains(name) ? std::optional(j.at(name).get<T>()) : std::nullopt;
}

ImageManifest::File file_of(const json &j) {
  return {j.at("path").get<std::string>(), j.at("size").get<u64>(),
          j.value("append", false),        j.value("writable", false),
          optional_at<i64>(j, "mtime_ns"), optional_at<u64>(j, "hash"),
          j.value("shared", false)};
}

ImageManifest::StoredFolder folder_of(std::string path, const json &j) {
  return {std::move(path), j.at("mode").get<u32>(), j.at("uid").get<u32>(), j.at("gid").get<u32>()};
}

// Images of earlier versions name the innermost folder of a kept file alone, and none of a memory
// file.
std::vector<ImageManifest::StoredFolder> folders_of(const json &j) {
  if (j.contains("folders"))
    return each<ImageManifest::StoredFolder>(j.at("folders"), [](const json &f) {
      return folder_of(f.at("path").get<std::string>(), f);
    });
  if (!j.contains("folder")) return {};
  std::string path = j.at("path").get<std::string>();
  return {folder_of(std::filesystem::path(path).parent_path(), j.at("folder"))};
}

ImageManifest::StoredName stored_name_of(const json &j) {
  return {j.at("path").get<std::string>(), j.at("mode").get<u32>(), j.at("uid").get<u32>(),
          j.at("gid").get<u32>(), folders_of(j)};
}

ImageManifest::StoredFile stored_file_of(const json &j) {
  return {stored_name_of(j), j.at("names").get<std::vector<std::string>>(),
          j.at("stream").get<std::string>(), j.at("size").get<u64>(),
          j.at("extents").get<std::vector<std::pair<u64, u64>>>()};
}

// A list that cannot be read gives no processors, which is not plausible.
ImageManifest::ThreadAffinity affinity_of(const json &j) {
  return {Affinity::parse(j.at("processors").get<std::string>()).value_or(Affinity()),
          j.at("threads").get<std::vector<pid_t>>()};
}

std::optional<RealTime> real_time_in(const json &j) {
  if (!j.contains("real_time")) return std::nullopt;
  return RealTime{j.at("real_time").at(0).get<int>(), j.at("real_time").at(1).get<int>()};
}

ImageManifest::PoliciesOfThreads thread_policies_of(const json &j) {
  return {{optional_at<i64>(j, "io_priority"), optional_at<i64>(j, "timer_slack"),
           j.value("memory", ""), optional_at<i64>(j, "nice"), real_time_in(j)},
          j.at("threads").get<std::vector<pid_t>>()};
}

ProcessPolicies policies_of(const json &j) {
  return {optional_at<u64>(j, "core_dump_filter"), j.value("merge_pages", false),
          j.value("lock_future", 0),
          each<MemoryRange>(j.value("memory_ranges", json::array()), [](const json &r) {
            return MemoryRange{r.at(0).get<u64>(), r.at(1).get<u64>(), r.at(2).get<std::string>()};
          })};
}

std::optional<FirstCode> first_code_of(const json &process) {
  if (!process.contains("first_code")) return std::nullopt;
  const json &code = process.at("first_code");
  return FirstCode{code.at(0).get<u64>(), code.at(1).get<u64>()};
}

ImageManifest::DescriptorOf descriptor_of(const json &j) {
  return {j.at("pid").get<pid_t>(), j.at("fd").get<int>()};
}

ImageManifest::SocketOptions socket_options_of(const json &j) {
  return {descriptor_of(j),
          {j.value("numbers", std::map<std::string, i64>()),
           j.value("words", std::map<std::string, std::string>()),
           each<SocketGroup>(j.value("groups", json::array()), [](const json &g) {
             return SocketGroup{g.at("interface").get<std::string>(),
                                g.at("group").get<std::string>(), g.value("only_sources", false),
                                g.value("sources", std::vector<std::string>())};
           })}};
}

bool names_processors(const ImageManifest::ThreadAffinity &p) { return !p.processors.empty(); }

bool is_path(const std::string &name) { return name.starts_with('/'); }

// Each folder leads to the file, and to the next one.
bool plausible_name(const ImageManifest::StoredName &f) {
  std::string_view before;
  for (const ImageManifest::StoredFolder &folder : f.folders) {
    bool leads = is_path(folder.path) && f.path.starts_with(folder.path + "/") &&
                 folder.path.size() > before.size();
    if (!leads || folder.mode > 07777) return false;
    before = folder.path;
  }
  return is_path(f.path) && f.mode <= 0777;
}

// Extents in order, within the file; so none of them overflows.
bool plausible_file(const ImageManifest::StoredFile &f) {
  u64 end = 0;
  for (auto [offset, length] : f.extents) {
    if (offset < end || offset > f.size || length > f.size - offset) return false;
    end = offset + length;
  }
  return f.size <= storage::kMaxStreamBytes && plausible_name(f) &&
         std::ranges::all_of(f.names, is_path);
}

std::optional<ImageManifest::Template> template_of(const json &m) {
  if (!m.contains("template")) return std::nullopt;
  return ImageManifest::Template{m.at("template").value("tcp_close", false)};
}

std::optional<CopyFacts> copy_of(const json &m) {
  if (!m.contains("copy")) return std::nullopt;
  return CopyFacts::parse(m.at("copy").get<std::string>());
}

std::optional<Endpoint> endpoint_of(const json &j) {
  return Endpoint::parse(j.at("address").get<std::string>(), j.at("port").get<u16>());
}

// nlohmann's accessors throw if a field is missing or of another type. parse() catches that, which
// saves a check for each field.
ImageManifest parse_or_throw(const json &j) {
  ImageManifest m;
  m.program = j.at("program").get<std::string>();
  m.processor_features =
      j.value("processor", json::object()).value("features", std::set<std::string>());
  m.cwd = j.at("cwd").get<std::string>();
  m.root_pid = j.at("root_pid").get<pid_t>();
  m.session_folder = j.at("session_dir").get<std::string>();
  if (j.contains("owner"))
    m.owner = {j.at("owner").at("uid").get<uid_t>(), j.at("owner").at("gid").get<gid_t>(),
               j.at("owner").at("groups").get<std::vector<gid_t>>()};
  m.processes = each<ImageManifest::ProcessEntry>(j.at("processes"), [](const json &p) {
    return ImageManifest::ProcessEntry{
        p.at("pid").get<pid_t>(),
        p.at("group").get<pid_t>(),
        p.at("session").get<pid_t>(),
        p.at("threads").get<std::vector<pid_t>>(),
        p.value("stopped", false),
        each<ImageManifest::ThreadAffinity>(p.value("affinities", json::array()), affinity_of),
        p.value("ended", false),
        each<ImageManifest::PoliciesOfThreads>(p.value("thread_policies", json::array()),
                                               thread_policies_of),
        policies_of(p.value("policies", json::object())),
        first_code_of(p)};
  });
  m.outcome_pipes =
      each<u64>(j.at("agents"), [](const json &a) { return a.at("pipe_inode").get<u64>(); });
  m.agent_pids =
      each<pid_t>(j.at("agents"), [](const json &a) { return a.at("pid").get<pid_t>(); });
  for (u64 bytes :
       each<u64>(j.at("agents"), [](const json &a) { return a.value("bytes", u64{0}); }))
    m.device_bytes += bytes;
  m.requirements = each<ImageManifest::Requirement>(j.at("participants"), [](const json &p) {
    return ImageManifest::Requirement{p.at("agent").get<u32>(), p.at("api").get<std::string>(),
                                      p.at("needs")};
  });
  m.files = each<ImageManifest::File>(j.at("files"), file_of);
  m.mapped_files = each<ImageManifest::File>(j.at("mapped_files"), file_of);
  m.memory_files =
      each<ImageManifest::StoredFile>(j.value("memory_files", json::array()), stored_file_of);
  m.kept_files =
      each<ImageManifest::StoredFile>(j.value("kept_files", json::array()), stored_file_of);
  m.kept_fifos =
      each<ImageManifest::StoredName>(j.value("kept_fifos", json::array()), stored_name_of);
  m.pipes = each<ImageManifest::Pipe>(j.at("pipes"), [](const json &p) {
    return ImageManifest::Pipe{p.at("inode").get<u64>(), p.at("fd").get<int>(),
                               p.at("program_reads").get<bool>()};
  });
  m.fifos = each<ImageManifest::Fifo>(j.value("fifos", json::array()), [](const json &f) {
    return ImageManifest::Fifo{f.at("path").get<std::string>(), f.at("fd").get<int>(),
                               f.at("program_reads").get<bool>()};
  });
  m.for_copies = template_of(j);
  m.copy = copy_of(j);
  bool without_connections = m.for_copies && m.for_copies->tcp_close;
  for (const json &s : j.value("sockets", json::array())) {
    std::optional<Endpoint> local = endpoint_of(s.at("local")), remote;
    if (s.contains("remote")) remote = endpoint_of(s.at("remote"));
    if (local && !(remote && without_connections))
      m.sockets.push_back({s.at("protocol") == "udp", s.at("v6").get<bool>(), *local, remote});
  }
  const json &streams = j.at("streams");
  m.isolated = j.value("isolated", false);
  m.own_terminals = streams.value("own_terminals", std::vector<int>());
  m.file_size_limit = j.value("file_size_limit", m.file_size_limit);
  m.links = each<ImageManifest::Link>(j.value("link_remaps", json::array()), [](const json &l) {
    return ImageManifest::Link{l.at("path").get<std::string>(), l.at("kept").get<std::string>()};
  });
  m.renamed_sockets = each<
      ImageManifest::RenamedSocket>(j.value("renamed_sockets", json::array()), [](const json &s) {
    return ImageManifest::RenamedSocket{s.at("inode").get<u64>(), s.at("path").get<std::string>()};
  });
  m.socket_options = each<ImageManifest::SocketOptions>(j.value("socket_options", json::array()),
                                                        socket_options_of);
  m.unread_watches =
      each<ImageManifest::DescriptorOf>(j.value("unread_watches", json::array()), descriptor_of);
  m.terminal = streams.at("terminal").get<bool>();
  static constexpr const char *kNames[] = {"stdin", "stdout", "stderr"};
  for (int fd = 0; fd < 3; fd++) {
    m.has_stream[fd] = streams.contains(kNames[fd]);
    m.terminal_at[fd] = m.has_stream[fd] && streams.at(kNames[fd]).at("kind") == "tty";
    if (m.has_stream[fd] && streams.at(kNames[fd]).at("kind") == "file")
      m.file_at[fd] = streams.at(kNames[fd]).value("target", "");
  }
  return m;
}

// For each agent a thread and staging memory are needed, for each requirement a process that checks
// it.
bool plausible_agents(const ImageManifest &m) {
  return m.agent_pids.size() <= m.processes.size() &&
         m.requirements.size() <= m.agent_pids.size() * std::size(kApis);
}

bool plausible(const ImageManifest &m) {
  auto positive = [](pid_t p) { return p > 0; };
  bool has_root = false;
  for (const auto &p : m.processes) {
    if (!positive(p.pid) || p.group < 0 || p.session < 0 ||
        !std::ranges::all_of(p.threads, positive) ||
        !std::ranges::all_of(p.affinities, names_processors))
      return false;
    has_root |= p.pid == m.root_pid;
  }
  return has_root && plausible_agents(m) && std::ranges::all_of(m.memory_files, plausible_file) &&
         std::ranges::all_of(m.kept_files, plausible_file) &&
         std::ranges::all_of(m.kept_fifos, plausible_name);
}

}  // namespace

u64 ImageManifest::StoredFile::data_bytes() const {
  u64 sum = 0;
  for (auto [offset, length] : extents) sum += length;
  return sum;
}

Result<ImageManifest> ImageManifest::parse(const json &manifest) {
  try {
    if (u32 protocol = manifest.at("protocol").get<u32>(); protocol > protocol::kVersion)
      return fail_with_hint(fmt::format("the image was written by a newer version of ckpt ({})",
                                        manifest.value("ckpt_version", "?")),
                            "restore it with that version or a later one");
    ImageManifest m = parse_or_throw(manifest);
    if (!plausible(m))
      return fail("the image's manifest is damaged: it describes impossible processes or files");
    return m;
  } catch (const json::exception &e) {
    return fail("the image's manifest is damaged: {}", e.what());
  }
}

// criu restore --shell-job puts the root's process group and session into ours. All other groups
// and sessions need their IDs.
std::vector<pid_t> ImageManifest::pids() const {
  std::vector<pid_t> v;
  auto root = std::find_if(processes.begin(), processes.end(),
                           [this](const ProcessEntry &p) { return p.pid == root_pid; });
  for (const ProcessEntry &p : processes) {
    v.push_back(p.pid);
    v.insert(v.end(), p.threads.begin(), p.threads.end());
    if (p.group && p.group != root->group) v.push_back(p.group);
    if (p.session && p.session != root->session) v.push_back(p.session);
  }
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
  return v;
}

std::set<pid_t> ImageManifest::stopped() const {
  std::set<pid_t> s;
  for (const ProcessEntry &p : processes)
    if (p.stopped) s.insert(p.pid);
  return s;
}

}  // namespace ckpt::tools

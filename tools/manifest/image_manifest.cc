// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/image_manifest.h"

#include <algorithm>
#include <filesystem>

#include "agent/protocol.h"
#include "common/base/json_fields.h"
#include "common/base/printable.h"
#include "storage/format/format.h"
#include "tools/device/apis.h"
#include "tools/manifest/carried_files.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

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

// Images of earlier versions name the innermost folder of a kept file alone.
void name_folder(ImageManifest::StoredFile &f) {
  std::string parent = std::filesystem::path(f.path).parent_path();
  if (f.folder && f.folders.empty() && parent != "/")
    f.folders = {{parent, f.folder->mode, f.folder->uid, f.folder->gid}};
}

void name_agents(ImageManifest &m) {
  for (const ImageManifest::Agent &a : m.agents) {
    m.outcome_pipes.push_back(a.pipe_inode);
    m.agent_pids.push_back(a.pid);
    m.device_bytes += a.bytes;
  }
}

void name_streams(ImageManifest &m) {
  const std::optional<ImageManifest::Stream> *all[] = {&m.streams.in, &m.streams.out,
                                                       &m.streams.err};
  for (int fd = 0; fd < 3; fd++) {
    const std::optional<ImageManifest::Stream> &stream = *all[fd];
    m.has_stream[fd] = stream.has_value();
    m.terminal_at[fd] = stream && stream->kind == "tty";
    if (stream && stream->kind == "file") m.file_at[fd] = stream->target;
  }
}

// What follows from the fields.
void complete(ImageManifest &m) {
  for (ImageManifest::StoredFile &f : m.kept_files) name_folder(f);
  name_agents(m);
  name_streams(m);
  if (m.for_copies && m.for_copies->tcp_close)
    std::erase_if(m.sockets, [](const ImageManifest::Socket &s) { return s.remote.has_value(); });
}

// For each agent a thread and staging memory are needed, for each requirement a process that checks
// it.
bool plausible_agents(const ImageManifest &m) {
  return m.agent_pids.size() <= m.processes.size() &&
         m.requirements.size() <= m.agent_pids.size() * std::size(kApis);
}

// What no process can have; "": nothing of it.
std::string implausible(const ImageManifest::ProcessEntry &p) {
  auto positive = [](pid_t id) { return id > 0; };
  if (!positive(p.pid)) return fmt::format("a process has the PID {}", p.pid);
  if (p.group < 0 || p.session < 0)
    return fmt::format("process {} has the group {} and the session {}", p.pid, p.group, p.session);
  auto thread = std::ranges::find_if_not(p.threads, positive);
  if (thread != p.threads.end())
    return fmt::format("process {} has a thread with the ID {}", p.pid, *thread);
  if (!std::ranges::all_of(p.affinities, names_processors))
    return fmt::format("process {} has a thread without a processor", p.pid);
  return {};
}

template <typename Names, typename Test>
std::string first_without(const Names &names, Test test, std::string_view what) {
  auto found = std::ranges::find_if_not(names, test);
  return found == names.end() ? std::string() : fmt::format("{} {}", what, printable(found->path));
}

// The first thing that no program can have; "": there is none.
std::string implausible(const ImageManifest &m) {
  for (const ImageManifest::ProcessEntry &p : m.processes)
    if (std::string why = implausible(p); !why.empty()) return why;
  auto is_root = [&m](const ImageManifest::ProcessEntry &p) { return p.pid == m.root_pid; };
  if (!std::ranges::any_of(m.processes, is_root)) return "its first process is not among them";
  if (!plausible_agents(m)) return "more devices than processes";
  constexpr std::string_view kFile = "extents or folders that cannot be of";
  for (std::string why : {first_without(m.memory_files, plausible_file, kFile),
                          first_without(m.kept_files, plausible_file, kFile),
                          first_without(m.kept_fifos, plausible_name, kFile),
                          first_without(m.carried_files, plausible_file, kFile)})
    if (!why.empty()) return why;
  return plausible_carried(m) ? "" : "a carried file that the program did not have";
}

}  // namespace

u64 manifest::data_bytes(const StoredFile &file) {
  u64 sum = 0;
  for (auto [offset, length] : file.extents) sum += length;
  return sum;
}

manifest::Manifest manifest::readable_fields(const json &manifest) {
  Manifest m;
  auto read = [&manifest](const api::Field &f, auto &member) {
    auto it = manifest.find(f.name);
    std::remove_cvref_t<decltype(member)> value{};
    if (it != manifest.end() && api::JsonReader().read(*it, value)) member = std::move(value);
    return true;
  };
  if (manifest.is_object()) api::Fields<Manifest>::each(m, read);
  return m;
}

Result<ImageManifest> ImageManifest::parse(const json &manifest) {
  if (json_value(manifest, "protocol", u32{0}) > protocol::kVersion)
    return fail_with_hint(fmt::format("the image was written by a newer version of ckpt ({})",
                                      json_string(manifest, "ckpt_version", "?")),
                          "restore it with that version or a later one");
  ImageManifest m;
  api::JsonReader reader;
  if (!reader.read(manifest, static_cast<Manifest &>(m)))
    return fail("the image's manifest is damaged: {}", reader.why());
  complete(m);
  if (std::string why = implausible(m); !why.empty())
    return fail("the image's manifest is damaged: it describes what cannot be: {}", why);
  return m;
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

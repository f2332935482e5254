// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/image_manifest.h"

#include <algorithm>
#include <filesystem>

#include "agent/protocol.h"
#include "common/base/json_fields.h"
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
         std::ranges::all_of(m.kept_fifos, plausible_name) &&
         std::ranges::all_of(m.carried_files, plausible_file) && plausible_carried(m);
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
  if (!plausible(m))
    return fail("the image's manifest is damaged: it describes impossible processes or files");
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

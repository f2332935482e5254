// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/restorable.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "tools/criu/streamer.h"
#include "tools/manifest/carried_files.h"
#include "tools/manifest/open_rights.h"
#include "tools/proc/processor.h"

namespace ckpt::tools {
namespace {

// CRIU maps the private memory of a process a second time, beside the first (criu/mem.c,
// prepare_mappings). A process has 128 TiB of addresses.
constexpr u64 kMostPrivateBytes = u64{60} << 40;
constexpr size_t kMostReasons = 5;  // of one rule

template <class... T>
void add(Reasons &reasons, fmt::format_string<T...> format, T &&...args) {
  reasons.push_back("the image is incomplete: " + fmt::format(format, std::forward<T>(args)...));
}

// A process that is killed while it is recorded leaves an image without its descriptors.
void check_processes(const RestorableImage &image, Reasons &reasons) {
  std::map<pid_t, const ImageManifest::ProcessEntry *> described;
  for (const ImageManifest::ProcessEntry &p : image.manifest.processes) described[p.pid] = &p;
  for (const auto &[pid, p] : image.criu.processes) {
    auto it = described.find(pid);
    bool has_ended = it != described.end() && it->second->ended;
    if (it == described.end() || (p.alive.value_or(false) && has_ended))
      add(reasons, "process {} was killed while it was recorded", pid);
    else if (!p.alive)
      add(reasons, "it lacks the state of process {} (core-{}.img)", pid, pid);
  }
  if (!image.criu.processes.empty())
    for (const auto &[pid, p] : described)
      if (!image.criu.processes.contains(pid)) add(reasons, "CRIU has not saved process {}", pid);
}

void check_threads(const RestorableImage &image, Reasons &reasons) {
  for (const ImageManifest::ProcessEntry &p : image.manifest.processes) {
    auto it = image.criu.processes.find(p.pid);
    if (it == image.criu.processes.end() || !it->second.alive.value_or(false)) continue;
    std::set<pid_t> described(p.threads.begin(), p.threads.end());
    if (described != it->second.threads)
      add(reasons, "the threads of process {} changed while they were recorded", p.pid);
    for (pid_t thread : it->second.threads)
      if (!image.criu.sizes.contains(fmt::format("core-{}.img", thread)))
        add(reasons, "it lacks the state of thread {}", thread);
  }
}

// The standard streams that the program has, by which a restore replaces pipes and terminals.
void check_streams(const RestorableImage &image, Reasons &reasons) {
  auto root = image.criu.processes.find(image.manifest.root_pid);
  if (root == image.criu.processes.end()) return;
  auto table = image.criu.descriptors.find(root->second.descriptors);
  if (table == image.criu.descriptors.end()) return;
  for (int fd = 0; fd < 3; fd++)
    if (table->second.contains(fd) && !image.manifest.has_stream[fd])
      add(reasons, "descriptor {} of the program was not recorded", fd);
}

const CriuFiles::Mapping *mapping_of(const CriuFiles::Process &p, const CriuFiles::Pages &pages) {
  auto after = std::ranges::upper_bound(p.mappings, pages.begin, {}, &CriuFiles::Mapping::begin);
  return after == p.mappings.begin() ? nullptr : &*std::prev(after);
}

// The pages may continue in the next mapping.
bool are_mapped(const CriuFiles::Process &p, CriuFiles::Pages pages) {
  while (pages.begin < pages.end) {
    const CriuFiles::Mapping *m = mapping_of(p, pages);
    if (!m || !m->is_private || pages.begin >= m->end) return false;
    pages.begin = m->end;
  }
  return true;
}

void check_memory(const RestorableImage &image, Reasons &reasons) {
  for (const auto &[pid, p] : image.criu.processes) {
    if (!p.alive.value_or(false) || !image.criu.complete) continue;
    if (!p.has_memory) add(reasons, "it lacks the memory of process {} (mm-{}.img)", pid, pid);
    if (!p.has_memory || !p.has_pages) continue;
    u64 stored = 0;
    for (const CriuFiles::Pages &pages : p.pages) {
      if (pages.stored) stored += pages.end - pages.begin;
      if (!are_mapped(p, pages))
        return add(reasons, "it has memory of process {} at {:#x}, where nothing is mapped", pid,
                   pages.begin);
    }
    auto size = image.criu.sizes.find(fmt::format("pages-{}.img", p.pages_file));
    if (stored != (size == image.criu.sizes.end() ? 0 : size->second))
      add(reasons, "it has not all memory of process {}", pid);
  }
}

void check_addresses(const RestorableImage &image, Reasons &reasons) {
  for (const auto &[pid, p] : image.criu.processes) {
    u64 bytes = 0;
    for (const CriuFiles::Mapping &m : p.mappings)
      if (m.is_private && m.end > m.begin)
        bytes += std::min(m.end - m.begin, kMostPrivateBytes + 1);
    if (bytes > kMostPrivateBytes)
      reasons.push_back(fmt::format(
          "process {} has reserved more private memory than CRIU can restore ({} TiB): let it "
          "reserve less",
          pid, kMostPrivateBytes >> 40));
  }
}

void check_timers(const RestorableImage &image, Reasons &reasons) {
  auto is_inside = [&image](pid_t pid) { return image.criu.processes.contains(pid); };
  for (const ImageManifest::ProcessEntry &p : image.manifest.processes)
    if (auto it = image.criu.processes.find(p.pid); it != image.criu.processes.end())
      for (const PosixTimer &t : it->second.timers)
        if (std::string why = unrestorable_clock(t, p.threads.size(), is_inside); !why.empty())
          reasons.push_back(fmt::format("process {} has {}", p.pid, why));
}

void check_open_files(const RestorableImage &image, Reasons &reasons) {
  const CriuFiles &criu = image.criu;
  if (!criu.complete || criu.files.empty()) return;
  auto need = [&](u32 file, const std::string &what) {
    if (file != 0 && !criu.files.contains(file)) add(reasons, "it lacks the file of {}", what);
  };
  for (const auto &[pid, p] : criu.processes) {
    need(p.executable, fmt::format("process {}'s program", pid));
    for (const CriuFiles::Mapping &m : p.mappings)
      need(m.file, fmt::format("process {}'s mapping at {:#x}", pid, m.begin));
  }
  for (const auto &[table, descriptors] : criu.descriptors)
    for (const auto &[fd, file] : descriptors) need(file, fmt::format("descriptor {}", fd));
}

// CRIU refuses a file with another mode, one after the other.
void check_modes(const RestorableImage &image, Reasons &reasons) {
  std::set<std::string> made = image.manifest.supplied;
  for (const ImageManifest::StoredFile &f : image.manifest.memory_files) {
    made.insert(f.path);
    made.insert(f.names.begin(), f.names.end());
  }
  for (const auto &[id, f] : image.criu.files) {
    struct stat st {};
    if (!f.path.starts_with('/') || !f.mode || f.by_other_name || !made.insert(f.path).second)
      continue;
    std::string path = image.prefix + f.path;
    bool found = (S_ISLNK(*f.mode) ? ::lstat(path.c_str(), &st) : ::stat(path.c_str(), &st)) == 0;
    if (!found || st.st_mode == *f.mode) continue;
    if ((st.st_mode & S_IFMT) != (*f.mode & S_IFMT))
      reasons.push_back(
          fmt::format("{} is no file of the same kind any more: put it back", f.path));
    else
      reasons.push_back(
          fmt::format("the file {} has the mode {:o} instead of {:o}: change it (chmod {:o})",
                      f.path, st.st_mode & 07777, *f.mode & 07777, *f.mode & 07777));
  }
}

void check_processor(const RestorableImage &image, Reasons &reasons) {
  constexpr size_t kMostNames = 8;
  if (image.any_processor || image.manifest.processor.features.empty()) return;
  const std::set<std::string> here = processor_features();
  std::vector<std::string> missing;
  std::ranges::set_difference(image.manifest.processor.features, here, std::back_inserter(missing));
  if (here.empty() || missing.empty()) return;
  size_t more = missing.size() - std::min(missing.size(), kMostNames);
  missing.resize(missing.size() - more);
  reasons.push_back(fmt::format(
      "the processor here lacks instructions that the program may use ({}{}): restore it on a "
      "machine that has them, or try it with --ignore-processor",
      fmt::join(missing, ", "), more ? fmt::format(" and {} more", more) : ""));
}

void check_files_of_program(const RestorableImage &image, Reasons &reasons) {
  check_files(image.manifest, image.grown, reasons, image.prefix);
}

void check_mappings_of_program(const RestorableImage &image, Reasons &reasons) {
  check_mapped_files(image.manifest, reasons, image.prefix);
}

void check_links_of_program(const RestorableImage &image, Reasons &reasons) {
  check_links(image.manifest, reasons, image.prefix);
}

constexpr std::array kRules{
    RestoreRule{"processes", false, true, check_processes},
    RestoreRule{"threads", false, true, check_threads},
    RestoreRule{"standard streams", false, true, check_streams},
    RestoreRule{"memory", false, true, check_memory},
    RestoreRule{"addresses", false, false, check_addresses},
    RestoreRule{"timers", false, true, check_timers},
    RestoreRule{"descriptors", false, true, check_open_files},
    RestoreRule{"processor", true, false, check_processor},
    RestoreRule{"open files", true, false, check_files_of_program},
    RestoreRule{"mapped files", true, false, check_mappings_of_program},
    RestoreRule{"modes of files", true, true, check_modes},
    RestoreRule{"rights to open files", true, false, check_open_rights},
    RestoreRule{"names of unlinked files", true, true, check_links_of_program},
};

void check_one(const RestoreRule &rule, const RestorableImage &image, Reasons &reasons) {
  Reasons found;
  rule.check(image, found);
  // A damaged image could name millions.
  if (!rule.needs_machine && found.size() > kMostReasons) {
    found[kMostReasons] = fmt::format("… and {} more ({})", found.size() - kMostReasons, rule.what);
    found.resize(kMostReasons + 1);
  }
  std::ranges::move(found, std::back_inserter(reasons));
}

}  // namespace

std::span<const RestoreRule> restore_rules() { return kRules; }

void check_image(const RestorableImage &image, Reasons &reasons) {
  for (const RestoreRule &rule : kRules)
    if (!rule.needs_machine) check_one(rule, image, reasons);
}

void check_image_and_machine(const RestorableImage &image, Reasons &reasons) {
  for (const RestoreRule &rule : kRules) check_one(rule, image, reasons);
}

void check_running_program(const RestorableImage &image, Reasons &reasons) {
  for (const RestoreRule &rule : kRules)
    if (!rule.needs_image) check_one(rule, image, reasons);
}

Reasons reasons_against(const storage::ImageReader &image) {
  Reasons reasons;
  if (!image.find(std::string(kCriuStreams) + "pstree.img")) return reasons;
  Result<ImageManifest> manifest = ImageManifest::parse(image.manifest());
  if (!manifest) return {manifest.error().text()};
  check_image({*manifest, CriuFiles::of(image), ""}, reasons);
  check_carried_contents(*manifest, image, reasons);
  return reasons;
}

Result<> check_restorable(const nlohmann::json &manifest, const CriuFiles &criu,
                          const std::string &prefix, const Credentials &user) {
  CKPT_TRY(ImageManifest m, ImageManifest::parse(manifest));
  Reasons reasons;
  check_image_and_machine({.manifest = m, .criu = criu, .prefix = prefix, .user = user}, reasons);
  if (reasons.empty()) return {};
  return fail_with_hint(fmt::format("the image could not be restored:{}", as_list(reasons)),
                        "the program keeps running");
}

}  // namespace ckpt::tools

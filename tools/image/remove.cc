// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image rm.
#include <filesystem>
#include <map>

#include "common/base/print.h"
#include "common/base/units.h"
#include "storage/io/file_system.h"
#include "tools/image/commands.h"
#include "tools/image/image_folder.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

// The images of one folder that are to be removed.
struct Group {
  std::string folder;
  ImageFolder::Names names;
  ImageFolder images = {};
};

// By folder, however its name is spelled.
std::vector<Group> by_folder(const std::vector<std::string> &paths) {
  std::map<std::string, Group> groups;
  for (const std::string &path : paths) {
    auto [folder, name] = storage::split_path(path);
    std::error_code ec;
    std::string real = std::filesystem::canonical(folder, ec).string();
    Group &group = groups[ec ? folder : real];
    if (group.folder.empty()) group.folder = folder;
    group.names.insert(name);
  }
  std::vector<Group> all;
  for (auto &[real, group] : groups) all.push_back(std::move(group));
  return all;
}

Reasons against(const Group &group) {
  Reasons reasons;
  for (const std::string &name : group.names)
    if (std::string why = group.images.against(name); !why.empty()) reasons.push_back(why);
  if (reasons.empty()) reasons = group.images.needed_by_others(group.names);
  for (const std::string &name : group.names)
    if (group.images.find(name) && group.images.is_in_use(name))
      reasons.push_back(fmt::format("{} is the parent of a dump in progress", name));
  if (is_of_job(group.folder))
    reasons.push_back(fmt::format(
        "{} is a checkpoint of a job, in which all images belong together (ckpt-dump --job --keep)",
        group.folder));
  return reasons;
}

Result<std::vector<Group>> checked(const std::vector<std::string> &paths, const storage::Key *key) {
  std::vector<Group> groups = by_folder(paths);
  Reasons reasons;
  for (Group &group : groups) {
    CKPT_TRY(group.images, ImageFolder::read(group.folder, key));
    Reasons more = against(group);
    reasons.insert(reasons.end(), more.begin(), more.end());
  }
  if (reasons.empty()) return groups;
  return fail_with_hint("nothing was removed:" + as_list(reasons),
                        "an image can be removed together with its increments, or after "
                        "ckpt-image flatten of them; ckpt-image list shows what there is");
}

}  // namespace

Result<> remove_images(const std::vector<std::string> &paths, const RemovalOptions &options) {
  CKPT_TRY(std::vector<Group> groups, checked(paths, options.key));
  std::vector<std::string> removed;
  u64 bytes = 0;
  for (const Group &group : groups) {
    if (!options.dry_run) CKPT_CHECK(group.images.remove(group.names));
    bytes += group.images.bytes_of(group.names);
    for (const std::string &name : group.names) removed.push_back(group.images.find(name)->path);
  }
  if (options.json) {
    nlohmann::json j{{"removed", removed}, {"bytes", bytes}, {"dry_run", options.dry_run}};
    print_text(json_text(j, 2) + "\n");
    return {};
  }
  for (const std::string &path : removed)
    print("{}  {}\n", options.dry_run ? "would remove" : "removed", printable(path));
  print("{}  {} on the disk\n", options.dry_run ? "would free" : "freed", human_bytes(bytes));
  return {};
}

}  // namespace ckpt::tools

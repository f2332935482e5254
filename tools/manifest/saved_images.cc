// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/saved_images.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "common/base/json_fields.h"
#include "storage/io/partial_folder.h"
#include "storage/read/image_reader.h"
#include "tools/manifest/manifest.h"
#include "tools/manifest/restorable.h"
#include "tools/session/end_mark.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;
using storage::ImageReader;

std::string command_of(const manifest::Manifest &m) {
  std::string all;
  for (const std::string &word : m.argv) all += (all.empty() ? "" : " ") + word;
  return all.empty() ? m.program : all;
}

void add_once(std::vector<std::string> &all, const std::string &name) {
  if (!name.empty() && std::ranges::find(all, name) == all.end()) all.push_back(name);
}

// The names of the devices that were used, or of the API if a participant names none.
std::vector<std::string> devices_of(const manifest::Manifest &m) {
  std::vector<std::string> all;
  for (const manifest::Requirement &participant : m.requirements) {
    size_t before = all.size();
    for (const json &d : json_member(participant.requirements, "devices"))
      if (json_member(d, "used") != json(false)) add_once(all, json_string(d, "name"));
    if (all.size() == before) add_once(all, participant.api);
  }
  return all;
}

// What can be known of an image that cannot be read.
void measure(SavedImage &image) {
  for (const char *name : {storage::kChunksFile, storage::kIndexFile}) {
    struct stat file {};
    if (::lstat((image.path + "/" + name).c_str(), &file) != 0) continue;
    image.disk_bytes += static_cast<u64>(file.st_size);
    image.created_time = file.st_mtim.tv_sec;
  }
}

// "2026-11-22T15:03:34Z" as seconds since 1970.
std::optional<i64> time_in(const std::string &created) {
  tm utc{};
  const char *end = ::strptime(created.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return end && *end == 0 ? std::optional<i64>(::timegm(&utc)) : std::nullopt;
}

void describe(const ImageReader &reader, SavedImage &image) {
  const manifest::Manifest m = manifest::readable_fields(reader.manifest());
  image.uuid = reader.index().uuid;
  image.parents = reader.index().parents;
  image.program = command_of(m);
  image.created = m.created;
  image.created_time = time_in(image.created).value_or(image.created_time);
  image.devices = devices_of(m);
  image.raw_bytes = reader.stats().raw_bytes;
  image.stored_bytes = reader.stats().stored_bytes;
  image.encrypted = reader.index().key_check != 0;
  image.generation = reader.index().generation;
  // Of an image that was pruned or flattened, the manifest still names the parent that it had.
  const std::vector<storage::ParentEntry> &parents = reader.index().parents;
  std::string parent = m.parent ? m.parent->name : "";
  if (std::ranges::find(parents, parent, &storage::ParentEntry::name) != parents.end())
    image.parent = parent;
  else if (!parents.empty())
    image.parent = parents.front().name;
  image.session_folder = m.session_folder;
  if (m.owner) image.owner = m.owner->uid;
  image.root_pid = m.root_pid;
}

void judge(const ImageReader &reader, SavedImage &image) {
  if (Result<> sound = reader.verify(ImageReader::Depth::Stored).result(); !sound) {
    image.state = SavedImage::State::Damaged;
    image.why = sound.error().what;
  } else if (Reasons reasons = reasons_against(reader); !reasons.empty()) {
    image.state = SavedImage::State::Unusable;
    image.why = reasons.front();
  }
}

SavedImage read_image(const std::string &path, const storage::Key *key, Thoroughness thoroughness) {
  SavedImage image{.path = path};
  measure(image);
  auto reader = ImageReader::open(path, {.key = key});
  if (!reader) {
    bool locked = reader.error().what.find("the image is encrypted") != std::string::npos;
    image.state = locked ? SavedImage::State::Locked : SavedImage::State::Damaged;
    image.why = reader.error().what;
    return image;
  }
  describe(**reader, image);
  if (thoroughness == Thoroughness::EveryByte) judge(**reader, image);
  if (image.state != SavedImage::State::Complete) return image;
  if (is_marked_ended(path)) image.state = SavedImage::State::Ended;
  return image;
}

}  // namespace

const char *state_name(SavedImage::State state) {
  switch (state) {
    case SavedImage::State::Complete: return "complete";
    case SavedImage::State::Damaged: return "damaged";
    case SavedImage::State::Locked: return "locked";
    case SavedImage::State::Unusable: return "cannot be restored";
    case SavedImage::State::Incomplete: return "incomplete";
    case SavedImage::State::Ended: return "ended";
  }
  return "?";
}

Result<std::vector<SavedImage>> images_in(const std::string &folder, const storage::Key *key,
                                          Thoroughness thoroughness) {
  std::error_code ec;
  std::filesystem::directory_iterator entries(folder, ec);
  if (ec)
    return fail_with_hint(fmt::format("cannot read the folder {}: {}", folder, ec.message()),
                          "name the folder that contains the images");
  std::vector<SavedImage> all;
  for (const auto &entry : entries) {
    const std::string path = entry.path().string(), name = entry.path().filename().string();
    struct stat index {};
    if (storage::is_partial_name(name)) {
      all.push_back({.path = path, .state = SavedImage::State::Incomplete});
      measure(all.back());
    } else if (::stat((path + "/index.ckpt").c_str(), &index) == 0 ||
               ::stat((path + "/chunks.ckpt").c_str(), &index) == 0) {
      all.push_back(read_image(path, key, thoroughness));
    }
  }
  std::ranges::sort(all, {}, &SavedImage::path);
  return all;
}

}  // namespace ckpt::tools

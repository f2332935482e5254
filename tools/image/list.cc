// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>

#include "common/base/print.h"
#include "common/base/units.h"
#include "tools/image/commands.h"
#include "tools/image/image_folder.h"
#include "tools/image/text.h"
#include "tools/image/tree.h"
#include "tools/json_text.h"
#include "tools/manifest/saved_images.h"
#include "tools/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

// An image may come from a machine with another clock.
u64 age_of(const SavedImage &image) {
  return static_cast<u64>(std::max<i64>(0, ::time(nullptr) - image.created_time));
}

json as_json(const SavedImage &image) {
  return {{"image", image.path},
          {"state", state_name(image.state)},
          {"why", image.why},
          {"program", image.program},
          {"created", image.created},
          {"age_seconds", age_of(image)},
          {"bytes", image.raw_bytes},
          {"devices", image.devices},
          {"stored_bytes", image.stored_bytes},
          {"disk_bytes", image.disk_bytes},
          {"encrypted", image.encrypted},
          {"generation", image.generation},
          {"parent", image.parent},
          {"session_dir", image.session_folder},
          {"root_pid", image.root_pid}};
}

void add_row(Table &table, const SavedImage &image) {
  bool known = !image.created.empty();
  std::string state = state_name(image.state);
  if (image.encrypted) state += ", encrypted";
  if (!image.why.empty()) state += ": " + printable(image.why);
  table.row({name_of(image), printable(image.created), known ? human_duration(age_of(image)) : "",
             known ? human_bytes(image.raw_bytes) : "",
             known ? human_bytes(image.stored_bytes) : "",
             printable(fmt::format("{}", fmt::join(image.devices, ", "))), printable(image.parent),
             printable(image.program), state});
}

// What all folders together have.
struct Listed {
  json array = json::array();
  std::string text;
  size_t images = 0;
  u64 disk_bytes = 0;
  bool lost = false;
};

// Of a tree, each folder with images has a heading and a table.
Result<> add(const std::string &folder, const ListOptions &o, Listed &all) {
  CKPT_TRY(std::vector<SavedImage> images,
           images_in(folder, o.key, o.every_byte ? Thoroughness::EveryByte : Thoroughness::Index));
  if (images.empty()) return {};
  Table table(
      {"IMAGE", "CREATED", "AGE", "SIZE", "STORED", "DEVICES", "PARENT", "PROGRAM", "STATE"});
  for (const SavedImage &image : images) {
    all.lost |=
        image.state == SavedImage::State::Damaged || image.state == SavedImage::State::Unusable;
    all.array.push_back(as_json(image));
    all.disk_bytes += image.disk_bytes;
    add_row(table, image);
  }
  all.images += images.size();
  if (o.recursive) all.text += printable(folder) + ":\n";
  all.text += table.text() + "\n";
  return {};
}

Result<Listed> listed(const std::string &top, const ListOptions &o) {
  Listed all;
  std::vector<std::string> folders{top};
  if (o.recursive) {
    CKPT_TRY(folders, folders_of_tree(top));
  }
  for (const std::string &folder : folders) {
    Result<> added = add(folder, o, all);
    if (!added && !o.recursive) return Failure(added.error());
  }
  return all;
}

}  // namespace

Result<int> list(const std::string &folder, const ListOptions &o) {
  CKPT_TRY(Listed all, listed(folder, o));
  if (o.json)
    print_text(json_text(all.array, 2) + "\n");
  else if (all.images == 0)
    print("there is no image in {}\n", printable(folder));
  else
    print_text(all.text + fmt::format("{} image{}, {} on the disk\n", all.images,
                                      all.images == 1 ? "" : "s", human_bytes(all.disk_bytes)));
  return all.lost ? 1 : 0;
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "common/base/print.h"
#include "common/base/units.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/manifest/saved_images.h"
#include "tools/table.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

json as_json(const SavedImage &image) {
  return {{"image", image.path},
          {"state", state_name(image.state)},
          {"why", image.why},
          {"program", image.program},
          {"created", image.created},
          {"bytes", image.raw_bytes},
          {"devices", image.devices},
          {"stored_bytes", image.stored_bytes},
          {"encrypted", image.encrypted},
          {"generation", image.generation},
          {"parent", image.parent},
          {"session_dir", image.session_folder},
          {"root_pid", image.root_pid}};
}

std::string name_of(const std::string &path) {
  return printable(std::filesystem::path(path).filename().string());
}

void add_row(Table &table, const SavedImage &image) {
  bool known = !image.created.empty();
  std::string state = state_name(image.state);
  if (image.encrypted) state += ", encrypted";
  if (!image.why.empty()) state += ": " + printable(image.why);
  table.row({name_of(image.path), printable(image.created),
             known ? human_bytes(image.raw_bytes) : "",
             known ? human_bytes(image.stored_bytes) : "",
             printable(fmt::format("{}", fmt::join(image.devices, ", "))), printable(image.parent),
             printable(image.program), state});
}

}  // namespace

Result<int> list(const std::string &folder, bool as_json_array, bool every_byte,
                 const storage::Key *key) {
  CKPT_TRY(std::vector<SavedImage> images,
           images_in(folder, key, every_byte ? Thoroughness::EveryByte : Thoroughness::Index));
  json array = json::array();
  Table table({"IMAGE", "CREATED", "SIZE", "STORED", "DEVICES", "PARENT", "PROGRAM", "STATE"});
  bool lost = false;
  for (const SavedImage &image : images) {
    lost |= image.state == SavedImage::State::Damaged || image.state == SavedImage::State::Unusable;
    array.push_back(as_json(image));
    add_row(table, image);
  }
  if (as_json_array)
    print_text(json_text(array, 2) + "\n");
  else if (images.empty())
    print("there is no image in {}\n", printable(folder));
  else
    print_text(table.text());
  return lost ? 1 : 0;
}

}  // namespace ckpt::tools

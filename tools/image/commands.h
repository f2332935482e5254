// SPDX-License-Identifier: Apache-2.0
//
// The commands of ckpt-image.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "storage/read/image_reader.h"
#include "tools/image/keep.h"

namespace ckpt::tools {

// A summary for people; with `streams` also a line for each stream.
std::string show_text(const storage::ImageReader &image, bool streams);
// Everything: {"format_version", "uuid", "manifest", "chunks": {…}, "streams": […], …}.
nlohmann::json show_json(const storage::ImageReader &image);

// Copies an image, together with what it uses of its parents, to the folder `to`, or to standard
// output if that is kPipeImage.
Result<> flatten(const storage::ImageReader &image, const std::string &to, bool overwrite,
                 const storage::Key *key);
// Keeps the `keep` newest images of a chain, removes the others, and prints both lists.
Result<> prune(const std::string &image, size_t keep, bool json, const storage::Key *key);

struct RemovalOptions {
  bool dry_run = false, json = false;
  const storage::Key *key = nullptr;
};
// Removes images, which may be in several folders: all of them, or none if one of them is needed.
Result<> remove_images(const std::vector<std::string> &paths, const RemovalOptions &options);

struct KeepOptions {
  KeepRules rules;
  bool recursive = false;
  RemovalOptions removal;
};
// Removes the images of a folder that no rule keeps. Returns 1 if a folder of a tree was left, or
// if what stays takes too much.
Result<int> keep(const std::string &folder, const KeepOptions &options);

struct ListOptions {
  bool json = false, recursive = false, every_byte = false;
  const storage::Key *key = nullptr;
};
// Prints what the images in `folder` hold, and whether they are complete. Returns 1 if one is
// damaged or, with `every_byte`, cannot be restored.
Result<int> list(const std::string &folder, const ListOptions &options);

// Removes what killed tools have left in the runtime folder, and their partial images in `folder`.
// Prints what was removed.
Result<> clean(const std::string &folder, bool json);

// Writes the bytes of one stream to `fd`.
Result<> extract(const storage::ImageReader &image, const std::string &stream, int fd);

// Reads and checks every byte, and prints the result. Returns 0 if the image is undamaged, 1 if
// not.
int verify(const storage::ImageReader &image, bool quiet, bool json);

struct Difference {
  nlohmann::json json;
  std::string text;
  bool same = false;
};
Result<Difference> diff(const storage::ImageReader &a, const storage::ImageReader &b);

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/session/series.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "storage/ops/prune.h"
#include "storage/read/image_reader.h"
#include "tools/session/batch_names.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFinished = "finished";
constexpr const char *kStarts = "starts";

bool is_complete(const std::string &image) {
  std::error_code ec;
  return fs::exists(image + "/index.ckpt", ec);
}

// 0: it is not a name of a series.
unsigned number_of(const std::string &image) {
  std::string name = fs::path(image).filename().string();
  unsigned n = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), n);
  return error == std::errc() && std::string_view(end) == ".img" ? n : 0;
}

// The folder may be one that others can write to.
Result<> write_new(const std::string &path, const std::string &text) {
  CKPT_TRY(UniqueFd out, open_output(path, O_TRUNC, 0600));
  CKPT_CHECK(write_all(out.get(), view(text)));
  // Before it gets its name: after a loss of power an empty file would say that nothing has
  // finished.
  return ::fsync(out.get()) == 0 ? Result<>{} : fail_errno("cannot write {} to the disk", path);
}

}  // namespace

bool can_be_parent(const std::string &path) {
  std::error_code ignored;
  if (path.empty() || !fs::exists(path, ignored)) return false;
  auto image = storage::ImageReader::open(path, {.only_own = true});
  if (image) return (*image)->index().parents.size() < storage::kMaxParents;
  // A whole image would not be encrypted. ckpt-dump refuses the parent.
  if (storage::has_other_key(path, {})) return true;
  log::warn("the next image is whole, because {} cannot be its parent: {}", path,
            image.error().text());
  return false;
}

bool Series::has_images(const std::string &folder) {
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder, ec))
    if (number_of(e.path().string()) > 0) return true;
  return false;
}

Result<Series> Series::open(const std::string &pattern) {
  CKPT_TRY(std::string path, with_batch_names("--image", pattern));
  std::error_code ec;
  path = fs::absolute(path, ec).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  fs::create_directories(fs::path(path).parent_path(), ec);
  if (!fs::create_directory(path, ec) && ec)
    return fail_with_hint(fmt::format("cannot create the folder {}: {}", path, ec.message()),
                          "name a folder that you may write to with --image");
  else if (!ec && fs::is_empty(path, ec))
    fs::permissions(path, fs::perms::owner_all, ec);
  return Series(path);
}

unsigned Series::highest() const {
  unsigned highest = finished();
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec))
    highest = std::max(highest, number_of(e.path().string()));
  return highest;
}

std::vector<std::string> Series::images() const {
  std::vector<std::pair<unsigned, std::string>> found;
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec)) {
    unsigned n = number_of(e.path().string());
    if (n > finished() && is_complete(e.path().string())) found.emplace_back(n, e.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto &[n, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::string Series::next() const { return fmt::format("{}/{:04}.img", folder_, highest() + 1); }

unsigned Series::number_in(const char *file) const {
  unsigned n = 0;
  std::ifstream(fs::path(folder_) / file) >> n;
  return n;
}

Result<> Series::write_number(const char *file, unsigned n) const {
  std::string path = folder_ + "/" + file, fresh = path + ".new";
  CKPT_CHECK(write_new(fresh, fmt::format("{}\n", n)));
  if (::rename(fresh.c_str(), path.c_str()) != 0) return fail_errno("cannot rename {}", fresh);
  return {};
}

unsigned Series::finished() const { return number_in(kFinished); }

Result<unsigned> Series::count_start() const {
  unsigned before = number_in(kStarts);
  if (Result<> written = write_number(kStarts, before + 1); !written)
    return fail_with_hint(written.error().what, "name a folder that you may write to with --image");
  return before;
}

Result<> Series::mark_finished() const {
  Result<> written = write_number(kFinished, highest());
  if (written) written = write_number(kStarts, 0);
  if (written) return {};
  return fail_with_hint(written.error().what,
                        fmt::format("remove {} before you start the program again", folder_));
}

}  // namespace ckpt::tools

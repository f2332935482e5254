// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/program_files.h"

#include <link.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "fatbin/cubin.h"
#include "fatbin/image.h"

namespace ckpt::remote::cuda {
namespace {

// A callback of dl_iterate_phdr(3), which begins with the executable.
int add_file(dl_phdr_info *info, size_t, void *files) {
  auto &all = *static_cast<std::vector<std::string> *>(files);
  std::string name = info->dlpi_name ? info->dlpi_name : "";
  std::error_code e;
  if (all.empty()) name = std::filesystem::read_symlink("/proc/self/exe", e).string();
  if (name.find('/') != name.npos) all.push_back(std::move(name));
  return 0;
}

// nvcc adds a cubin without kernels to programs for which the device linker has nothing to do.
bool has_kernels(const fatbin::Image &image, const fatbin::Entry &e) {
  if (e.kind != fatbin::Kind::Elf) return true;
  Result<fatbin::Payload> p = image.payload(e);
  if (!p) return true;
  Result<fatbin::CodeFacts> facts = fatbin::facts_of_cubin(p->bytes());
  return !facts || !facts->kernels.empty();
}

// The device linker's results have no PTX; their units do.
bool has_code_without_ptx(const std::string &path) {
  Result<fatbin::Image> image = fatbin::Image::open(path);
  if (!image) return path.starts_with('/');  // relative to another folder, perhaps
  const std::vector<fatbin::Container> &all = image->containers();
  auto is_unit = [](const fatbin::Container &c) { return c.role == fatbin::Role::Unit; };
  bool linked = std::ranges::any_of(all, is_unit);
  return std::ranges::any_of(all, [&](const fatbin::Container &c) {
    if (has_ptx(c) || (linked && !is_unit(c))) return false;
    return std::ranges::any_of(c.entries, [&](const auto &e) { return has_kernels(*image, e); });
  });
}

}  // namespace

std::string file_without_ptx() {
  static std::mutex mutex;
  static auto *const kKnown = new std::map<std::string, bool>;
  std::vector<std::string> files;
  ::dl_iterate_phdr(add_file, &files);
  std::lock_guard lock(mutex);
  for (const std::string &f : files) {
    auto [known, is_new] = kKnown->try_emplace(f);
    if (is_new) known->second = has_code_without_ptx(f);
    if (known->second) return f;
  }
  return {};
}

}  // namespace ckpt::remote::cuda

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/code/code.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "fatbin/summary.h"

namespace ckpt::cuda {
namespace {

struct Books {
  std::mutex mutex;
  std::set<const void *> known;       // where files begin that program_code() has examined
  std::vector<const void *> waiting;  // in mapped files
  std::vector<std::string> files;
  CodeFacts facts;
};
Books &books() {
  static Books *const kBooks = new Books;
  return *kBooks;
}

std::string managed_variable(const fatbin::Summary &s) {
  for (auto &[name, v] : s.variables)
    if (v.variable.space == fatbin::Space::Managed) return name;
  return {};
}

std::vector<u64> device_variables(const fatbin::Summary &s) {
  std::vector<u64> bytes;
  for (auto &[name, v] : s.variables)
    if (v.variable.space != fatbin::Space::Managed) bytes.push_back(v.variable.bytes);
  return bytes;
}

void add(CodeFacts &known, CodeFacts found) {
  if (known.managed_variable.empty()) known.managed_variable = std::move(found.managed_variable);
  if (!found.heap || known.heap) return;
  known.heap = true;
  known.why = std::move(found.why);
}

bool in_a_file(const void *code) {
  Dl_info info{};
  return ::dladdr(code, &info) != 0;
}

// What the toolkit brings along neither calls malloc in kernels nor has large variables, and takes
// a second to examine.
bool is_of_toolkit(std::string_view path) {
  std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libcu") || file.starts_with("libnv") || file.starts_with("libnpp");
}

// Containers in files were found; what a program has as text, or as a cubin among its data, not.
bool known_from_the_start(const void *code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0) return false;
  if (info.dli_fname != nullptr && is_of_toolkit(info.dli_fname)) return true;
  {
    std::lock_guard lock(books().mutex);
    if (!books().known.contains(info.dli_fbase)) return false;
  }
  Result<fatbin::Image> image = fatbin::Image::in_memory(code);
  return image &&
         (image->form() == fatbin::Form::Wrapper || image->form() == fatbin::Form::FatBinary);
}

}  // namespace

// ---- at the start

namespace {

// As dladdr calls it.
const void *beginning(const dl_phdr_info &info) {
  for (int i = 0; i < info.dlpi_phnum; i++)
    if (const auto &p = info.dlpi_phdr[i]; p.p_type == PT_LOAD)
      return reinterpret_cast<const void *>(info.dlpi_addr + (p.p_vaddr & ~(p.p_align - 1)));
  return nullptr;
}

int add_file(dl_phdr_info *info, size_t, void *files) {
  std::string path = info->dlpi_name;
  auto &all = *static_cast<std::vector<std::string> *>(files);
  if (all.empty()) path = "/proc/self/exe";
  if (!all.empty() && (!path.starts_with('/') || is_of_toolkit(path))) return 0;
  all.push_back(path);
  books().known.insert(beginning(*info));
  return 0;
}

void add_to(ProgramCode &code, const fatbin::Image &image) {
  Result<fatbin::Summary> s = fatbin::summarize(image, {.threads = 1});
  if (!s || s->heap.use != fatbin::HeapUse::No) {
    code.heap = true;
    code.why = s ? s->heap.reason : "assumed: " + s.error().what;
  }
  if (s) std::ranges::copy(device_variables(*s), std::back_inserter(code.variables));
}

std::vector<std::string> mapped_files() {
  std::vector<std::string> files;
  std::lock_guard lock(books().mutex);
  ::dl_iterate_phdr(add_file, &files);
  return files;
}

}  // namespace

ProgramCode program_code() {
  ProgramCode code;
  for (const std::string &path : mapped_files()) {
    Result<fatbin::Image> image = fatbin::Image::open(path);
    if (image && !image->containers().empty()) add_to(code, *image);
  }
  return code;
}

// ---- later

NewCode::Examined NewCode::examine(const void *memory, const char *path) {
  Result<fatbin::Image> image =
      memory != nullptr ? fatbin::Image::in_memory(memory) : fatbin::Image::open(path);
  if (!image) return {{true, "assumed: " + image.error().what, {}}, {}};
  Result<fatbin::Summary> s = fatbin::summarize(*image, {.threads = 1});
  if (!s) return {{true, "assumed: " + s.error().what, {}}, {}};
  return {{s->heap.use != fatbin::HeapUse::No, s->heap.reason, managed_variable(*s)},
          device_variables(*s)};
}

ProgramCode NewCode::tells() {
  bool nothing = memory_ == nullptr && path_ == nullptr;
  if (nothing || (memory_ != nullptr && known_from_the_start(memory_))) return {};
  if (!examined_) examined_ = examine(memory_, path_);
  return {examined_->facts.heap, examined_->facts.why, examined_->variables};
}

void NewCode::loaded() {
  if (memory_ == nullptr && path_ == nullptr) return;
  Books &b = books();
  bool later = memory_ == nullptr || in_a_file(memory_);
  if (!later && !examined_) examined_ = examine(memory_, path_);
  std::lock_guard lock(b.mutex);
  if (examined_) return add(b.facts, examined_->facts);
  if (memory_ != nullptr)
    b.waiting.push_back(memory_);
  else
    b.files.emplace_back(path_);
}

// A library that was unloaded since has taken its kernels with it.
CodeFacts code_facts() {
  Books &b = books();
  std::lock_guard lock(b.mutex);
  for (const void *code : std::exchange(b.waiting, {}))
    if (in_a_file(code)) add(b.facts, NewCode::examine(code, nullptr).facts);
  for (const std::string &path : std::exchange(b.files, {}))
    add(b.facts, NewCode::examine(nullptr, path.c_str()).facts);
  return b.facts;
}

}  // namespace ckpt::cuda

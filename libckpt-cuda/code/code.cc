// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/code/code.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "fatbin/summary.h"

namespace ckpt::cuda {
namespace {

// Never destroyed: the CUDA runtime calls the driver after main() has returned.
struct CodeTable {
  std::mutex mutex;
  std::set<const void *> examined_files;  // by program_code(); their load addresses
  std::vector<const void *> to_examine;   // code in mapped files
  std::vector<std::string> paths_to_examine;
  CodeFacts facts;  // of all code examined by code_facts()
};
CodeTable &table() {
  static CodeTable *const kTable = new CodeTable;
  return *kTable;
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
  if (!found.device_heap || known.device_heap) return;
  known.device_heap = true;
  known.reason = std::move(found.reason);
}

bool in_mapped_file(const void *code) {
  Dl_info info{};
  return ::dladdr(code, &info) != 0;
}

// The toolkit's libraries neither call malloc in kernels nor have large variables, and it would
// take a second to examine them.
bool is_of_toolkit(std::string_view path) {
  std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libcu") || file.starts_with("libnv") || file.starts_with("libnpp");
}

// program_code() finds fat binaries in files, but not PTX text or a cubin among a program's data.
bool examined_at_start(const void *code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0) return false;
  if (info.dli_fname != nullptr && is_of_toolkit(info.dli_fname)) return true;
  {
    std::lock_guard lock(table().mutex);
    if (!table().examined_files.contains(info.dli_fbase)) return false;
  }
  Result<fatbin::Image> image = fatbin::Image::in_memory(code);
  return image &&
         (image->form() == fatbin::Form::Wrapper || image->form() == fatbin::Form::FatBinary);
}

// The load address of a file, equal to dladdr's dli_fbase.
const void *load_address(const dl_phdr_info &info) {
  for (int i = 0; i < info.dlpi_phnum; i++)
    if (const auto &p = info.dlpi_phdr[i]; p.p_type == PT_LOAD)
      return reinterpret_cast<const void *>(info.dlpi_addr + (p.p_vaddr & ~(p.p_align - 1)));
  return nullptr;
}

// A callback of dl_iterate_phdr(3), which begins with the executable.
int add_file(dl_phdr_info *info, size_t, void *files) {
  auto &all = *static_cast<std::vector<std::string> *>(files);
  std::string path = all.empty() ? "/proc/self/exe" : info->dlpi_name;
  if (!path.starts_with('/') || is_of_toolkit(path)) return 0;
  all.push_back(path);
  table().examined_files.insert(load_address(*info));
  return 0;
}

void add_to(ProgramCode &code, const fatbin::Image &image) {
  Result<fatbin::Summary> s = fatbin::summarize(image, {.threads = 1});
  if (!s || s->heap.use != fatbin::HeapUse::No) {
    code.device_heap = true;
    code.reason = s ? s->heap.reason : "assumed: " + s.error().what;
  }
  if (s) std::ranges::copy(device_variables(*s), std::back_inserter(code.variables));
}

std::vector<std::string> mapped_files() {
  std::vector<std::string> files;
  std::lock_guard lock(table().mutex);
  ::dl_iterate_phdr(add_file, &files);
  return files;
}

// What cannot be read may use the device's heap.
ExaminedCode unreadable(const Error &e) { return {{true, "assumed: " + e.what, {}}, {}}; }

ExaminedCode examine_image(const Result<fatbin::Image> &image) {
  if (!image) return unreadable(image.error());
  Result<fatbin::Summary> s = fatbin::summarize(*image, {.threads = 1});
  if (!s) return unreadable(s.error());
  return {{s->heap.use != fatbin::HeapUse::No, s->heap.reason, managed_variable(*s)},
          device_variables(*s)};
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

ExaminedCode NewCode::read() const {
  return memory_ != nullptr ? examine_image(fatbin::Image::in_memory(memory_))
                            : examine_image(fatbin::Image::open(path_));
}

ProgramCode NewCode::examine() {
  bool is_null = memory_ == nullptr && path_ == nullptr;
  if (is_null || (memory_ != nullptr && examined_at_start(memory_))) return {};
  if (!examined_) examined_ = read();
  return {examined_->facts.device_heap, examined_->facts.reason, examined_->variables};
}

void NewCode::loaded() {
  if (memory_ == nullptr && path_ == nullptr) return;
  bool can_wait = memory_ == nullptr || in_mapped_file(memory_);
  if (!can_wait && !examined_) examined_ = read();
  CodeTable &t = table();
  std::lock_guard lock(t.mutex);
  if (examined_)
    add(t.facts, examined_->facts);
  else if (memory_ != nullptr)
    t.to_examine.push_back(memory_);
  else
    t.paths_to_examine.emplace_back(path_);
}

// Code of a library that was unloaded meanwhile is skipped: its kernels are unloaded, too.
CodeFacts code_facts() {
  CodeTable &t = table();
  std::lock_guard lock(t.mutex);
  for (const void *code : std::exchange(t.to_examine, {}))
    if (in_mapped_file(code)) add(t.facts, examine_image(fatbin::Image::in_memory(code)).facts);
  for (const std::string &path : std::exchange(t.paths_to_examine, {}))
    add(t.facts, examine_image(fatbin::Image::open(path)).facts);
  return t.facts;
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/code.h"

#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <vector>

#include "fatbin/summary.h"
#include "libckpt-cuda/calls.h"

namespace ckpt::cuda {
namespace {

struct Books {
  std::mutex mutex;
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

CodeFacts examine(const Result<fatbin::Image> &image) {
  if (!image) return {true, "assumed: " + image.error().what, {}};
  Result<fatbin::Summary> s = fatbin::summarize(*image, {.threads = 1});
  if (!s) return {true, "assumed: " + s.error().what, {}};
  return {s->heap.use != fatbin::HeapUse::No, s->heap.reason, managed_variable(*s)};
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

}  // namespace

void note_code(const void *code) {
  if (code == nullptr) return;
  Books &b = books();
  if (in_a_file(code)) {
    std::lock_guard lock(b.mutex);
    return b.waiting.push_back(code);
  }
  CodeFacts found = examine(fatbin::Image::in_memory(code));
  std::lock_guard lock(b.mutex);
  add(b.facts, std::move(found));
}

void note_code_file(const char *path) {
  std::lock_guard lock(books().mutex);
  if (path != nullptr) books().files.emplace_back(path);
}

// A library that was unloaded since has taken its kernels with it.
CodeFacts code_facts() {
  Books &b = books();
  std::lock_guard lock(b.mutex);
  for (const void *code : std::exchange(b.waiting, {}))
    if (in_a_file(code)) add(b.facts, examine(fatbin::Image::in_memory(code)));
  for (const std::string &path : std::exchange(b.files, {}))
    add(b.facts, examine(fatbin::Image::open(path)));
  return b.facts;
}

namespace {

// What the toolkit brings along neither calls malloc in kernels nor has large variables, and takes
// a second to examine.
bool is_of_toolkit(std::string_view path) {
  std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libcu") || file.starts_with("libnv") || file.starts_with("libnpp");
}

int add_file(dl_phdr_info *info, size_t, void *files) {
  std::string path = info->dlpi_name;
  auto &all = *static_cast<std::vector<std::string> *>(files);
  if (all.empty()) path = "/proc/self/exe";
  if (all.empty() || (path.starts_with('/') && !is_of_toolkit(path))) all.push_back(path);
  return 0;
}

void add_to(ProgramCode &code, const fatbin::Image &image) {
  Result<fatbin::Summary> s = fatbin::summarize(image, {.threads = 1});
  if (!s || s->heap.use != fatbin::HeapUse::No) {
    code.heap = true;
    code.why = s ? s->heap.reason : "assumed: " + s.error().what;
  }
  if (!s) return;
  for (auto &[name, v] : s->variables)
    if (v.variable.space != fatbin::Space::Managed) code.variables.push_back(v.variable.bytes);
}

}  // namespace

ProgramCode program_code() {
  ProgramCode code;
  std::vector<std::string> files;
  ::dl_iterate_phdr(add_file, &files);
  for (const std::string &path : files) {
    Result<fatbin::Image> image = fatbin::Image::open(path);
    if (image && !image->containers().empty()) add_to(code, *image);
  }
  return code;
}

CUresult entry_cuModuleLoad(CUmodule *module, const char *path) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoad)(module, path);
  if (e == CUDA_SUCCESS) note_code_file(path);
  return e;
}

CUresult entry_cuModuleLoadData(CUmodule *module, const void *code) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoadData)(module, code);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned int n,
                                  CUjit_option *options, void **values) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoadDataEx)(module, code, n, options, values);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuModuleLoadFatBinary(CUmodule *module, const void *code) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuModuleLoadFatBinary)(module, code);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
                                 void **jit_values, unsigned int n_jit, CUlibraryOption *options,
                                 void **values, unsigned int n) {
  PASS_OR_RETURN(pass);
  CUresult e = REAL(cuLibraryLoadData)(library, code, jit, jit_values, n_jit, options, values, n);
  if (e == CUDA_SUCCESS) note_code(code);
  return e;
}

CUresult entry_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit,
                                     void **jit_values, unsigned int n_jit,
                                     CUlibraryOption *options, void **values, unsigned int n) {
  PASS_OR_RETURN(pass);
  CUresult e =
      REAL(cuLibraryLoadFromFile)(library, path, jit, jit_values, n_jit, options, values, n);
  if (e == CUDA_SUCCESS) note_code_file(path);
  return e;
}

}  // namespace ckpt::cuda

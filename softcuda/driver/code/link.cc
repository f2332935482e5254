// SPDX-License-Identifier: Apache-2.0
//
// cuLink*: the driver's linker. Its inputs and its output are PTX, which is what the device runs.
// The output lists the inputs one after the other, behind a comment with their sizes. They are
// linked when the output is loaded, because static names of different inputs may be the same.
#include "softcuda/driver/code/link.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "softcuda/driver/code/code.h"
#include "softcuda/driver/code/jit_outputs.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr std::string_view kHead = "// softcuda: linked from inputs of these sizes:";

struct Link {
  Link(unsigned n, const CUjit_option *options, void **values) : jit(n, options, values) {}
  JitCall jit;
  std::vector<std::string> ptx;
  std::string image;  // once it is complete
};

Handles<Link> &links() {
  static auto *const kLinks = new Handles<Link>;
  return *kLinks;
}

// Takes a number from the front of `text`.
std::optional<size_t> take_size(std::string_view &text) {
  size_t n = 0;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  auto [end, e] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (e != std::errc{}) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return n;
}

}  // namespace

std::string linked_image(const std::vector<std::string> &ptx) {
  std::string image(kHead);
  for (const std::string &p : ptx) image += fmt::format(" {}", p.size() + 1);
  image += '\n';
  for (const std::string &p : ptx) image += p + '\n';
  return image;
}

std::vector<std::string> linked_parts(std::string_view text) {
  if (!text.starts_with(kHead)) return {std::string(text)};
  size_t line = std::min(text.find('\n'), text.size() - 1);
  std::string_view sizes = text.substr(kHead.size(), line - kHead.size());
  text.remove_prefix(line + 1);
  std::vector<std::string> parts;
  while (std::optional<size_t> n = take_size(sizes)) {
    parts.emplace_back(text.substr(0, *n));
    text.remove_prefix(std::min(*n, text.size()));
  }
  return parts;
}

namespace {

CUresult add_text(Link &l, const char *data, size_t bytes) {
  std::string text(data, strnlen(data, bytes));
  for (std::string &part : linked_parts(text)) {
    if (Result<std::unique_ptr<ptx::LoadedModule>> m = ptx::parse_module(part); !m) {
      compiler_error(m.error().text());
      return CUDA_ERROR_INVALID_PTX;
    }
    l.ptx.push_back(std::move(part));
  }
  return CUDA_SUCCESS;
}

// NVIDIA's library for kernels that launch kernels or synchronise a grid. Its code is SASS. What
// the device itself offers of it needs no library, and what it lacks is an error that names the
// function.
bool is_device_runtime(const char *name) {
  return name != nullptr && std::string_view(name).find("cudadevrt") != std::string_view::npos;
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuLinkCreate_v2(unsigned int n, CUjit_option *options, void **values,
                                      CUlinkState *out) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = reinterpret_cast<CUlinkState>(links().add(new Link(n, options, values)));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data,
                                       size_t bytes, const char *name, unsigned int, CUjit_option *,
                                       void **) {
  CALL_WITH_CONTEXT();
  Link *l = links().get(state);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(data != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
  if (type == CU_JIT_INPUT_PTX)
    return l->jit.done(add_text(*l, static_cast<const char *>(data), bytes));
  if (type == CU_JIT_INPUT_LIBRARY && is_device_runtime(name)) return CUDA_SUCCESS;
  REQUIRE(type == CU_JIT_INPUT_CUBIN || type == CU_JIT_INPUT_FATBINARY,
          CUDA_ERROR_NO_BINARY_FOR_GPU);
  return l->jit.done(read_code(data, l->ptx));
}

SOFTCUDA_API CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                       unsigned int n, CUjit_option *options, void **values) {
  REQUIRE(path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in, CUDA_ERROR_FILE_NOT_FOUND);
  std::string data{std::istreambuf_iterator<char>(in), {}};
  return cuLinkAddData_v2(state, type, data.data(), data.size(), path, n, options, values);
}

SOFTCUDA_API CUresult cuLinkComplete(CUlinkState state, void **code, size_t *bytes) {
  CALL_WITH_CONTEXT();
  Link *l = links().get(state);
  REQUIRE(l != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(code != nullptr && !l->ptx.empty(), CUDA_ERROR_INVALID_VALUE);
  l->image = linked_image(l->ptx);
  *code = l->image.data();
  if (bytes != nullptr) *bytes = l->image.size() + 1;
  return l->jit.done(CUDA_SUCCESS);
}

SOFTCUDA_API CUresult cuLinkDestroy(CUlinkState state) {
  CALL_WITH_CONTEXT();
  Link *l = links().get(state);
  REQUIRE(l != nullptr && links().remove(l), CUDA_ERROR_INVALID_HANDLE);
  delete l;
  return CUDA_SUCCESS;
}

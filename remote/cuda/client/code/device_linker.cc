// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/code/device_linker.h"

#include <fstream>
#include <iterator>
#include <unordered_map>

#include "remote/cuda/client/objects/client.h"
#include "remote/cuda/jit_options.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u64 kMaxInputBytes = kMaxBody - 4096;  // one message

struct Input {
  u32 type;
  CodePart part;
  std::string name;
  JitOptions options;
};

struct Linker {
  JitOptions options;
  api::JitOutputs outputs;
  std::vector<Input> inputs;
  Bytes image;  // the program's until it destroys the linker
};

struct LinkerTable {
  std::mutex mutex;
  u64 last = 0;
  std::unordered_map<u64, std::shared_ptr<Linker>> live;
  // By the number of the image that was made from it. Kept for ever: a program may load a copy of
  // the image at any time.
  std::unordered_map<u64, CodePart> texts;
};
LinkerTable &linker_table() {
  static LinkerTable *const kTable = new LinkerTable;
  return *kTable;
}

std::shared_ptr<Linker> find(CUlinkState state) {
  std::lock_guard lock(linker_table().mutex);
  auto found = linker_table().live.find(reinterpret_cast<u64>(state));
  return found == linker_table().live.end() ? nullptr : found->second;
}

bool changes_code(const JitOptions &o) {
  return std::ranges::any_of(o.numbers, [](const JitOptions::Number &n) {
    auto option = static_cast<CUjit_option>(n.option);
    return option != CU_JIT_LOG_VERBOSE && option != CU_JIT_TARGET_FROM_CUCONTEXT &&
           option != CU_JIT_CACHE_MODE && option != CU_JIT_GENERATE_LINE_INFO;
  });
}

// Nothing if the image is more than the compiled text.
std::optional<CodePart> only_text(const Linker &l) {
  if (l.inputs.size() != 1 || changes_code(l.options) || changes_code(l.inputs[0].options))
    return {};
  if (l.inputs[0].type != CU_JIT_INPUT_PTX) return {};
  return l.inputs[0].part;
}

// An image as it is loaded: without what the linker's size counts behind it.
std::optional<u64> part_number_of(const fatbin::Image &image) {
  if (image.containers().size() != 1) return {};
  const fatbin::Container &c = image.containers()[0];
  return keep_part(view(reinterpret_cast<const void *>(c.at), c.bytes)).number;
}

void note_image(const Linker &l) {
  std::optional<CodePart> text = only_text(l);
  Result<fatbin::Image> image = fatbin::Image::in_memory(l.image.data());
  std::optional<u64> number = image ? part_number_of(*image) : std::nullopt;
  if (!text || !number) return;
  std::lock_guard lock(linker_table().mutex);
  linker_table().texts.emplace(*number, std::move(*text));
}

CUresult complete(Linker &l) {
  Writer w;
  put(w, l.options);
  w.put(static_cast<u32>(l.inputs.size()));
  for (const Input &in : l.inputs) {
    send_part(in.part, current_context());
    w.put(in.type).put(in.part.number).str(in.name);
    put(w, in.options);
  }
  Bytes reply;
  CUresult e = ask(Op::Link, w, &reply);
  Reader r(reply);
  if (JitAnswer said; get(r, said)) write_answer(l.outputs, said);
  ByteView image = r.blob();
  if (e != CUDA_SUCCESS) return e;
  if (!r.done() || image.empty()) return link().malformed();
  l.image.assign(image.begin(), image.end());
  l.image.push_back(std::byte{0});  // the software device's images are texts
  note_image(l);
  return e;
}

CUresult add(Linker &l, CUjitInputType type, ByteView bytes, const char *name,
             const JitOptions &options) {
  if (type >= CU_JIT_NUM_INPUT_TYPES || bytes.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (bytes.size() > kMaxInputBytes)
    return refuse("an input of the linker of more than 64 MiB", "it does not fit into one message");
  // A text may come with the NUL at its end; a part has none.
  if (type == CU_JIT_INPUT_PTX) bytes = view(text(bytes).substr(0, text(bytes).find('\0')));
  l.inputs.push_back({static_cast<u32>(type), keep_part(bytes), name ? name : "", options});
  return CUDA_SUCCESS;
}

}  // namespace

std::optional<CodePart> text_behind(const fatbin::Image &image) {
  std::optional<u64> number = part_number_of(image);
  std::lock_guard lock(linker_table().mutex);
  auto found = number ? linker_table().texts.find(*number) : linker_table().texts.end();
  return found == linker_table().texts.end() ? std::nullopt : std::optional(found->second);
}

CUresult entry_cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == 0) return CUDA_ERROR_INVALID_CONTEXT;
  auto l = std::make_shared<Linker>();
  l->options = jit_options(n, options, values);
  l->outputs = api::JitOutputs(n, options, values);
  std::lock_guard lock(linker_table().mutex);
  linker_table().live[++linker_table().last] = std::move(l);
  *out = reinterpret_cast<CUlinkState>(linker_table().last);
  return CUDA_SUCCESS;
}

CUresult entry_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
                                const char *name, unsigned n, CUjit_option *options,
                                void **values) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::shared_ptr<Linker> l = find(state);
  if (!l) return CUDA_ERROR_INVALID_HANDLE;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  return add(*l, type, view(data, bytes), name, jit_options(n, options, values));
}

CUresult entry_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                unsigned n, CUjit_option *options, void **values) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::shared_ptr<Linker> l = find(state);
  if (!l) return CUDA_ERROR_INVALID_HANDLE;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  return add(*l, type, view(bytes), path, jit_options(n, options, values));
}

CUresult entry_cuLinkComplete(CUlinkState state, void **code, size_t *bytes) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::shared_ptr<Linker> l = find(state);
  if (!l) return CUDA_ERROR_INVALID_HANDLE;
  if (!code) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult e = complete(*l); e != CUDA_SUCCESS) return e;
  *code = l->image.data();
  if (bytes) *bytes = l->image.size() - 1;
  return CUDA_SUCCESS;
}

CUresult entry_cuLinkDestroy(CUlinkState state) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::lock_guard lock(linker_table().mutex);
  return linker_table().live.erase(reinterpret_cast<u64>(state)) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace ckpt::remote::cuda

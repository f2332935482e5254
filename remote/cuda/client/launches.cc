// SPDX-License-Identifier: Apache-2.0
//
// Launches go one way, except for the first one of each shape (function, sizes, attributes): the
// driver judges it, so that what it refuses is refused at once, as on this node. Grids of about the
// same size are of one shape, because limits on the size of a grid are powers of two less one (CUDA
// C++ Programming Guide, "Compute Capabilities"); only for cooperative launches and clusters the
// exact size counts.
#include "remote/cuda/client/launches.h"

#include <bit>

#include "common/base/fnv.h"
#include "remote/cuda/client/graphs/capture.h"
#include "remote/cuda/client/native.h"
#include "remote/cuda/client/placed_code.h"
#include "remote/cuda/client/shared_memory.h"

namespace ckpt::remote::cuda {

CUresult layout_of(u64 function, const ParameterLayout *&out) {
  static std::mutex mutex;
  static auto *const kKnown = new std::unordered_map<u64, ParameterLayout>;
  std::lock_guard lock(mutex);
  auto found = kKnown->find(function);
  if (found == kKnown->end()) {
    Bytes reply;
    Writer w;
    CUresult e = ask(Op::Parameters, site_of_handle(function), w.put(function), &reply);
    if (e != CUDA_SUCCESS) return e;
    Reader r(reply);
    ParameterLayout layout{{}, r.get<u8>() != 0};
    for (u32 n = r.get<u32>(); n > 0 && r.ok(); n--) {
      u64 offset = r.get<u64>();
      layout.places.push_back({offset, r.get<u64>()});
    }
    if (!r.done()) return link().malformed();
    found = kKnown->emplace(function, std::move(layout)).first;
  }
  out = &found->second;  // never erased, as numbers are not used again
  return CUDA_SUCCESS;
}

CUresult pack(u64 function, void **parameters, void **extra, Bytes &out) {
  if (extra) {
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
      if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
      if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<size_t *>(extra[1]);
    }
    if (bytes > 0 && !buffer) return CUDA_ERROR_INVALID_VALUE;
    ByteView all = view(buffer, bytes);
    out.assign(all.begin(), all.end());
  }
  const ParameterLayout *layout = nullptr;
  if (CUresult e = layout_of(function, layout); e != CUDA_SUCCESS) return e;
  const std::vector<ParameterPlace> &places = layout->places;
  for (const ParameterPlace &p : places) {
    if (extra && p.offset + p.bytes > out.size()) return CUDA_ERROR_INVALID_VALUE;
    out.resize(std::max<u64>(out.size(), p.offset + p.bytes));
  }
  if (extra || places.empty()) return CUDA_SUCCESS;
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < places.size(); i++)
    std::memcpy(out.data() + places[i].offset, parameters[i], places[i].bytes);
  return CUDA_SUCCESS;
}

namespace {

bool is_carried(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE || id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
         id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
}

bool is_hint(CUlaunchAttributeID id) {
  return id == CU_LAUNCH_ATTRIBUTE_IGNORE || id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         id == CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
}

// {attributes}, of which those that are only hints are left out.
void put_attributes(Writer &w, const CUlaunchConfig &c) {
  std::span all(c.attrs, c.numAttrs);
  auto carried = [](const CUlaunchAttribute &a) { return is_carried(a.id); };
  w.put(static_cast<u32>(std::ranges::count_if(all, carried)));
  for (const CUlaunchAttribute &a : all)
    if (carried(a)) w.put(static_cast<u32>(a.id)).raw(&a.value, sizeof a.value);
}

// A program has set the size of a function's clusters.
std::atomic<bool> clusters_set{false};

u64 shape_of(const CUlaunchConfig &c, u64 function) {
  auto extent = [](unsigned n) { return static_cast<u64>(std::bit_width(n)); };
  const std::array<u64, 9> all{function,           extent(c.gridDimX), extent(c.gridDimY),
                               extent(c.gridDimZ), c.blockDimX,        c.blockDimY,
                               c.blockDimZ,        c.sharedMemBytes,   current_context()};
  return fnv1a(text(view(all.data(), sizeof all)));
}

}  // namespace

CUresult check_attributes(const CUlaunchAttribute *attributes, size_t n) {
  for (const CUlaunchAttribute &a : std::span(attributes, n))
    if (!is_carried(a.id) && !is_hint(a.id))
      return refuse("cuLaunchKernelEx with this attribute",
                    "events and orders inside of a launch are not carried to other nodes");
  return CUDA_SUCCESS;
}

void note_attribute_set(CUfunction_attribute what) {
  if (what == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ||
      what == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT ||
      what == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
    clusters_set = true;
}

CUresult launch_packed(const CUlaunchConfig &c, CUfunction f, ByteView parameters) {
  if (CUresult e = initialise_placed_variables(); e != CUDA_SUCCESS) return e;
  const ParameterLayout *layout = nullptr;
  if (CUresult e = layout_of(number_of(f), layout); e != CUDA_SUCCESS) return e;
  f = here(f);
  Writer w;
  w.put(number_of(f)).put(c.gridDimX).put(c.gridDimY).put(c.gridDimZ).put(c.blockDimX);
  w.put(c.blockDimY).put(c.blockDimZ).put(c.sharedMemBytes).put(number_of(c.hStream));
  put_attributes(w, c);
  bool exact = layout->by_exact_grid || clusters_set || c.numAttrs != 0;
  u64 shape = exact ? fnv1a(text(w.bytes()), current_context()) : shape_of(c, number_of(f));
  Link::Parts parts{w.bytes(), parameters};
  if (CUresult e = shared_memory().before_work(number_of(c.hStream)); e != CUDA_SUCCESS) return e;
  if (can_send(number_of(c.hStream)) && ledger().knows_shape(shape, number_of(f))) {
    link().send(number(Op::Launch), current_context(), parts);
    return CUDA_SUCCESS;
  }
  CUresult e = note_error(link().ask(number(Op::Launch), current_context(), parts));
  if (e == CUDA_SUCCESS) ledger().add_shape(shape);
  return e;
}

namespace {

CUresult launch_here(Native &native, const CUlaunchConfig &c, CUfunction f, void **parameters,
                     void **extra) {
  if (CUresult e = initialise_placed_variables(); e != CUDA_SUCCESS) return e;
  if (CUresult e = shared_memory().before_work(number_of(c.hStream)); e != CUDA_SUCCESS) return e;
  return note_error(native.launch(current_context(), c, number_of(here(f)), parameters, extra));
}

CUresult launch(const CUlaunchConfig &c, CUfunction f, void **parameters, void **extra) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult e = check_attributes(c.attrs, c.numAttrs); e != CUDA_SUCCESS) return e;
  if (is_capturing(c.hStream)) return capture_launch(c, f, parameters, extra);
  if (Native *native = link().native_at(current_context()))
    return launch_here(*native, c, f, parameters, extra);
  Bytes packed;
  if (CUresult e = pack(number_of(f), parameters, extra, packed); e != CUDA_SUCCESS) return e;
  return launch_packed(c, f, packed);
}

}  // namespace

CUresult entry_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, CUstream stream,
                              void **parameters, void **extra) {
  return launch({gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, f, parameters, extra);
}

CUresult entry_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **parameters,
                                void **extra) {
  return config ? launch(*config, f, parameters, extra) : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                         unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                         CUstream stream, void **parameters) {
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return launch({gx, gy, gz, bx, by, bz, shared, stream, &cooperative, 1}, f, parameters, nullptr);
}

CUresult call_host(CUstream stream, Link::HostFunction function) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  u64 token =
      link().expect_host_call([f = std::move(function)] { shared_memory().run_host_function(f); });
  Writer w;
  Site site = site_of_handle(number_of(stream));
  CUresult e = ask(Op::HostCall, site, w.put(token).put(number_of(stream)));
  if (e != CUDA_SUCCESS) link().forget_host_call(token);
  return e;
}

CUresult entry_cuLaunchHostFunc(CUstream stream, CUhostFn f, void *data) {
  if (!f) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(stream)) return capture_host(stream, {f, data});
  return call_host(stream, [f, data] { f(data); });
}

CUresult entry_cuStreamAddCallback(CUstream stream, CUstreamCallback f, void *data,
                                   unsigned flags) {
  if (!f || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(stream)) return invalidate_capture(stream);
  return call_host(stream, [=] { f(stream, CUDA_SUCCESS, data); });
}

}  // namespace ckpt::remote::cuda

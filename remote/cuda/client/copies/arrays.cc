// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/client/copies/arrays.h"

#include "remote/cuda/client/copies/copies.h"

namespace ckpt::remote::cuda {
namespace {

// What the program has asked for. Numbers are not used again, so those that ended may stay.
struct ArrayTable {
  std::mutex mutex;
  std::unordered_map<u64, CUDA_ARRAY3D_DESCRIPTOR> all;
  std::unordered_map<u64, std::vector<u64>> levels;  // of a mipmapped array
};
ArrayTable &array_table() {
  static ArrayTable *const kTable = new ArrayTable;
  return *kTable;
}

CUresult check_format(const CUDA_ARRAY3D_DESCRIPTOR &d) {
  constexpr unsigned kKnown = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                              CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;
  if (api::channel_bytes(d.Format) == 0 || (d.Flags & ~kKnown) != 0)
    return refuse("an array of this format", "such arrays are not carried to other nodes");
  return CUDA_SUCCESS;
}

// Makes the object of this number on the server. It ends with its owner.
CUresult make_object(Op op, u64 number, u64 owner, Writer arguments) {
  Bytes reply;
  if (CUresult e = ask(op, arguments, &reply); e != CUDA_SUCCESS) return e;
  u64 made = 0;
  if (CUresult e = read_reply(reply, made); e != CUDA_SUCCESS) return e;
  if (made != number) return link().malformed();
  ledger().add(number, owner, {cuda::number(op), current_context(), arguments.take()});
  return CUDA_SUCCESS;
}

CUresult make(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR &d) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (CUresult e = check_format(d); e != CUDA_SUCCESS) return e;
  u64 number = ledger().new_number(Kind::Array);
  Writer w;
  w.put(number).raw(&d, sizeof d);
  CUresult e = make_object(Op::MakeArray, number, current_context(), std::move(w));
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(array_table().mutex);
  array_table().all[number] = d;
  *out = reinterpret_cast<CUarray>(number);
  return CUDA_SUCCESS;
}

// All levels, because their contents move with the array whether the program has asked for them or
// not. The driver makes as many as it can of those that were asked for, but at least one.
CUresult make_levels(u64 mipmap, const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels) {
  for (u32 level = 0; level < api::levels_of(d, levels); level++) {
    u64 number = ledger().new_number(Kind::Array);
    Writer w;
    w.put(number).put(mipmap).put(level);
    CUresult e = make_object(Op::MipmapLevel, number, mipmap, std::move(w));
    if (e == CUDA_ERROR_INVALID_VALUE && level > 0) return CUDA_SUCCESS;
    if (e != CUDA_SUCCESS) return e;
    std::lock_guard lock(array_table().mutex);
    array_table().all[number] = api::level_of(d, level);
    array_table().levels[mipmap].push_back(number);
  }
  return CUDA_SUCCESS;
}

CUresult make_mipmap(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR &d, u32 levels) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (CUresult e = check_format(d); e != CUDA_SUCCESS) return e;
  u64 number = ledger().new_number(Kind::Mipmap);
  Writer w;
  w.put(number).raw(&d, sizeof d).put(levels);
  CUresult e = make_object(Op::MakeMipmap, number, current_context(), std::move(w));
  if (e != CUDA_SUCCESS) return e;
  auto made = reinterpret_cast<CUmipmappedArray>(number);
  if (e = make_levels(number, d, levels); e != CUDA_SUCCESS)
    return (void)entry_cuMipmappedArrayDestroy(made), e;
  *out = made;
  return CUDA_SUCCESS;
}

CUresult description(CUarray array, CUDA_ARRAY3D_DESCRIPTOR &out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!is_array(number_of(array))) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(array_table().mutex);
  out = array_table().all[number_of(array)];
  return CUDA_SUCCESS;
}

// One end of a copy of bytes in one row.
struct End {
  CUmemorytype type;
  u64 address;  // in an array: bytes in front of it
  CUarray array;
};
End memory_at(CUdeviceptr p) { return {CU_MEMORYTYPE_DEVICE, p, nullptr}; }
End host_at(const void *p) { return {CU_MEMORYTYPE_HOST, number_of(p), nullptr}; }
End array_at(CUarray a, size_t offset) { return {CU_MEMORYTYPE_ARRAY, offset, a}; }

CUresult copy_row(const End &to, const End &from, size_t bytes, Order order) {
  CUDA_MEMCPY3D c{};
  c.dstMemoryType = to.type;
  c.dstArray = to.array;
  c.srcMemoryType = from.type;
  c.srcArray = from.array;
  c.dstXInBytes = to.array ? to.address : 0;
  c.srcXInBytes = from.array ? from.address : 0;
  c.dstDevice = to.array ? 0 : to.address;
  c.srcDevice = from.array ? 0 : from.address;
  c.dstHost = reinterpret_cast<void *>(c.dstDevice);
  c.srcHost = reinterpret_cast<const void *>(c.srcDevice);
  c.WidthInBytes = bytes;
  c.Height = c.Depth = 1;
  return copy_box(c, order);
}

}  // namespace

bool is_array(u64 number) { return kind_of(number) == Kind::Array && ledger().lives(number); }

std::vector<LiveArray> live_arrays() {
  std::vector<LiveArray> all;
  std::lock_guard lock(array_table().mutex);
  for (const Ledger::Object &o : ledger().objects(Kind::Array))
    if (auto found = array_table().all.find(o.number); found != array_table().all.end())
      all.push_back({o.number, o.call.context, api::ArrayShape(found->second)});
  return all;
}

CUresult entry_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
  return out && d ? make(out, *d) : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                      unsigned levels) {
  return out && d ? make_mipmap(out, *d, levels) : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray array, unsigned level) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  u64 number = number_of(array);
  if (kind_of(number) != Kind::Mipmap || !ledger().lives(number)) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(array_table().mutex);
  const std::vector<u64> &levels = array_table().levels[number];
  if (level >= levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUarray>(levels[level]);
  return CUDA_SUCCESS;
}

CUresult entry_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
  if (!out || !d) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR all{};
  all.Width = d->Width;
  all.Height = d->Height;
  all.Format = d->Format;
  all.NumChannels = d->NumChannels;
  return make(out, all);
}

CUresult entry_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array) {
  return d ? description(array, *d) : CUDA_ERROR_INVALID_VALUE;
}

CUresult entry_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR all{};
  if (!d) return CUDA_ERROR_INVALID_VALUE;
  CUresult e = description(array, all);
  if (e == CUDA_SUCCESS) *d = {all.Width, all.Height, all.Format, all.NumChannels};
  return e;
}

// The two forms of an entry that waits: for the legacy default stream, and for the per-thread one.
#define WAITING(symbol, parameters, to, from)                                      \
  CUresult entry_##symbol parameters { return copy_row(to, from, n, {0, false}); } \
  CUresult entry_##symbol##_ptds parameters { return copy_row(to, from, n, {2, false}); }
WAITING(cuMemcpyAtoA_v2, (CUarray to, size_t x, CUarray from, size_t y, size_t n), array_at(to, x),
        array_at(from, y))
WAITING(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t x, size_t n), memory_at(to),
        array_at(from, x))
WAITING(cuMemcpyDtoA_v2, (CUarray to, size_t x, CUdeviceptr from, size_t n), array_at(to, x),
        memory_at(from))
WAITING(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t x, size_t n), host_at(to),
        array_at(from, x))
WAITING(cuMemcpyHtoA_v2, (CUarray to, size_t x, const void *from, size_t n), array_at(to, x),
        host_at(from))
#undef WAITING

CUresult entry_cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t x, size_t n, CUstream s) {
  return copy_row(host_at(to), array_at(from, x), n, {number_of(s), true});
}
CUresult entry_cuMemcpyHtoAAsync_v2(CUarray to, size_t x, const void *from, size_t n, CUstream s) {
  return copy_row(array_at(to, x), host_at(from), n, {number_of(s), true});
}

}  // namespace ckpt::remote::cuda

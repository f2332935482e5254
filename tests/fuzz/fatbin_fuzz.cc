// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: the input is examined as ckpt-fatbin does it, as a file with device code (an ELF file,
// a fat binary, a cubin or PTX) and as the payload of an entry with each compression.
#include <cstdlib>

#include "fatbin/cubin.h"
#include "fatbin/examination.h"
#include "fatbin/ptx.h"
#include "fatbin/summary.h"

namespace {

using namespace ckpt;
using namespace ckpt::fatbin;

constexpr u64 kMaxPayload = 4u << 20;

void examine(ByteView bytes) {
  Result<Image> image = Image::from_bytes(bytes);
  if (!image) return;
  Result<Summary> s = summarize(
      *image, {.max_payload_bytes = kMaxPayload, .max_total_bytes = 16u << 20, .threads = 1});
  if (!s) return;
  // An entry that was not examined must never lead to a "no".
  if (s->heap.reason.empty()) std::abort();
  if (s->heap.use == HeapUse::No && !s->unexamined.empty())
    for (const Unexamined &u : s->unexamined)
      if (scopes_of(*image)[u.container][u.entry] == Scope::All) std::abort();
}

// A container with one entry that has a valid header, so that the fuzzer reaches the payload.
Bytes wrapped(ByteView payload, Kind kind, u64 flags, u64 raw_bytes) {
  u64 padded = (payload.size() + 7) / 8 * 8;
  EntryRecord r{.kind = static_cast<u16>(kind),
                .version = 0x101,
                .header_bytes = sizeof(EntryRecord),
                .padded_bytes = padded,
                .compressed_bytes = flags ? static_cast<u32>(payload.size()) : 0,
                .arch = 75,
                .flags = flags,
                .raw_bytes = raw_bytes};
  Writer w;
  w.put(kContainerMagic).put(kContainerVersion).put(u16{sizeof(ContainerRecord)});
  w.put(u64{sizeof r + padded}).raw(&r, sizeof r).raw(payload.data(), payload.size());
  Bytes out = w.take();
  out.resize(sizeof(ContainerRecord) + sizeof r + padded);
  return out;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  ByteView bytes = view(data, size);
  examine(bytes);
  (void)facts_of_ptx(text(bytes));
  (void)facts_of_cubin(bytes);
  if (size < 2) return 0;
  u64 raw_bytes = u64{data[0]} << 8;
  for (u64 flags : {u64{0}, kFlagLz4, kFlagZstd})
    examine(wrapped(bytes.subspan(1), data[1] & 1 ? Kind::Elf : Kind::Ptx, flags, raw_bytes));
  return 0;
}

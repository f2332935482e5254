// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: receives any bytes as an image in a pipe (storage/ops/receive.h), unchanged and with a
// corrected header, index size and checksum. Verifies and reads the images that are accepted.
#include <cstdlib>

#include "common/base/log.h"
#include "storage/ops/receive.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/seal_index.h"
#include "tests/fuzz/volatile_file_system.h"

namespace {

using namespace ckpt;

constexpr size_t kMaxRead = 64u << 20;

void receive(ByteView bytes) {
  static VolatileFileSystem fs;
  auto image =
      storage::spool_image(memory_file(bytes).get(), scratch_folder(), {.file_system = &fs});
  if (!image) return;
  u64 size = 0;
  for (const storage::StreamEntry &s : (*image)->streams()) size += s.size;
  if (size > kMaxRead) return;  // valid, because zeros are not stored
  bool ok = (*image)->verify(storage::ImageReader::Depth::Full, {}, 1).ok();
  for (const storage::StreamEntry &s : (*image)->streams()) {
    Bytes raw(s.size);
    // Everything that verify() accepts can be read.
    if (!(*image)->read(s, 0, raw) && ok) std::abort();
  }
}

// `bytes` with the header of a pipe, and with seal_index() applied to the bytes after the pieces.
Bytes corrected(ByteView bytes) {
  Bytes out = storage::encode_pipe_header();
  if (bytes.size() < out.size()) return out;
  Reader in(bytes.subspan(out.size()));
  for (u32 size = in.get<u32>(); in.ok() && size > 0 && size <= in.left(); size = in.get<u32>())
    in.raw(size);
  size_t pieces = bytes.size() - in.left();
  out.insert(out.end(), bytes.begin() + static_cast<long>(out.size()),
             bytes.begin() + static_cast<long>(pieces));
  in.get<u64>();
  ByteView rest = in.raw(in.left());
  Bytes index(rest.begin(), rest.end());
  seal_index(index);
  Bytes tail = Writer().put(u64{index.size()}).raw(index.data(), index.size()).take();
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  log::set_level(log::Level::Off);
  receive(view(data, size));
  receive(corrected(view(data, size)));
  return 0;
}

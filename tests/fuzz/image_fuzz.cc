// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as index.ckpt. The checksum and the size in the header are made right first,
// or nothing behind them would ever be reached.
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "storage/format/index.h"
#include "storage/format/manifest.h"
#include "tests/fuzz/seal_index.h"

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  ckpt::ByteView raw = ckpt::view(data, size);
  ckpt::Bytes file(raw.begin(), raw.end());
  (void)ckpt::parse_index(file);
  ckpt::seal_index(file);
  ckpt::Result<ckpt::Index> index = ckpt::parse_index(file);
  if (!index) return 0;
  (void)ckpt::parse_manifest(index->manifest);
  if (index->version != ckpt::kFormatVersion) return 0;
  // What is accepted is what a writer would have written.
  ckpt::Result<ckpt::Bytes> again = ckpt::encode_index(*index);
  if (!again || *again != file) std::abort();
  return 0;
}

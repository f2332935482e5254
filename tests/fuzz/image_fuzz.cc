// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: parses any bytes as index.ckpt, unchanged and with a corrected checksum and size, so
// that the parser also gets beyond the header.
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "storage/format/index.h"
#include "storage/format/manifest.h"
#include "tests/fuzz/seal_index.h"

using namespace ckpt;
using namespace ckpt::storage;

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  ByteView raw = view(data, size);
  Bytes file(raw.begin(), raw.end());
  (void)parse_index(file);
  seal_index(file);
  Result<Index> index = parse_index(file);
  if (!index) return 0;
  (void)parse_manifest(index->manifest);
  if (index->version != kFormatVersion) return 0;
  // An index that is accepted must be one that a writer writes.
  Result<Bytes> again = encode_index(*index);
  if (!again || *again != file) std::abort();
  return 0;
}

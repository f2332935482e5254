// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as what comes through a pipe in place of an image (storage/ops/receive.h).
// As they are, and once more with the pipe's header and the index's size and checksum made right.
// What is taken in is verified and read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/log.h"
#include "storage/ops/receive.h"
#include "tests/fuzz/seal_index.h"

namespace {

using namespace ckpt;

constexpr size_t kMostRead = 64u << 20;

// Nothing here need survive a power cut.
class Hasty : public storage::FileSystem {
 public:
  int fsync(int) override { return 0; }
};

const std::string &folder() {
  static std::string path = [] {
    std::string name = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    name += "/pipe-fuzz-XXXXXX";
    if (!::mkdtemp(name.data())) std::abort();
    static const std::string made = name;
    std::atexit([] { ::rmdir(made.c_str()); });
    return name;
  }();
  return path;
}

UniqueFd holding(ByteView bytes) {
  UniqueFd fd(::memfd_create("pipe", MFD_CLOEXEC));
  if (!fd ||
      ::pwrite(fd.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  return fd;
}

void take_in(ByteView bytes) {
  static Hasty fs;
  auto image = storage::spool_image(holding(bytes).get(), folder(), {.file_system = &fs});
  if (!image) return;
  u64 size = 0;
  for (const storage::StreamEntry &s : (*image)->streams()) size += s.size;
  if (size > kMostRead) return;  // allowed: zeros cost nothing
  bool ok = (*image)->verify(storage::ImageReader::Depth::Full, {}, 1).ok();
  for (const storage::StreamEntry &s : (*image)->streams()) {
    Bytes raw(s.size);
    // What verify finds whole can be read.
    if (!(*image)->read(s, 0, raw) && ok) std::abort();
  }
}

Bytes mended(ByteView bytes) {
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
  static const bool quiet = (log::set_level(log::Level::Off), true);
  (void)quiet;
  take_in(view(data, size));
  take_in(mended(view(data, size)));
  return 0;
}

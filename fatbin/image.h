// SPDX-License-Identifier: Apache-2.0
//
// Device code in any form: a file, or what a program passes to the CUDA driver or runtime.
//
//   CKPT_TRY(fatbin::Image image, fatbin::Image::in_memory(pointer));
//   for (const fatbin::Container &c : image.containers())
//     for (const fatbin::Entry &e : c.entries)
//       if (e.kind == fatbin::Kind::Ptx) {
//         CKPT_TRY(fatbin::Payload p, image.payload(e));
//         use(p.text());
//       }
//
// facts.h describes the contents of one payload, summary.h those of a whole image.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fatbin/container.h"
#include "fatbin/payload.h"

namespace ckpt::fatbin {

enum class Form : u8 {
  Executable,
  SharedLibrary,
  Object,     // .o
  FatBinary,  // one or more containers
  Wrapper,    // exists in memory only
  Cubin,
  Ptx,
};
const char *name_of(Form form);  // "executable", "shared library", …

// Which CUDA runtime an ELF file for the host calls.
enum class Runtime : u8 {
  None,      // none found: the file uses the driver API, or no CUDA at all
  Shared,    // libcudart.so, or another library with its functions
  Static,    // part of the file
  Itself,    // the file is libcudart.so
  Unlinked,  // the file is an object: the linker decides later
};
const char *name_of(Runtime runtime);  // "none", "shared", …

struct RuntimeFact {
  Runtime runtime = Runtime::None;
  std::string reason;  // "it imports __cudaRegisterFatBinary"
};

class Image {
 public:
  // Keeps the file open: only headers are read now, and payloads on demand.
  static Result<Image> open(const std::string &path);

  // Code as it is passed to __cudaRegisterFatBinary, cuModuleLoadData, cuModuleLoadFatBinary and
  // cuLibraryLoadData: a wrapper, a fat binary, a cubin, or PTX that ends with a NUL. The memory
  // must stay unchanged while the image lives. Its length is unknown, so reads are limited by the
  // code's own headers alone.
  static Result<Image> in_memory(const void *code);

  // Like open(), for the contents of a file; any bytes. They must outlive the image.
  static Result<Image> from_bytes(ByteView bytes);

  Form form() const { return form_; }
  const std::vector<Container> &containers() const { return containers_; }
  const RuntimeFact &runtime() const { return runtime_; }
  u64 bytes() const { return source_->size(); }  // of the file

  Result<Payload> payload(const Entry &entry, u64 max_bytes = kMaxPayloadBytes) const {
    return read_payload(*source_, entry, max_bytes);
  }

 private:
  friend class ImageBuilder;
  std::unique_ptr<Source> source_;
  Form form_ = Form::FatBinary;
  std::vector<Container> containers_;
  RuntimeFact runtime_;
};

}  // namespace ckpt::fatbin

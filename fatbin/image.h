// SPDX-License-Identifier: Apache-2.0
//
// Device code in any form: a file, or what a program hands to the driver or the runtime.
//
//   CKPT_TRY(fatbin::Image image, fatbin::Image::in_memory(pointer));
//   for (const fatbin::Container &c : image.containers())
//     for (const fatbin::Entry &e : c.entries)
//       if (e.kind == fatbin::Kind::Ptx) { CKPT_TRY(fatbin::Payload p, image.payload(e)); p.text();
//       }
//
// facts.h tells what is in a payload, summary.h what is in a whole image.
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
  FatBinary,  // a container, or several
  Wrapper,    // in memory only
  Cubin,
  Ptx,
};
const char *name_of(Form form);  // "executable", …

// Which CUDA runtime an ELF file of the host calls.
enum class Runtime : u8 {
  None,      // none that could be found: the driver API, or no CUDA at all
  Shared,    // libcudart.so, or another library that has its functions
  Static,    // in the file itself
  Itself,    // the file is libcudart.so
  Unlinked,  // an object: the linker will say
};
const char *name_of(Runtime runtime);  // "none", "shared", …

struct RuntimeFact {
  Runtime runtime = Runtime::None;
  std::string reason;  // "it imports __cudaRegisterFatBinary from libcudart.so.13"
};

class Image {
 public:
  // The file is kept open; of it are read the headers, and payloads when they are asked for.
  static Result<Image> open(const std::string &path);

  // What __cudaRegisterFatBinary, cuModuleLoadData, cuModuleLoadFatBinary and cuLibraryLoadData
  // take: the wrapper, a fat binary, a cubin, or PTX with its NUL. The memory must stay as it is
  // while the image lives. Nothing but what its headers say bounds what is read.
  static Result<Image> in_memory(const void *code);

  // The same with a known length, any bytes; no wrapper. They must outlive the image.
  static Result<Image> from_bytes(ByteView bytes);

  Form form() const { return form_; }
  const std::vector<Container> &containers() const { return containers_; }
  const RuntimeFact &runtime() const { return runtime_; }
  u64 bytes() const { return source_->size(); }  // of the file, or of from_bytes()'s

  Result<Payload> payload(const Entry &entry, u64 most = kMaxPayloadBytes) const {
    return read_payload(*source_, entry, most);
  }

 private:
  friend class ImageBuilder;
  std::unique_ptr<Source> source_;
  Form form_ = Form::FatBinary;
  std::vector<Container> containers_;
  RuntimeFact runtime_;
};

}  // namespace ckpt::fatbin

// SPDX-License-Identifier: Apache-2.0
//
// An ELF file for the host (an executable, a shared library or an object): its fat binaries, and
// the CUDA runtime that it calls.
#pragma once

#include "fatbin/elf_file.h"
#include "fatbin/image.h"

namespace ckpt::fatbin {

struct HostElf {
  Form form = Form::Executable;
  std::vector<Container> containers;
  RuntimeFact runtime;
};

// `source` holds the same bytes as `elf`.
Result<HostElf> read_host(const ElfFile &elf, const Source &source);

}  // namespace ckpt::fatbin

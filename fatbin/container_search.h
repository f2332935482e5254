// SPDX-License-Identifier: Apache-2.0
//
// Finds the fat binaries in an ELF file for the host.
#pragma once

#include "fatbin/container.h"
#include "fatbin/elf_file.h"

namespace ckpt::fatbin {

// All containers with the role of the section they are in, Loaded before Unit. `source` holds the
// same bytes as `elf`. A damaged container is an error in nvcc's own sections; in other data
// sections it is ignored, since those bytes may be anything.
Result<std::vector<Container>> find_containers(const ElfFile &elf, const Source &source);

}  // namespace ckpt::fatbin

// SPDX-License-Identifier: Apache-2.0
//
// place-ptx FILE FOLDER: gives the variables of each PTX module of a file (PTX, fat binary,
// executable, library) fixed addresses, as for a device of another node, and lets its instructions
// for textures and surfaces look up handles. Prints a line for each
// module that stays as it is; writes the others, before and after, to FOLDER.
#include <cstdio>
#include <fstream>

#include "remote/cuda/placing/fixed_variables.h"

using namespace ckpt;
using remote::cuda::FixedVariables;

namespace {

constexpr u64 kBase = 0x7f0000000000;
constexpr remote::cuda::HandleRange kHandles{0x7e0000000000, 64u << 20};

struct Counts {
  unsigned modules = 0, placed = 0, left = 0, variables = 0;
};

void write(const std::string &path, std::string_view text) { std::ofstream(path) << text; }

Result<bool> place(const std::string &ptx, const std::string &name, Counts &n) {
  CKPT_TRY(fatbin::Image image, fatbin::Image::in_memory(ptx.c_str()));
  CKPT_TRY(FixedVariables variables, FixedVariables::find(image));
  if (variables.places().empty() && !variables.uses_textures()) return false;
  CKPT_TRY(remote::cuda::FixedCode code, variables.at(kBase, kHandles));
  n.variables += static_cast<unsigned>(variables.places().size());
  write(name + ".before.ptx", ptx);
  write(name + ".after.ptx", text(code.parts.front()));
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Result<fatbin::Image> image = fatbin::Image::open(argv[1]);
  if (!image) return std::printf("%s\n", image.error().what.c_str()), 1;
  Counts n;
  for (const fatbin::Container &c : image->containers())
    for (const fatbin::Entry &e : c.entries) {
      if (e.kind != fatbin::Kind::Ptx) continue;
      Result<fatbin::Payload> p = image->payload(e);
      if (!p) continue;
      std::string name = fmt::format("{:05}.{}", n.modules++, e.target());
      Result<bool> placed = place(std::string(p->text()), fmt::format("{}/{}", argv[2], name), n);
      if (!placed) std::printf("left %s: %s\n", name.c_str(), placed.error().what.c_str());
      n.left += !placed;
      n.placed += placed && *placed;
    }
  std::printf("modules %u placed %u left %u variables %u\n", n.modules, n.placed, n.left,
              n.variables);
  return 0;
}

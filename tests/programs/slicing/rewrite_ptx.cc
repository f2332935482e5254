// SPDX-License-Identifier: Apache-2.0
//
// rewrite-ptx FILE [FOLDER]: rewrites all PTX of a file (PTX, fat binary, executable, library) for
// slicing. Prints a line for each module and kernel; writes each module, before and after, to
// FOLDER.
#include <cstdio>
#include <fstream>

#include "fatbin/image.h"
#include "slicing/rewrite.h"

using namespace ckpt;

namespace {

struct Counts {
  unsigned modules = 0, kernels = 0, slices = 0;
};

void write(const std::string &path, std::string_view text) { std::ofstream(path) << text; }

void rewrite_one(const fatbin::Entry &entry, std::string_view ptx, const char *folder, Counts &n) {
  Result<slicing::Rewritten> r = slicing::rewrite(ptx);
  std::string name = fmt::format("{:05}.{}", n.modules++, entry.target());
  if (!r) {
    std::printf("module %s untouched: %s\n", name.c_str(), r.error().what.c_str());
    return;
  }
  for (const slicing::Kernel &k : r->kernels) {
    ++n.kernels;
    n.slices += k.whole.empty();
    if (!k.whole.empty()) std::printf("whole %s: %s\n", k.name.c_str(), k.whole.c_str());
  }
  if (folder == nullptr) return;
  write(fmt::format("{}/{}.before.ptx", folder, name), ptx);
  write(fmt::format("{}/{}.after.ptx", folder, name), r->ptx);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  Result<fatbin::Image> image = fatbin::Image::open(argv[1]);
  if (!image) return std::printf("%s\n", image.error().what.c_str()), 1;
  Counts n;
  for (const fatbin::Container &c : image->containers())
    for (const fatbin::Entry &e : c.entries)
      if (e.kind == fatbin::Kind::Ptx)
        if (Result<fatbin::Payload> p = image->payload(e); p)
          rewrite_one(e, p->text(), argc > 2 ? argv[2] : nullptr, n);
  std::printf("modules %u kernels %u sliceable %u\n", n.modules, n.kernels, n.slices);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// softcuda-run: runs a program on the software device, with the device's libraries first in its
// library path. Refuses programs that contain NVIDIA's static runtime, which only works with
// NVIDIA's driver.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ckpt_config.h"
#include "common/base/installation.h"
#include "common/base/program.h"
#include "fatbin/static_runtime.h"
#include "softcuda/broker/protocol.h"

using namespace ckpt;
namespace fs = std::filesystem;

namespace {

constexpr const char *kUsage =
    "Usage: softcuda-run [--devices NxSIZE] [--] PROGRAM [ARGUMENT...]\n"
    "Runs a CUDA program on CUDA devices in software.\n"
    "\n"
    "  --devices NxSIZE  N devices of SIZE each, as in 4x4800M or 2x8G (default 1x4096M)\n"
    "  -h, --help        print this help and exit\n"
    "  --version         print the version and exit\n"
    "\n"
    "Returns the program's exit code. 125: the arguments are wrong; 127: it cannot be run.\n";

// As in the other tools, and in env(1).
constexpr int kWrongUsage = 125, kCannotRun = 127;

struct Options {
  std::string devices;
  std::vector<char *> command;
};

// Empty, or what is wrong with the arguments.
std::string parse(int argc, char **argv, Options &o) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    std::string a = argv[i];
    if (a == "--") {
      ++i;
      break;
    }
    if (a == "-h" || a == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (a == "--version") {
      std::puts(CKPT_VERSION);
      std::exit(0);
    }
    if (a != "--devices") return "there is no option " + a;
    if (i + 1 >= argc) return "--devices needs a value";
    o.devices = argv[++i];
  }
  for (; i < argc; ++i) o.command.push_back(argv[i]);
  o.command.push_back(nullptr);
  return o.command.size() > 1 ? "" : "no program was given";
}

// The folders of the device's libraries: next to this executable in the build folder, or else the
// installed ones.
std::string library_path() {
  fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  if (fs::exists(here / "driver" / "libcuda.so.1")) {
    setenv("CKPT_SOFTCUDA_BROKER", (here / "ckpt-softcuda-broker").c_str(), 0);
    return fmt::format("{}:{}:{}:{}", (here / "driver").string(), (here / "runtime").string(),
                       (here / "nvml").string(), (here / "nvrtc").string());
  }
  return (installed_libdir() / "softcuda").string();
}

Result<> run(const Options &o) {
  CKPT_CHECK(softcuda::broker::parse_configuration(o.devices));
  std::string program = find_program(o.command[0]);
  if (program.empty() || access(program.c_str(), X_OK) != 0)
    return fail("cannot find the program {}", o.command[0]);
  CKPT_CHECK(fatbin::refuse_static_runtime(program));
  std::string path = library_path();
  if (const char *old = std::getenv("LD_LIBRARY_PATH"); old != nullptr && *old != '\0')
    path += std::string(":") + old;
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
  if (!o.devices.empty()) setenv("CKPT_SOFTCUDA", o.devices.c_str(), 1);
  execv(program.c_str(), o.command.data());
  return fail_errno("cannot run {}", program);
}

}  // namespace

int main(int argc, char **argv) {
  Options o;
  if (std::string wrong = parse(argc, argv, o); !wrong.empty()) {
    std::fprintf(stderr, "softcuda-run: error: %s\n", wrong.c_str());
    std::fputs("softcuda-run:   what to do: softcuda-run --help lists the options\n", stderr);
    return kWrongUsage;
  }
  Result<> r = run(o);
  std::fprintf(stderr, "softcuda-run: error: %s\n", r.error().text().c_str());
  return kCannotRun;
}

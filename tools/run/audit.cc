// SPDX-License-Identifier: Apache-2.0
#include "tools/run/audit.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "common/base/log.h"
#include "common/base/program.h"
#include "common/base/unique_fd.h"
#include "tools/run/linked_driver.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// It comes from the stack of each thread, and threads with stacks of 16 KiB must still run: with an
// auditor, the loader saves all vector registers there when it binds a symbol (AVX-512: 5 KiB). A
// program that needs more room is started without the auditor (libckpt-cuda/audit).
constexpr unsigned long kRoomForTls = 4096;
constexpr std::string_view kTlsTunable = "glibc.rtld.optional_static_tls";
constexpr size_t kMaxExecutable = 256u << 20, kMaxScript = 1u << 20;

// The beginning of a regular file in memory.
class FileText {
 public:
  FileText(const std::string &path, size_t max_bytes) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat st {};
    if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return;
    size_ = std::min(max_bytes, static_cast<size_t>(st.st_size));
    address_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  }
  ~FileText() {
    if (address_ != MAP_FAILED) ::munmap(address_, size_);
  }
  FileText(const FileText &) = delete;
  FileText &operator=(const FileText &) = delete;

  std::string_view text() const {
    return address_ == MAP_FAILED ? std::string_view()
                                  : std::string_view(static_cast<const char *>(address_), size_);
  }
  bool is_elf() const { return text().starts_with(ELFMAG); }

 private:
  void *address_ = MAP_FAILED;
  size_t size_ = 0;
};

bool contains(std::string_view text, std::string_view what) {
  return ::memmem(text.data(), text.size(), what.data(), what.size()) != nullptr;
}

std::string named_in(std::string_view text, const std::string &what) {
  if (contains(text, "/libcuda.so")) return what + " names a path of libcuda.so";
  return {};
}

// A script, or a word that a shell or an interpreter executes (sh -c).
std::string named_in_script(std::string_view text, const std::string &what) {
  if (contains(text, "LD_LIBRARY_PATH=")) return what + " sets LD_LIBRARY_PATH";
  return named_in(text, what);
}

std::string value_of(const ProgramEnvironment &e, std::string_view name) {
  for (const auto &[variable, value] : e.set)
    if (variable == name) return value;
  return {};
}

std::string other_driver_of(const std::string &path, const ProgramEnvironment &e) {
  std::string found = driver_by_rpath(path);
  std::error_code ec;
  if (found.empty() || fs::equivalent(found, value_of(e, "CKPT_CUDA_LIBRARY"), ec)) return {};
  return fmt::format("{} is linked to {}", path, found);
}

}  // namespace

std::string why_to_audit(const std::vector<std::string> &program,
                         const ProgramEnvironment &environment) {
  std::string path = find_program(program.front());
  FileText executable(path, kMaxExecutable);
  std::string why = executable.is_elf() ? named_in(executable.text(), path)
                                        : named_in_script(executable.text(), path);
  if (why.empty() && executable.is_elf()) why = other_driver_of(path, environment);
  for (size_t i = 1; i < program.size() && why.empty(); i++) {
    why = named_in_script(program[i], "an argument");
    FileText file(program[i], kMaxScript);
    if (why.empty() && !file.is_elf()) why = named_in_script(file.text(), program[i]);
  }
  return why;
}

std::string with_static_tls(const std::string &tunables, unsigned long bytes) {
  std::string others;
  std::istringstream in(tunables);
  for (std::string one; std::getline(in, one, ':');) {
    if (one.starts_with(std::string(kTlsTunable) + "="))
      bytes = std::max(bytes, std::strtoul(one.c_str() + kTlsTunable.size() + 1, nullptr, 0));
    else if (!one.empty())
      others += one + ":";
  }
  return fmt::format("{}{}={}", others, kTlsTunable, bytes);
}

void add_auditor(ProgramEnvironment &environment) {
  if (environment.auditor.empty()) return;
  environment.put_in_front("LD_AUDIT", environment.auditor);
  const char *tunables = std::getenv("GLIBC_TUNABLES");
  environment.set.emplace_back("GLIBC_TUNABLES",
                               with_static_tls(tunables ? tunables : "", kRoomForTls));
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// Files in memory with the name that the software device gives its own stand for /dev/nvidia*.
#include "driver-checkpoint/forked_child.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

#include "common/base/unique_fd.h"
#include "libckpt-cuda/memory/host_memory.h"

using namespace ckpt;
using namespace ckpt::cuda;

namespace {

constexpr size_t kFileBytes = 200 << 10;  // more than a pipe holds

UniqueFd file_called(const char *name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  REQUIRE(::ftruncate(fd.get(), kFileBytes) == 0);
  return fd;
}
UniqueFd device() { return file_called("softcuda-device"); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// A mapping of a file, with the bytes 'x'.
class Mapped {
 public:
  explicit Mapped(const UniqueFd &file)
      : at_(static_cast<char *>(
            ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0))) {
    REQUIRE(at_ != MAP_FAILED);
    std::fill_n(at_, kFileBytes, 'x');
  }
  ~Mapped() { ::munmap(at_, kFileBytes); }
  Mapped(const Mapped &) = delete;
  char *at() const { return at_; }
  bool all(char c) const {
    return std::all_of(at_, at_ + kFileBytes, [c](char b) { return b == c; });
  }

 private:
  char *at_;
};

// Whether `check` is true in a child that was mended.
bool in_child(const std::function<bool()> &check) {
  pid_t child = ::fork();
  if (child == 0) {
    mend_forked_child();
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a forked child has memory of its own instead of devices") {
  UniqueFd file = device();
  Mapped registers(file);
  note_before_fork(has_host_memory);
  CHECK(in_child([&] {
    bool zeros = registers.all('\0');
    std::fill_n(registers.at(), kFileBytes, 'c');
    return zeros && !is_open(file.get());
  }));
  CHECK(registers.all('x'));
  CHECK(is_open(file.get()));
}

TEST_CASE("a forked child keeps the contents of page-locked memory, and other files") {
  UniqueFd file = device(), page_locked = device(), other = file_called("other");
  Mapped registers(file), buffer(page_locked), shared(other);
  note_host_memory(buffer.at(), kFileBytes);
  note_before_fork(has_host_memory);
  CHECK(in_child([&] {
    bool kept = registers.all('\0') && buffer.all('x') && shared.all('x');
    std::fill_n(buffer.at(), kFileBytes, 'c');
    return kept && !is_open(page_locked.get()) && is_open(other.get());
  }));
  CHECK(buffer.all('x'));
  forget_host_memory(buffer.at());
  CHECK(in_child([&] { return registers.all('\0'); }));
}

// The end of the file faults when it is read, as memory does that the driver has taken away.
TEST_CASE("page-locked memory that cannot be read is zero") {
  UniqueFd file = device();
  Mapped buffer(file);
  note_host_memory(buffer.at(), kFileBytes);
  note_before_fork(has_host_memory);
  REQUIRE(::ftruncate(file.get(), kFileBytes / 2) == 0);
  CHECK(in_child([&] {
    return std::all_of(buffer.at(), buffer.at() + kFileBytes / 4,
                       [](char b) { return b == 'x'; }) &&
           buffer.at()[kFileBytes - 1] == '\0';
  }));
  forget_host_memory(buffer.at());
}

TEST_CASE("what has taken the place of a device since stays in a forked child") {
  UniqueFd file = device(), other = file_called("other");
  Mapped mapped(file);
  note_before_fork(has_host_memory);
  REQUIRE(::dup2(other.get(), file.get()) == file.get());
  REQUIRE(::mmap(mapped.at(), kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 other.get(), 0) == mapped.at());
  std::fill_n(mapped.at(), kFileBytes, 'o');
  CHECK(in_child([&] { return mapped.all('o') && is_open(file.get()); }));
}

TEST_CASE("a forked child keeps what NVML has opened") {
  std::string folder = "/tmp/forked-child-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  std::string library = folder + "/libnvidia-ml.so.1";
  UniqueFd code(::open(library.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::ftruncate(code.get(), kFileBytes) == 0);
  UniqueFd cudas, nvmls = device();
  {
    OpensDevices opens;
    cudas = device();
  }
  note_before_fork(has_host_memory);
  CHECK(in_child([&] { return !is_open(cudas.get()) && !is_open(nvmls.get()); }));
  {
    Mapped nvml(code);
    note_before_fork(has_host_memory);
  }
  CHECK(in_child([&] { return !is_open(cudas.get()) && is_open(nvmls.get()); }));
  ::unlink(library.c_str());
  ::rmdir(folder.c_str());
}

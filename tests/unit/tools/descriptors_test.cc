// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/descriptors.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace ckpt::test {
using namespace tools;
namespace {

// Puts the one file and the other one in turns at one descriptor, as a shell does that redirects.
class Redirections {
 public:
  Redirections(int one, int other) : at_(::dup(one)) {
    thread_ = std::thread([this, one, other] {
      while (!end_)
        for (int file : {other, one}) {
          ::dup2(file, at_);
          ::usleep(20);
        }
    });
  }
  ~Redirections() {
    end_ = true;
    thread_.join();
    ::close(at_);
  }
  int at() const { return at_; }

 private:
  const int at_;
  std::atomic<bool> end_ = false;
  std::thread thread_;
};

}  // namespace

// A part of each would be a pipe in packet mode for a file, or a file for the pipe: refused by
// ckpt-dump.
TEST_CASE("a descriptor that changes is read as the one file or as the other") {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_DIRECT | O_CLOEXEC) == 0);
  UniqueFd reader(pipe[0]), writer(pipe[1]), file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  Redirections changing(file.get(), writer.get());
  int files = 0, pipes = 0;
  for (int i = 0; i < 3000; i++)
    for (const Descriptor &d : descriptors_of(::getpid())) {
      if (d.fd != changing.at()) continue;
      bool is_file = d.kind == Descriptor::Kind::File;
      (is_file ? files : pipes)++;
      REQUIRE(((d.flags & O_DIRECT) == 0) == is_file);
      REQUIRE(d.target.starts_with(is_file ? "/" : "pipe:"));
    }
  CHECK(files > 0);
  CHECK(pipes > 0);
}

}  // namespace ckpt::test

// SPDX-License-Identifier: Apache-2.0
//
// Shortages that reach a tool where no exception can pass: it ends with a message and its own exit
// code.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "common/base/unique_fd.h"
#include "tools/command_line.h"

using namespace ckpt;
using namespace ckpt::tools;

namespace {

constexpr int kFailed = 7;

struct End {
  int status;
  std::string errors;
};

End end_of_tool(const std::function<void()> &body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  pid_t child = ::fork();
  if (child == 0) {
    ::dup2(write_end.get(), STDERR_FILENO);
    char name[] = "tool", *argv[] = {name, nullptr};
    CommandLine line("tool", "A tool.");
    ::_exit(run_tool(line, 1, argv, kFailed, [&]() -> Result<int> {
      body();
      return 0;
    }));
  }
  write_end.reset();
  End end{};
  char text[256];
  for (ssize_t n = 0; (n = ::read(read_end.get(), text, sizeof text)) > 0;)
    end.errors.append(text, static_cast<size_t>(n));
  ::waitpid(child, &end.status, 0);
  return end;
}

bool is_shortage(const End &e) {
  return WIFEXITED(e.status) && WEXITSTATUS(e.status) == kFailed &&
         e.errors.find("not enough memory") != std::string::npos;
}

}  // namespace

TEST_CASE("a shortage while a thread runs") {
  CHECK(is_shortage(end_of_tool([] {
    std::thread other([] { ::pause(); });  // its destructor cannot wait
    throw std::bad_alloc();
  })));
}

TEST_CASE("a shortage in another thread") {
  CHECK(is_shortage(end_of_tool([] { std::thread([] { throw std::bad_alloc(); }).join(); })));
  auto no_thread = [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  CHECK(is_shortage(end_of_tool([&] { std::thread(no_thread).join(); })));
}

TEST_CASE("a fault of the tool is no shortage") {
  End e = end_of_tool([] { std::thread([] { throw std::out_of_range("index"); }).join(); });
  CHECK_FALSE(is_shortage(e));
#if !defined(__SANITIZE_THREAD__)  // its runtime catches the signal
  CHECK(WIFSIGNALED(e.status));
#endif
}

// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <regex>

#include <doctest/doctest.h>

using namespace ckpt;

namespace {

// What standard error gets while `f` runs with JOURNAL_STREAM naming it, or not.
template <class F>
std::string logged(F f, bool journal) {
  FILE *file = std::tmpfile();
  REQUIRE(file);
  struct stat st {};
  REQUIRE(::fstat(::fileno(file), &st) == 0);
  if (journal) ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", st.st_dev, st.st_ino).c_str(), 1);
  int saved = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  f();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::unsetenv("JOURNAL_STREAM");
  std::string text(1000, 0);
  text.resize(static_cast<size_t>(::pread(::fileno(file), text.data(), text.size(), 0)));
  std::fclose(file);
  return text;
}

}  // namespace

TEST_CASE("a message names its module and its level") {
  CHECK(logged([] { log::warn("{} left", 3); }, false) == "ckpt: tests: warning: 3 left\n");
  CHECK(logged(
            [] {
              log::error(Error{"no room", "free some"});
            },
            false) == "ckpt: tests: error: no room\nckpt: tests:   what to do: free some\n");
  CHECK(logged([] { log::debug("not shown"); }, false) == "");
}

TEST_CASE("for the journal each line has a priority") {
  CHECK(logged([] { log::warn("low"); }, true) == "<4>ckpt: tests: warning: low\n");
  CHECK(logged([] { log::error("bad"); }, true) == "<3>ckpt: tests: error: bad\n");
}

TEST_CASE("in a file each line says when and of which process") {
  char path[] = "/tmp/ckpt-log-XXXXXX";
  int fd = ::mkstemp(path);
  REQUIRE(fd >= 0);
  ::setenv("CKPT_LOG_FILE", path, 1);
  CHECK(logged([] { log::warn("{} left", 3); }, false) == "");
  ::unsetenv("CKPT_LOG_FILE");
  char line[200] = "";
  CHECK(::read(fd, line, sizeof line - 1) > 0);
  ::close(fd);
  ::unlink(path);
  std::regex form(
      "(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ) (\\d+) ckpt: tests: warning: 3 left\n");
  std::cmatch found;
  REQUIRE(std::regex_match(static_cast<const char *>(line), found, form));
  CHECK(found[2] == std::to_string(::getpid()));
  std::tm utc{};
  REQUIRE(::strptime(found[1].str().c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc));
  CHECK(std::abs(::time(nullptr) - ::timegm(&utc)) < 100);
}

TEST_CASE("the module is the room of the source file") {
  std::string here = __FILE__;
  std::string root =
      here.substr(0, here.size() - std::string("tests/unit/common/log_test.cc").size());
  CHECK(log::module_of(root + "agent/ipc/channel.cc") == "agent");
  CHECK(log::module_of(root + "libckpt-ocl/client/link.cc") == "ocl");
  CHECK(log::module_of(root + "tools/dump/main.cc") == "");
  CHECK(log::module_of("/usr/include/x.h") == "");
}

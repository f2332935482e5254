// SPDX-License-Identifier: Apache-2.0
#include "tools/session/proxy_environment.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <doctest/doctest.h>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"

namespace ckpt::test {
using namespace tools;
namespace {

using Variables = std::map<std::string, std::string>;

Variables set_by(const std::vector<std::string> &entries, const ProgramEnvironment &program = {}) {
  Variables all;
  for (auto &[name, value] : proxy_environment(entries, program).set) all[name] = value;
  return all;
}

UniqueFd file_of(std::string_view text) {
  UniqueFd fd(::memfd_create("environment", MFD_CLOEXEC));
  REQUIRE(::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  return fd;
}

// What ckpt-run does for a program that uses CUDA and OpenCL.
ProgramEnvironment led() {
  ProgramEnvironment p;
  p.set = {{"OCL_ICD_VENDORS", "/ckpt/vendors/"}, {"LD_LIBRARY_PATH", "/ckpt/a:/ckpt/b:/users"}};
  p.front = {{"LD_LIBRARY_PATH", "/ckpt/a:/ckpt/b"}};
  p.without = {"OCL_ICD_FILENAMES"};
  return p;
}

}  // namespace

TEST_CASE("a proxy has the program's variables, and not those that only the keeper has") {
  ::setenv("KEEPERS_ONLY", "1", 1);
  EnvironmentChanges c = proxy_environment({"POCL_DEVICES=cpu", "EMPTY=", "A=b=c"}, {});
  CHECK(c.set == decltype(c.set){{"POCL_DEVICES", "cpu"}, {"EMPTY", ""}, {"A", "b=c"}});
  CHECK(std::ranges::find(c.without, "KEEPERS_ONLY") != c.without.end());
  CHECK(std::ranges::find(c.without, "POCL_DEVICES") == c.without.end());
  ::unsetenv("KEEPERS_ONLY");
}

TEST_CASE("what loads code, leads to ckpt or is ckpt's own stays the keeper's") {
  std::vector<std::string> all{"LD_PRELOAD=/evil.so",       "LD_AUDIT=/evil.so",
                               "OPENCL_LAYERS=/evil.so",    "CKPT_SESSION=/elsewhere",
                               "CKPT_RUNTIME_DIR=/other",   "OCL_ICD_VENDORS=/vendors/",
                               "OCL_ICD_FILENAMES=evil.so", "HOME=/home/x"};
  CHECK(set_by(all, led()) == Variables{{"HOME", "/home/x"}});
}

TEST_CASE("the keeper's own values of these variables are not removed") {
  ::setenv("LD_PRELOAD_TEST", "", 1);
  ::setenv("CKPT_LOG_TEST", "", 1);
  ::setenv("OCL_ICD_VENDORS", "/own/", 1);
  std::vector<std::string> gone = proxy_environment({}, led()).without;
  for (const char *name : {"CKPT_LOG_TEST", "OCL_ICD_VENDORS"})
    CHECK(std::ranges::find(gone, name) == gone.end());
  for (const char *name : {"LD_PRELOAD_TEST", "CKPT_LOG_TEST", "OCL_ICD_VENDORS"}) ::unsetenv(name);
}

TEST_CASE("what ckpt-run has put in front of a list of paths is removed from it") {
  CHECK(set_by({"LD_LIBRARY_PATH=/ckpt/a:/ckpt/b:/users:/more"}, led()) ==
        Variables{{"LD_LIBRARY_PATH", "/users:/more"}});
  CHECK(set_by({"LD_LIBRARY_PATH=/new:/ckpt/b:/ckpt/a"}, led()) ==
        Variables{{"LD_LIBRARY_PATH", "/new"}});
  CHECK(set_by({"LD_LIBRARY_PATH=/ckpt/a:/ckpt/b"}, led()) == Variables{{"LD_LIBRARY_PATH", ""}});
}

TEST_CASE("entries that are no variable, or that execve(2) would refuse, are left out") {
  CHECK(set_by({"", "=x", "no equals sign"}).empty());
  CHECK(set_by({"LONG=" + std::string(128 << 10, 'x')}).empty());
  CHECK(set_by({"FITS=" + std::string((128 << 10) - 6, 'x')}).size() == 1);
}

TEST_CASE("an environment is read from a file of bounded size, and from nothing else") {
  Result<std::vector<std::string>> entries =
      read_environment(file_of(std::string_view("A=1\0B=two\0", 10)).get());
  REQUIRE(entries);
  CHECK(*entries == std::vector<std::string>{"A=1", "B=two"});
  CHECK(read_environment(file_of("").get())->empty());

  UniqueFd large = file_of("A=1");
  REQUIRE(::ftruncate(large.get(), 7 << 20) == 0);
  CHECK_FALSE(read_environment(large.get()));
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  CHECK_FALSE(read_environment(read_end.get()));
}

}  // namespace ckpt::test

// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/unique_fd.h"
#include "tools/criu_guard/record.h"

namespace ckpt::tools {
namespace {

Process process(std::vector<pid_t> ns_pids) {
  Process p;
  p.pid = ns_pids.front();
  p.ns_pids = std::move(ns_pids);
  return p;
}

// In a container of PID namespaces, PIDs outside of it are others after a restore.
TEST_CASE("a PID counts from the namespace of the tree's first process") {
  CHECK(nested_pid(process({500}), 1) == NestedPid{500});
  CHECK(nested_pid(process({500, 7}), 2) == NestedPid{7});
  CHECK(nested_pid(process({500, 7}), 1) == NestedPid{500, 7});
  CHECK(nested_pid(process({500, 7, 2}), 2) == NestedPid{7, 2});
  CHECK(nested_pid(process({500}), 3) == NestedPid{500});
}

TEST_CASE("a record is read as it was written") {
  std::vector<NestedPid> keepers{{7}, {8, 2}};
  CHECK(parse_record(record_text(keepers)) == keepers);
  CHECK(parse_record(record_text({})).empty());
}

TEST_CASE("what is no list of PIDs in a record is left out") {
  for (const char *text : {"", "{", "7", "[[7]]", R"({"suspended": 7})", R"({"suspended": [7]})",
                           R"({"suspended": [[]]})", R"({"suspended": [[1.5]]})",
                           R"({"suspended": [[99999999999]]})", R"({"suspended": [{"a": 1}]})"})
    CHECK(parse_record(text).empty());
  CHECK(parse_record(R"({"suspended": ["x", [7], [1, "y"]]})") == std::vector<NestedPid>{{7}});
}

TEST_CASE("a dump without suspended programs removes the record of an earlier one") {
  std::string name = (std::filesystem::temp_directory_path() / "ckpt-record-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  UniqueFd folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(read_record(folder.get()).empty());
  REQUIRE(write_record(folder.get(), {{7}}));
  CHECK(read_record(folder.get()) == std::vector<NestedPid>{{7}});
  REQUIRE(write_record(folder.get(), {{8, 2}}));
  CHECK(read_record(folder.get()) == std::vector<NestedPid>{{8, 2}});
  REQUIRE(write_record(folder.get(), {}));
  CHECK(std::filesystem::is_empty(name));
  std::filesystem::remove(name);
}

}  // namespace
}  // namespace ckpt::tools

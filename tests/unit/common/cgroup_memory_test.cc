// SPDX-License-Identifier: Apache-2.0
#include "common/base/cgroup_memory.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

using namespace ckpt;

namespace {

// A made-up tree of control groups.
class Groups {
 public:
  Groups() {
    REQUIRE(::mkdtemp(root_.data()) != nullptr);
    write("membership", "");
  }
  ~Groups() { std::filesystem::remove_all(root_); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::path file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  u64 left() const { return memory_left_in_cgroup(root_, root_ + "/membership"); }

 private:
  std::string root_ = "/tmp/ckpt-cgroups-XXXXXX";
};

}  // namespace

TEST_CASE("the lowest limit of a group and those above it counts, without what can be dropped") {
  Groups groups;
  groups.write("membership", "0::/job/step\n");
  CHECK(groups.left() == ~u64{0});
  groups.write("job/memory.max", "10000\n");
  groups.write("job/memory.current", "7000\n");
  groups.write("job/memory.stat", "anon 3\ninactive_file 1000\nactive_file 500\nfile 9\n");
  groups.write("job/step/memory.max", "max\n");
  groups.write("job/step/memory.current", "6000\n");
  CHECK(groups.left() == 4500);
  groups.write("job/step/memory.max", "7000\n");
  CHECK(groups.left() == 1000);
  groups.write("job/step/memory.current", "8000\n");
  CHECK(groups.left() == 0);
}

TEST_CASE("groups of version 1 have a tree of their own") {
  Groups groups;
  groups.write("membership", "5:cpu:/other\n4:memory:/batch/job\n0::/\n");
  groups.write("memory/batch/memory.limit_in_bytes", "5000\n");
  groups.write("memory/batch/memory.usage_in_bytes", "4000\n");
  groups.write("memory/batch/memory.stat", "inactive_file 1\ntotal_inactive_file 300\n");
  CHECK(groups.left() == 1300);
}

TEST_CASE("a group of version 1 may have other controllers beside that of memory") {
  Groups groups;
  groups.write("membership", "4:cpu,memory:/batch\n3:memory_other:/x\n");
  groups.write("memory/batch/memory.limit_in_bytes", "5000\n");
  groups.write("memory/batch/memory.usage_in_bytes", "4000\n");
  CHECK(groups.left() == 1000);
}

TEST_CASE("in a container the group itself is the root of what is mounted") {
  Groups groups;
  groups.write("membership", "0::/\n");
  groups.write("memory.max", "5000\n");
  groups.write("memory.current", "4000\n");
  CHECK(groups.left() == 1000);
}

TEST_CASE("without groups there is no limit") {
  CHECK(memory_left_in_cgroup("/tmp/absent", "/tmp/absent") == ~u64{0});
}

// SPDX-License-Identifier: Apache-2.0
#include "helper/criu_arguments.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace ckpt;
using namespace ckpt::helper;
namespace fs = std::filesystem;

namespace {

bool has(const std::vector<std::string> &arguments, const std::string &one) {
  return std::ranges::find(arguments, one) != arguments.end();
}

// The argument that follows.
std::string after(const std::vector<std::string> &arguments, const std::string &option) {
  auto it = std::ranges::find(arguments, option);
  return it == arguments.end() ? "(none)" : *std::next(it);
}

const CriuRun kRun{.criu = "/opt/criu", .folder = "/run/f", .log = "criu.log"};

// A folder that only root can change, below folders that others cannot change either.
struct OwnedFolder {
  fs::path path = "/root/ckpt-owned-test-" + std::to_string(::getpid());
  OwnedFolder() {
    fs::create_directory(path);
    std::ofstream(path / "criu") << "x";
  }
  ~OwnedFolder() { fs::remove_all(path); }
};

bool can_test_owners() {
  struct stat st {};
  return ::geteuid() == 0 && ::stat("/root", &st) == 0 && st.st_uid == 0 &&
         (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace

TEST_CASE("CRIU reads no configuration and no plugin of the user's") {
  for (const auto &arguments : {dump_arguments(kRun, 7), restore_arguments(kRun)}) {
    CHECK(has(arguments, "--no-default-config"));
    CHECK(after(arguments, "--libdir") == "/run/f");
    CHECK(!has(arguments, "--unprivileged"));
  }
  CriuRun with_plugins = kRun;
  with_plugins.plugins = "/usr/lib/criu/dump";
  CHECK(after(dump_arguments(with_plugins, 7), "--libdir") == "/usr/lib/criu/dump");
  CHECK(after(restore_arguments(with_plugins), "--libdir") == "/run/f");  // for dumps only
}

TEST_CASE("TCP connections go on or are closed, never both") {
  CriuRun closing = kRun;
  closing.tcp_close = true;
  for (const CriuRun &run : {kRun, closing}) {
    std::vector<std::string> a = restore_arguments(run);
    CHECK(has(a, "--tcp-close") == run.tcp_close);
    CHECK(has(a, "--tcp-established") != run.tcp_close);
  }
}

TEST_CASE("a restore inherits each pipe by its descriptor and inode") {
  CriuRun run = kRun;
  run.inherited = {{5, 1234}, {9, 77}};
  std::vector<std::string> a = restore_arguments(run);
  CHECK(std::ranges::count(a, "--inherit-fd") == 2);
  CHECK(has(a, "fd[5]:pipe:[1234]"));
  CHECK(has(a, "fd[9]:pipe:[77]"));
  CHECK(after(dump_arguments(run, 4321), "-t") == "4321");
  CHECK(!has(dump_arguments(run, 4321), "--inherit-fd"));
}

TEST_CASE("an executable that others can change is not root's" *
          doctest::skip(!can_test_owners())) {
  OwnedFolder folder;
  std::string criu = folder.path / "criu";
  CHECK(check_owned_by_root(criu));
  CHECK(!check_owned_by_root(folder.path / "missing"));
  fs::create_symlink(criu, folder.path / "link");
  CHECK(check_owned_by_root(folder.path / "link"));
  for (auto others : {fs::perms::group_write, fs::perms::others_write})
    for (const fs::path &changed : std::initializer_list<fs::path>{criu, folder.path}) {
      fs::permissions(changed, others, fs::perm_options::add);
      Result<> checked = check_owned_by_root(folder.path / "link");
      REQUIRE(!checked);
      CHECK(checked.error().what.find(changed.string()) != std::string::npos);
      fs::permissions(changed, others, fs::perm_options::remove);
    }
  REQUIRE(::chown(criu.c_str(), 1000, 0) == 0);
  CHECK(!check_owned_by_root(criu));
}

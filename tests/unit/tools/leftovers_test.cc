// SPDX-License-Identifier: Apache-2.0
#include "tools/session/leftovers.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tools/session/session_folder.h"

namespace ckpt::test {
using namespace tools;
namespace fs = std::filesystem;
namespace {

// An empty runtime folder.
class Runtime {
 public:
  Runtime() {
    REQUIRE(::mkdtemp(path_.data()));
    ::setenv("CKPT_RUNTIME_DIR", path_.c_str(), 1);
  }
  ~Runtime() {
    ::unsetenv("CKPT_RUNTIME_DIR");
    fs::remove_all(path_);
  }
  // A folder as a killed tool of this user leaves it.
  std::string left_over(const char *name) {
    std::string folder = fmt::format("{}/ckpt-{}-{}", path_, ::getuid(), name);
    fs::create_directory(folder);
    return folder;
  }
  std::string operator/(const char *name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/ckpt-leftovers-test-XXXXXX";
};

}  // namespace

TEST_CASE("the folder of a killed tool is removed, that of a living one stays") {
  Runtime runtime;
  std::string dead = runtime.left_over("dead");
  std::ofstream(dead + "/" + kLockFile) << "";
  std::ofstream(dead + "/program") << "7\n";
  Result<SessionFolder> own = SessionFolder::create();
  REQUIRE(own);
  CHECK(remove_leftovers() == std::vector<std::string>{dead});
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(own->path()));
}

TEST_CASE("mounts that a killed CRIU has left in a folder are removed with it" *
          doctest::skip(::geteuid() != 0)) {
  Runtime runtime;
  std::string dead = runtime.left_over("dead"), yard = dead + "/.criu.cgyard.a b";
  std::ofstream(dead + "/" + kLockFile) << "";
  fs::create_directory(yard);
  if (::mount("none", yard.c_str(), "tmpfs", 0, nullptr) != 0) return;  // not in this container
  fs::create_directory(yard + "/cpu");
  REQUIRE(::mount("none", (yard + "/cpu").c_str(), "tmpfs", 0, nullptr) == 0);
  CHECK(remove_leftovers() == std::vector<std::string>{dead});
  CHECK_FALSE(fs::exists(dead));
}

TEST_CASE("a link in a left-over is removed, and not what it leads to") {
  Runtime runtime;
  std::string dead = runtime.left_over("dead"), other = runtime / "other";
  fs::create_directory(other);
  std::ofstream(other + "/file") << "kept";
  std::ofstream(dead + "/" + kLockFile) << "";
  fs::create_directory_symlink(other, dead + "/link");
  CHECK(remove_leftovers().size() == 1);
  CHECK(fs::exists(other + "/file"));
}

TEST_CASE("a left-over with a FIFO or a link as its lock does not make a tool wait") {
  Runtime runtime;
  std::string fifo = runtime.left_over("fifo"), link = runtime.left_over("link");
  REQUIRE(::mkfifo((fifo + "/" + kLockFile).c_str(), 0600) == 0);
  fs::create_symlink(runtime / "nowhere", link + "/" + kLockFile);
  pid_t tool = ::fork();
  if (tool == 0) {
    ::alarm(10);  // its default action ends a process that waits for the FIFO's writer
    remove_leftovers();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(tool, &status, 0) == tool);
  CHECK(WIFEXITED(status));
  CHECK_FALSE(fs::exists(fifo));
}

}  // namespace ckpt::test

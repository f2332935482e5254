// SPDX-License-Identifier: Apache-2.0
#include "common/base/new_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>

#include "common/base/io.h"
#include "common/base/regular_file.h"

using namespace ckpt;

namespace {

constexpr uid_t kOther = 61234;

struct Folder {
  std::string path = "/tmp/ckpt-test-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data())); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string &name) const { return path + "/" + name; }
};

void write_file(const std::string &path, const std::string &text) { std::ofstream(path) << text; }

std::string read_file(const std::string &path) {
  std::string text;
  std::getline(std::ifstream(path), text);
  return text;
}

// Exchanges two names as long as it exists.
class Exchanger {
 public:
  Exchanger(const std::string &a, const std::string &b)
      : thread_([this, a, b] {
          while (!over_)
            if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0)
              times_++;
        }) {}
  ~Exchanger() {
    over_ = true;
    thread_.join();
  }
  unsigned times() const { return times_; }

 private:
  std::atomic<bool> over_ = false;
  std::atomic<unsigned> times_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_CASE("an output is a new file, an own one, or at the end of own links") {
  Folder folder;
  REQUIRE(open_output(folder.file("new"), O_TRUNC, 0600));
  write_file(folder.file("old"), "old");
  std::filesystem::create_symlink("old", folder.file("b"));
  std::filesystem::create_symlink(folder.file("b"), folder.file("a"));
  Result<UniqueFd> out = open_output(folder.file("a"), O_TRUNC, 0600);
  REQUIRE(out);
  REQUIRE(write_all(out->get(), view("new")));
  CHECK(read_file(folder.file("old")) == "new");
  std::filesystem::create_symlink("circle", folder.file("circle"));
  CHECK(!open_output(folder.file("circle"), O_TRUNC, 0600));
  CHECK(open_output("/dev/null", O_TRUNC, 0600));
}

TEST_CASE("an output is never another user's link, whenever that takes the name") {
  if (::geteuid() != 0) return;  // cannot make another user's link
  Folder folder;
  std::string name = folder.file("out"), link = folder.file("link"),
              precious = folder.file("precious");
  write_file(name, "earlier");
  write_file(precious, "precious");
  std::filesystem::create_symlink(precious, link);
  REQUIRE(::lchown(link.c_str(), kOther, kOther) == 0);
  Exchanger exchanger(name, link);
  unsigned opened = 0, refused = 0;
  for (int i = 0; i < 20'000 && read_file(precious) == "precious"; i++)
    (open_output(name, O_TRUNC, 0600) ? opened : refused)++;
  CHECK(read_file(precious) == "precious");
  CHECK(opened > 0);
  CHECK(refused > 0);
  CHECK(exchanger.times() > 0);
}

TEST_CASE("only regular files are opened") {
  Folder folder;
  write_file(folder.file("file"), "x");
  CHECK(open_regular(folder.file("file")));
  CHECK(!open_regular(folder.path));
  CHECK(!open_regular(folder.file("none")));
  REQUIRE(::mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  std::atomic<bool> woken = false;
  std::thread writer([&] {
    UniqueFd fd(::open(folder.file("fifo").c_str(), O_WRONLY | O_CLOEXEC));
    woken = true;
  });
  for (int i = 0; i < 200; i++) {  // the writer waits in open() meanwhile
    CHECK(!open_regular(folder.file("fifo")));
    ::usleep(1000);
  }
  CHECK(!woken);
  UniqueFd reader(::open(folder.file("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  writer.join();
}

// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <doctest/doctest.h>

#include "libckpt-ocl/client/source/directives.h"
#include "libckpt-ocl/client/source/find_headers.h"

using namespace ckpt::ocl;

namespace {

namespace fs = std::filesystem;

// A working folder with files.
class Folder {
 public:
  explicit Folder(const std::vector<std::pair<std::string, std::string>> &files)
      : before_(fs::current_path()) {
    std::string name = "/tmp/ckpt-find-headers-XXXXXX";
    REQUIRE(::mkdtemp(name.data()));
    path_ = name;
    for (const auto &[file, text] : files) {
      fs::create_directories((path_ / file).parent_path());
      std::ofstream(path_ / file) << text;
    }
    fs::current_path(path_);
  }
  ~Folder() {
    fs::current_path(before_);
    fs::remove_all(path_);
  }
  std::string path(const std::string &file) const { return (path_ / file).string(); }

 private:
  fs::path before_, path_;
};

std::set<std::string> names(const FoundHeaders &found) {
  std::set<std::string> all;
  for (const Headers::File &f : found.headers.files)
    all.insert(fs::path(f.path).lexically_relative(found.headers.folder).string());
  return all;
}

}  // namespace

TEST_CASE("headers: every place and every branch count, and what headers include") {
  Folder folder({{"a.h", "#include \"sub/b.h\"\n"},
                 {"sub/b.h", "#include \"c.h\"\n"},
                 {"sub/c.h", ""},
                 {"inc/a.h", ""},
                 {"inc/d.h", "#include \"d.h\"\n"}});
  FoundHeaders found =
      find_headers("#include \"a.h\"\n#if 0\n # include <d.h> // x\n#endif\n", "-I inc");
  CHECK(names(found) == std::set<std::string>{"a.h", "inc/a.h", "inc/d.h", "sub/b.h", "sub/c.h"});
  CHECK(found.missed.empty());
}

TEST_CASE("headers: by macro, by absolute path, and given to the compiler") {
  Folder folder({{"m.h", ""}, {"dir/n.h", ""}, {"abs.h", ""}});
  std::string source =
      "#define ONE \"m.h\"\n#include ONE\n#define S(x) #x\n#define X(x) S(x)\n"
      "#include X(DIR/n.h)\n#include \"given.h\"\n#include \"" +
      folder.path("dir/../abs.h") + "\"\n";
  FoundHeaders found = find_headers(source, "-DDIR=dir", {{"given.h", "#include \"m.h\"\n"}});
  CHECK(names(found) == std::set<std::string>{"m.h", "dir/n.h", "abs.h"});
  CHECK(found.missed.empty());
  REQUIRE(found.headers.absolute.size() == 1);
  CHECK(found.headers.absolute[0].second == folder.path("abs.h"));
}

TEST_CASE("headers: what is not found, or no file, is noted") {
  Folder folder({{"sub/x.h", ""}, {"other.h", ""}});
  FoundHeaders found = find_headers(
      "#include \"none.h\"\n#include \"sub\"\n#include </dev/zero>\n#include M(a)\n", "");
  CHECK(found.headers.files.empty());
  CHECK(found.missed == std::vector<std::string>{"none.h", "sub", "/dev/zero", "M(a)"});
  CHECK(find_headers("kernel void f() {}", "-I.").headers.empty());
}

TEST_CASE("headers: macros that name each other end") {
  FoundHeaders found = find_headers("#define A B\n#define B A A\n#include A\n", "");
  CHECK(found.missed == std::vector<std::string>{"A"});
}

TEST_CASE("options: quotes, blanks and backslashes") {
  SearchOptions o = read_options(R"(-I "a b" -Ic -D N=1 '-DM=\"x.h\"' -w)");
  CHECK(o.folders == std::vector<std::string>{"a b", "c"});
  CHECK(o.macros == std::vector<std::pair<std::string, std::string>>{{"N", "1"}, {"M", "\"x.h\""}});
}

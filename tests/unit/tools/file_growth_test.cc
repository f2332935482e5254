// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/file_growth.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace ckpt::test {
using namespace tools;
namespace {

using namespace std::string_literals;

struct Folder {
  std::string path = "/tmp/ckpt-growth-XXXXXX";
  Folder() { REQUIRE(::mkdtemp(path.data())); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string &name, const std::string &contents) const {
    std::ofstream(path + "/" + name, std::ios::binary) << contents;
    return path + "/" + name;
  }
};

std::string refused(const std::string &path) {
  return refused_growth({path, 10, false, true, {}, {}}, 100, GrownFiles::Truncate, path);
}

TEST_CASE("files of databases are recognised by their first bytes") {
  Folder folder;
  for (const auto &example : std::initializer_list<std::pair<const char *, std::string>>{
           {"SQLite", "SQLite format 3\0"s},
           {"SQLite", "\x37\x7f\x06\x83"},
           {"LMDB", std::string(16, '\0') + "\xde\xc0\xef\xbe"},
           {"Berkeley DB", std::string(12, '\0') + "\x62\x31\x05\0"s},
           {"Berkeley DB", std::string(12, '\0') + "\x61\x15\x06\0"s},
           {"GDBM", "\xcf\x9a\x57\x13"},
           {"HDF5", "\x89HDF\r\n\x1a\n"},
           {"NetCDF", "CDF\x02"},
           {"DuckDB", std::string(8, '\0') + "DUCK"}}) {
    std::string format = example.first;
    CAPTURE(format);
    std::string path = folder.write("file", example.second + "more");
    CHECK(refused(path).find("(" + format + ")") != std::string::npos);
    CHECK(refused(folder.write("file-wal", "x")).find(format) != std::string::npos);
  }
}

TEST_CASE("files of databases are recognised by a file beside them") {
  for (const char *name : {"CURRENT", "ibdata1", "PG_VERSION"}) {
    CAPTURE(name);
    Folder folder;
    std::string path = folder.write("000012.log", "x");
    CHECK(refused(path).empty());
    folder.write(name, "");
    CHECK(refused(path).find("--truncate-files does not cut it") != std::string::npos);
  }
}

TEST_CASE("a log, however short, is cut") {
  Folder folder;
  for (const char *text : {"", "x", "SQLite", "step 1\nstep 2\nstep 3\nstep 4\n"})
    CHECK(refused(folder.write("log", text)).empty());
}

}  // namespace
}  // namespace ckpt::test

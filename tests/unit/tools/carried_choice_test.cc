// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/carried_choice.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/storage/support.h"
#include "tools/dump/carried_files.h"
#include "tools/dump/carried_list.h"

using namespace ckpt;
using namespace ckpt::test;
using namespace ckpt::tools;

namespace {

// A program that has one file open for reading.
struct OneOpenFile {
  TempFolder folder;
  std::string path;
  Descriptor descriptor;
  CarriedChoice::Options options{.all = true, .data_bytes = 1000};

  explicit OneOpenFile(size_t bytes = 1000, const char *name = "own") : path(folder / name) {
    Bytes contents = random_bytes(bytes, 1);
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    REQUIRE(::write(fd.get(), contents.data(), bytes) == static_cast<ssize_t>(bytes));
    struct stat st {};
    REQUIRE(::fstat(fd.get(), &st) == 0);
    descriptor.kind = Descriptor::Kind::File;
    descriptor.target = path;
    descriptor.inode = st.st_ino;
    descriptor.device = st.st_dev;
  }
  // "taken", why it is left out, or "": neither.
  std::string outcome() const {
    Target target;
    CarriedChoice choice(target, {::geteuid(), ::getegid(), {}}, options);
    CarriedList list = must(CarriedList::of(choice, {{::getpid(), {descriptor}}}, true));
    if (list.files.empty()) return list.left_out.empty() ? "" : list.left_out.front().why;
    CHECK(list.files.front().path == path);
    return "taken";
  }
};

manifest::Manifest with_mapped_file(u64 size, i64 mtime_ns) {
  manifest::Manifest m;
  manifest::MappedFile f;
  f.path = "/lib/own.so";
  f.size = size;
  f.mtime_ns = mtime_ns;
  m.mapped_files = {f};
  manifest::CarriedFile carried;
  carried.path = f.path;
  carried.size = 5;
  carried.mtime_ns = 7;
  m.carried_files = {carried};
  return m;
}

}  // namespace

TEST_CASE("a file that is only read is taken") { CHECK(OneOpenFile().outcome() == "taken"); }

TEST_CASE("a name that leads to another file than the program's is not taken") {
  OneOpenFile inode, device, gone;
  inode.descriptor.inode++;
  CHECK(inode.outcome().empty());
  device.descriptor.device++;
  CHECK(device.outcome().empty());
  ::unlink(gone.path.c_str());
  CHECK(gone.outcome().empty());
}

TEST_CASE("set-user-ID programs, large data and files that can be written to are left out") {
  for (mode_t mode : {04755U, 02755U, 01755U}) {
    OneOpenFile special;
    REQUIRE(::chmod(special.path.c_str(), mode) == 0);
    CHECK(special.outcome() == fmt::format("its mode is {:o}", mode));
  }
  CHECK(OneOpenFile(1001).outcome().find("--with-files-up-to") != std::string::npos);
  OneOpenFile written;
  UniqueFd writer(::open(written.path.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(written.outcome().find("can write to it") != std::string::npos);
  OneOpenFile by_program;
  by_program.descriptor.flags = O_RDWR;
  CHECK(by_program.outcome() == "the program can write to it");
}

TEST_CASE("libraries that belong to a version of the kernel's driver are left out") {
  for (const char *name :
       {"libcuda.so.580.159.04", "libcuda.so.1.1", "libnvidia-ptxjitcompiler.so.580.159.04"})
    CHECK(OneOpenFile(10, name).outcome() == "it belongs to the driver of this machine");
  for (const char *name : {"libcuda.so.1", "libcudart.so.12.4.127", "libcublas.so.12.4.5.8"})
    CHECK(OneOpenFile(10, name).outcome() == "taken");
}

TEST_CASE(
    "a file that a restore has supplied is carried also without --with-files, or the dump fails") {
  OneOpenFile other;
  other.options.all = false;
  CHECK(other.outcome().empty());
  OneOpenFile gone;
  gone.descriptor.target = "/tmp/ckpt-0-abcdef/files/0/lib/own.so";
  Target target;
  CarriedChoice choice(target, {::geteuid(), ::getegid(), {}}, {.all = false, .data_bytes = 0});
  CHECK_FALSE(CarriedList::of(choice, {{::getpid(), {gone.descriptor}}}, false));
}

TEST_CASE("a file that has changed since it was saved is not described") {
  auto kept = [](manifest::Manifest m) {
    leave_out_undescribed(m);
    return m.carried_files.size() == 1;
  };
  CHECK(kept(with_mapped_file(5, 7)));
  CHECK_FALSE(kept(with_mapped_file(6, 7)));
  CHECK_FALSE(kept(with_mapped_file(5, 8)));
  manifest::Manifest written = with_mapped_file(5, 7);
  manifest::File open;
  open.path = "/lib/own.so";
  open.writable = true;
  written.files = {open};
  CHECK_FALSE(kept(written));
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/manifest/restorable.h"
#include "tools/proc/processor.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

namespace ckpt::test {
using namespace tools;
namespace {

// A program of one process with two threads, a page of memory and its standard streams.
struct Sound {
  ImageManifest manifest;
  CriuFiles criu;
  std::string prefix;
  Credentials user;  // root

  Sound() {
    manifest.root_pid = 10;
    manifest.processes.push_back({10, 10, 10, {10, 11}, false, {}});
    for (bool &has : manifest.has_stream) has = true;
    CriuFiles::Process &p = criu.processes[10];
    p.threads = {10, 11};
    p.alive = p.has_memory = p.has_pages = true;
    p.mappings = {{0x1000, 0x2000, 1, true}, {0x2000, 0x4000, 0, true}};
    p.pages = {{0x1000, 0x3000, true}};
    p.pages_file = p.descriptors = p.executable = 1;
    criu.files[1] = {.path = "/a", .size = 10, .mode = S_IFREG | 0644};
    criu.files[2] = {};
    criu.descriptors[1] = {{0, 2}, {1, 2}, {2, 2}};
    criu.sizes = {{"core-10.img", 1}, {"core-11.img", 1}, {"pages-1.img", 0x2000}};
  }
  CriuFiles::Process &process() { return criu.processes[10]; }
  RestorableImage image() const {
    return {.manifest = manifest, .criu = criu, .prefix = prefix, .user = user};
  }
  Reasons reasons() const {
    Reasons all;
    check_image_and_machine(image(), all);
    return all;
  }
};

// As clock_getcpuclockid(3) makes it, and as the kernel shows CLOCK_THREAD_CPUTIME_ID.
i32 clock_of_process(pid_t pid) { return ~pid * 8 + 2; }
constexpr i32 kClockOfItsThread = -2;

struct Fault {
  const char *rule;
  std::function<void(Sound &)> make;
};

const Fault kFaults[] = {
    {"processes", [](Sound &s) { s.manifest.processes.clear(); }},
    {"processes", [](Sound &s) { s.manifest.processes[0].ended = true; }},
    {"processes", [](Sound &s) { s.process().alive.reset(); }},
    {"processes",
     [](Sound &s) {
       s.manifest.processes.push_back({12, 12, 12, {12}, false, {}});
     }},
    {"threads", [](Sound &s) { s.manifest.processes[0].threads = {10}; }},
    {"threads", [](Sound &s) { s.criu.sizes.erase("core-11.img"); }},
    {"standard streams", [](Sound &s) { s.manifest.has_stream[1] = false; }},
    {"memory", [](Sound &s) { s.criu.sizes["pages-1.img"] = 0x1000; }},
    {"memory", [](Sound &s) { s.criu.sizes.erase("pages-1.img"); }},
    {"memory", [](Sound &s) { s.process().has_memory = false; }},
    {"memory", [](Sound &s) { s.process().mappings.pop_back(); }},
    {"memory", [](Sound &s) { s.process().mappings[1].is_private = false; }},
    {"memory", [](Sound &s) { s.process().pages[0].begin = 0; }},
    {"addresses",
     [](Sound &s) {
       s.process().mappings.push_back({u64{1} << 40, u64{70} << 40, 0, true});
     }},
    {"timers",
     [](Sound &s) {
       s.process().timers = {{clock_of_process(12), SIGEV_SIGNAL, SIGPROF}};
     }},
    {"timers",
     [](Sound &s) {
       s.process().timers = {{kClockOfItsThread, SIGEV_SIGNAL, SIGPROF}};
     }},
    {"timers",
     [](Sound &s) {
       s.process().timers = {{kClockOfItsThread, SIGEV_THREAD_ID, 32}};
     }},
    {"descriptors", [](Sound &s) { s.criu.files.erase(2); }},
    {"descriptors", [](Sound &s) { s.process().mappings[0].file = 7; }},
    {"descriptors", [](Sound &s) { s.process().executable = 7; }},
    {"processor", [](Sound &s) { s.manifest.processor.features = {"no_such_instruction"}; }},
    {"open files",
     [](Sound &s) {
       s.manifest.files = {{{"/missing", 1}}};
     }},
    {"mapped files",
     [](Sound &s) {
       s.manifest.mapped_files = {{"/missing", 1}};
     }},
    {"modes of files", [](Sound &s) { s.criu.files[1].mode = S_IFREG | 0600; }},
    {"modes of files", [](Sound &s) { s.criu.files[1].mode = S_IFDIR | 0644; }},
    {"rights to open files",
     [](Sound &s) {
       s.user = {1000, 1000, {}};
       s.criu.files[2] = {.path = "/gone", .by_other_name = true, .flags = O_WRONLY, .ghost = 1};
       s.criu.ghosts[1] = {1000, 1000, S_IFREG | 0444};
     }},
    {"names of unlinked files",
     [](Sound &s) {
       s.manifest.links = {{"/link_remap.1", "/link_remap.1.ckpt-1"}};
     }},
};

// A folder with the file that the image names.
struct Machine {
  std::string folder = "/tmp/ckpt-restorable-XXXXXX";
  Machine() {
    REQUIRE(::mkdtemp(folder.data()));
    std::string file = folder + "/a";
    REQUIRE(::close(::creat(file.c_str(), 0644)) == 0);
    REQUIRE(::chmod(file.c_str(), 0644) == 0);
  }
  ~Machine() { std::filesystem::remove_all(folder); }
};

TEST_CASE("a sound image has no reason against its restore") {
  Machine machine;
  Sound s;
  s.prefix = machine.folder;
  CHECK(s.reasons().empty());
}

TEST_CASE("timers of other clocks can be restored") {
  Machine machine;
  Sound s;
  s.prefix = machine.folder;
  s.process().timers = {{CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGALRM},
                        {clock_of_process(10), SIGEV_SIGNAL, SIGPROF},
                        {CpuClock::of_thread_with(11), SIGEV_SIGNAL, SIGPROF},
                        {CpuClock::of_thread_with(12), SIGEV_SIGNAL, SIGPROF},  // it has ended
                        {kClockOfItsThread, SIGEV_THREAD_ID, SIGPROF}};
  CHECK(s.reasons().empty());
  s.process().threads = {10};
  s.manifest.processes[0].threads = {10};
  s.process().timers = {{kClockOfItsThread, SIGEV_SIGNAL, SIGPROF}};  // there is only one thread
  CHECK(s.reasons().empty());
}

TEST_CASE("each fault is found by its rule, and by no other") {
  Machine machine;
  for (const Fault &f : kFaults) {
    CAPTURE(f.rule);
    Sound s;
    s.prefix = machine.folder;
    f.make(s);
    for (const RestoreRule &rule : restore_rules()) {
      Reasons found;
      rule.check(s.image(), found);
      CAPTURE(rule.what);
      CHECK(found.empty() == (f.rule != std::string(rule.what)));
    }
    CHECK(!s.reasons().empty());
  }
}

TEST_CASE("a processor that lacks instructions can be tried") {
  Machine machine;
  Sound s;
  s.prefix = machine.folder;
  s.manifest.processor.features = processor_features();
  CHECK(s.reasons().empty());
  for (char c = 'a'; c < 'l'; c++) s.manifest.processor.features.insert(std::string("zz") + c);
  REQUIRE(s.reasons().size() == 1);
  CHECK(s.reasons()[0].find("zza") != std::string::npos);
  CHECK(s.reasons()[0].find("and 3 more") != std::string::npos);
  Reasons all;
  check_image_and_machine({s.manifest, s.criu, s.prefix, {}, true}, all);
  CHECK(all.empty());
}

TEST_CASE("of the names in /proc/cpuinfo, those of instructions count") {
  using Names = std::set<std::string>;
  CHECK(processor_features_in("processor\t: 0\nflags\t\t: fpu vme avx2 vmx avx512f constant_tsc\n"
                              "vmx flags\t: ept\n\nprocessor\t: 1\n") == Names{"avx2", "avx512f"});
  CHECK(processor_features_in("Features\t: fp asimd sve\n") == Names{"asimd", "fp", "sve"});
  CHECK(processor_features_in("").empty());
}

TEST_CASE("each rule has a fault") {
  for (const RestoreRule &rule : restore_rules()) {
    CAPTURE(rule.what);
    CHECK(std::ranges::any_of(kFaults,
                              [&](const Fault &f) { return f.rule == std::string(rule.what); }));
  }
}

TEST_CASE("what is unknown is no reason: files that are too large, images without CRIU's files") {
  Sound s;
  s.prefix = "/nowhere";
  s.criu.complete = false;
  s.criu.files.clear();
  s.criu.sizes.erase("pages-1.img");
  CHECK(s.reasons().empty());
  s.criu = {};
  CHECK(s.reasons().empty());
}

TEST_CASE("one rule names at most six reasons") {
  Sound s;
  s.criu.files.clear();
  s.criu.files[99] = {};
  for (int fd = 3; fd < 1000; fd++) s.criu.descriptors[1][fd] = 5;
  Reasons found;
  check_image({s.manifest, s.criu, ""}, found);
  CHECK(found.size() == 6);
}

// Numbers by field, then messages by field.
Bytes message(std::initializer_list<std::pair<u32, u64>> numbers,
              std::initializer_list<std::pair<u32, Bytes>> messages = {}) {
  Writer w;
  auto varint = [&w](u64 v) {
    for (; v >= 0x80; v >>= 7) w.put(static_cast<u8>(v | 0x80));
    w.put(static_cast<u8>(v));
  };
  for (auto [field, value] : numbers) {
    varint(u64{field} << 3);
    varint(value);
  }
  for (const auto &[field, bytes] : messages) {
    varint(u64{field} << 3 | 2);
    varint(bytes.size());
    w.raw(bytes.data(), bytes.size());
  }
  return w.take();
}

Bytes file(std::initializer_list<Bytes> messages) {
  Writer w;
  w.put<u64>(0);
  for (const Bytes &m : messages) w.blob(m);
  return w.take();
}

void add(FactFiles &files, const std::string &name, const Bytes &contents) {
  files.add(name, contents);
  files.close(name, contents.size());
}

FactFiles files_of_program() {
  Bytes name = Bytes(2);
  std::memcpy(name.data(), "/a", 2);
  FactFiles files;
  add(files, "pstree.img", file({message({{1, 10}, {2, 0}, {5, 10}, {5, 11}})}));
  add(files, "core-10.img",
      file({message({{1, 1}}, {{3, message({{1, 1}})}, {4, message({{2, 7}})}})}));
  add(files, "core-11.img", file({message({{1, 1}})}));
  Bytes mapping = message({{1, 0x1000}, {2, 0x2000}, {4, 1}, {6, 2}, {7, 1 << 6}});
  Bytes shared = message({{1, 0x5000}, {2, 0x6000}, {4, 1}, {6, 1}, {7, 1 << 8}, {10, O_RDWR}});
  add(files, "mm-10.img", file({message({{12, 1}}, {{14, mapping}, {14, shared}})}));
  add(files, "pagemap-10.img",
      file({message({{1, 3}}), message({{1, 0x1000}, {2, 0}, {4, 4}, {5, 1}})}));
  add(files, "files.img",
      file({message({{1, 1}, {2, 1}},
                    {{3, message({{2, O_WRONLY}, {8, 5}, {10, 0100644}}, {{6, name}})}}),
            message({{1, 2}, {2, 2}}, {{16, message({}, {{11, name}})}})}));
  add(files, "fdinfo-7.img", file({message({{1, 2}, {4, 0}}), message({{1, 2}, {4, 5}})}));
  add(files, "remap-fpath.img", file({message({{1, 1}, {2, 0x1f}, {3, 1}})}));
  Bytes ghost = file({message({{1, 1000}, {2, 100}, {3, 0100600}})});
  ghost.resize(1 << 20, std::byte{0xff});  // its contents
  add(files, "ghost-file-1f.img", ghost);
  files.add("pages-3.img", {});
  files.close("pages-3.img", 4096);
  return files;
}

TEST_CASE("CRIU's files are read") {
  CriuFiles criu = CriuFiles::of(files_of_program());
  CHECK(criu.complete);
  REQUIRE(criu.processes.size() == 1);
  const CriuFiles::Process &p = criu.processes.at(10);
  CHECK(p.threads == std::set<pid_t>{10, 11});
  CHECK(p.alive == true);
  CHECK(p.descriptors == 7);
  CHECK(p.executable == 1);
  REQUIRE(p.mappings.size() == 2);
  CHECK(p.mappings[0].is_private);
  CHECK(p.mappings[0].file == 1);
  CHECK(!p.mappings[1].is_private);
  REQUIRE(p.pages.size() == 1);
  CHECK(p.pages[0].end == 0x2000);
  CHECK(p.pages_file == 3);
  CHECK(criu.sizes.at("pages-3.img") == 4096);
  CHECK(criu.files.at(1).path == "/a");
  CHECK(criu.files.at(1).size == 5);
  CHECK(criu.files.at(1).mode == 0100644);
  CHECK(criu.files.at(2).socket == "/a");
  CHECK(criu.files.at(1).flags == O_WRONLY);
  CHECK(p.mappings[1].flags == O_RDWR);
  CHECK(criu.files.at(1).by_other_name);
  CHECK(criu.files.at(1).link == 0);
  REQUIRE(criu.files.at(1).ghost == 0x1f);
  CHECK(criu.ghosts.at(0x1f).uid == 1000);
  CHECK(criu.ghosts.at(0x1f).gid == 100);
  CHECK(criu.ghosts.at(0x1f).mode == 0100600);
  CHECK(criu.descriptors.at(7).at(5) == 2);
}

TEST_CASE("a file that cannot be parsed, or is too large, makes the facts incomplete") {
  FactFiles files = files_of_program();
  add(files, "mm-11.img", Bytes(20, std::byte{0xff}));
  CHECK(!CriuFiles::of(files).complete);
  files = files_of_program();
  Bytes part(4 << 20);
  for (int i = 0; i < 5; i++) files.add("pagemap-11.img", part);
  files.close("pagemap-11.img", 5 * part.size());
  CHECK(!CriuFiles::of(files).complete);
  CHECK(!files.contents().contains("pagemap-11.img"));
}

}  // namespace
}  // namespace ckpt::test

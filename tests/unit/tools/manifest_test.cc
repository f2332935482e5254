// SPDX-License-Identifier: Apache-2.0
//
// The table of the manifest's fields (tools/manifest/manifest.api). tests/golden/manifests has
// manifests of ckpt-dump from before there was a table: what the table makes of them are the same
// bytes.
#include "tools/manifest/image_manifest.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "common/base/file_text.h"
#include "tools/manifest/carried_files.h"

namespace ckpt::test {
using namespace tools;
using nlohmann::json;
namespace {

json golden(const std::string &name) {
  Result<std::string> text = file_text(CKPT_SOURCE "/tests/golden/manifests/" + name + ".json");
  REQUIRE(text.has_value());
  return json::parse(*text);
}

const char *const kGolden[] = {"program", "template", "increment", "copy"};

std::string refusal_of(const json &manifest) {
  Result<ImageManifest> m = ImageManifest::parse(manifest);
  return m ? "" : m.error().what;
}

// Visits the records of a manifest beside its JSON, and tries each field of each.
class EveryField {
 public:
  explicit EveryField(const json &whole) : whole_(whole) {}

  template <class R>
  void record(const R &value, const json::json_pointer &at) {
    const json &object = whole_.at(at);
    auto visit = [&](const api::Field &f, const auto &member) {
      if (!api::is_row<R>() && object.contains(f.name)) field(f, member, at / f.name);
      return true;
    };
    if constexpr (!api::is_row<R>()) api::Fields<R>::each(value, visit);
  }
  std::set<std::string> seen;

 private:
  template <class T>
  void field(const api::Field &f, const T &member, const json::json_pointer &at) {
    bool was_note = std::exchange(in_note_, in_note_ || f.presence == api::Presence::Note);
    without(f, at);
    if constexpr (api::detail::kIsOptional<T>) {
      inside(*member, at);
    } else {
      inside(member, at);
    }
    in_note_ = was_note;
  }

  template <class T>
  void inside(const T &value, const json::json_pointer &at) {
    if constexpr (api::Record<T>) {
      record(value, at);
    } else if constexpr (requires { typename T::value_type; }) {
      if constexpr (api::Record<typename T::value_type>)
        if (!value.empty()) record(*value.begin(), at / 0);
    }
  }

  // Without the field, and with it as another type.
  void without(const api::Field &f, const json::json_pointer &at) {
    json lacking = whole_, wrong = whole_;
    lacking[at.parent_pointer()].erase(f.name);
    wrong[at] = json::array({json::object()});
    bool required = f.presence == api::Presence::Required && !in_note_;
    manifest::Manifest m;
    std::string name = at.to_string();
    seen.insert(name);
    CHECK_MESSAGE(api::JsonReader().read(lacking, m) == !required, name);
    if (std::string(f.name) != "needs")
      CHECK_MESSAGE(api::JsonReader().read(wrong, m) == in_note_, name);
  }

  const json &whole_;
  bool in_note_ = false;  // what is within a note is as good as missing, too
};

}  // namespace

TEST_CASE("a manifest from before the table is written as the same bytes") {
  for (const char *name : kGolden) {
    CAPTURE(name);
    json old = golden(name);
    Result<manifest::Manifest> m = api::from_json<manifest::Manifest>(old);
    REQUIRE_MESSAGE(m.has_value(), m.error().what);
    CHECK(api::json_of(*m).dump(1) == old.dump(1));
    CHECK(refusal_of(old) == "");
  }
}

TEST_CASE("each field that is missing or of another type means what its entry says") {
  for (const char *name : kGolden) {
    json whole = golden(name);
    Result<manifest::Manifest> m = api::from_json<manifest::Manifest>(whole);
    REQUIRE(m.has_value());
    EveryField all(whole);
    all.record(*m, json::json_pointer());
    CHECK(all.seen.size() > 40);
  }
}

TEST_CASE("what says which program, process or user it is has no default") {
  json whole = golden("copy");
  for (const char *path :
       {"/program", "/root_pid", "/session_dir", "/protocol", "/owner/uid", "/owner/groups",
        "/processes/0/pid", "/processes/0/threads", "/agents/0/pid", "/agents/0/pipe_inode"}) {
    CAPTURE(path);
    json::json_pointer at(path);
    json lacking = whole;
    lacking[at.parent_pointer()].erase(at.back());
    std::string why = refusal_of(lacking);
    CHECK(why.find("the image's manifest is damaged: ") == 0);
    CHECK(why.find(at.back() + " is missing") != std::string::npos);
  }
  json unowned = whole;
  unowned.erase("owner");
  CHECK_FALSE(ImageManifest::parse(unowned)->owner);
}

TEST_CASE("an error names the field, and unknown fields are ignored") {
  json whole = golden("program");
  whole["of_a_later_version"] = whole["processes"][0]["too"] = 1;
  CHECK(refusal_of(whole) == "");
  auto with = [&whole](const char *path, const json &value) {
    json changed = whole;
    changed[json::json_pointer(path)] = value;
    return refusal_of(changed);
  };
  const std::string damaged = "the image's manifest is damaged: ";
  CHECK(with("/processes/1/threads", "x") == damaged + "processes[1].threads is no list");
  CHECK(with("/processes/1/pid", u64{1} << 32) ==
        damaged + "processes[1].pid is no whole number in its range");
  CHECK(with("/processes/1", 7) == damaged + "processes[1] is no object");
  CHECK(with("/processes/0/affinities/0/processors", "no") ==
        damaged + "processes[0].affinities[0].processors is no list of processors");
  CHECK(with("/processes/0/first_code", json::array({1})) ==
        damaged + "processes[0].first_code.bytes is missing");
  CHECK(with("/sockets/0/local/address", "here") == damaged + "sockets[0].local is no address");
  CHECK(with("/protocol", 1000000).find("a newer version of ckpt") != std::string::npos);
}

TEST_CASE("a kept file of an earlier version has the one folder that it names") {
  json whole = golden("program");
  json &file = whole["kept_files"][0];
  json folders = file["folders"];
  file.erase("folders");
  Result<ImageManifest> m = ImageManifest::parse(whole);
  REQUIRE(m.has_value());
  REQUIRE(m->kept_files[0].folders.size() == 1);
  CHECK(m->kept_files[0].folders[0].path == folders.back()["path"].get<std::string>());
}

TEST_CASE(
    "a carried file is one that the program has, under a plain path and without set-user-ID") {
  auto accepts = [](const char *path, u64 size, u32 mode) {
    json whole = golden("program");
    whole["mapped_files"].push_back({{"path", path}, {"size", 9}, {"mtime_ns", 1}});
    whole["carried_files"] = json::array({{{"path", path},
                                           {"mode", mode},
                                           {"uid", 0},
                                           {"gid", 0},
                                           {"names", json::array()},
                                           {"stream", "carried-files/0"},
                                           {"size", size},
                                           {"extents", json::array()},
                                           {"mtime_ns", 1},
                                           {"hash", 1}}});
    return ImageManifest::parse(whole).has_value();
  };
  CHECK(accepts("/usr/lib/libown.so", 9, 0755));
  CHECK_FALSE(accepts("/usr/lib/libown.so", 8, 0755));
  CHECK_FALSE(accepts("/usr/lib/libown.so", 9, 04755));
  for (const char *path : {"usr/lib/x", "/usr/../x", "/usr//x", "/usr/./x", "/usr/x/", "//x"})
    CHECK_FALSE(accepts(path, 9, 0755));
}

TEST_CASE("a supplied path keeps the original one") {
  std::string once = supplied_path("/tmp/ckpt-0-AbCdEf", 3, "/usr/lib/libown.so");
  CHECK(once == "/tmp/ckpt-0-AbCdEf/files/3/usr/lib/libown.so");
  CHECK((is_supplied(once) && original_path(once) == "/usr/lib/libown.so"));
  CHECK(supplied_path("/run/ckpt-0-GhIjKl", 7, once) ==
        "/run/ckpt-0-GhIjKl/files/7/usr/lib/libown.so");
  for (const char *other : {"/usr/files/3/x", "/tmp/ckpt-0-AbCdEf/files/x", "/files/3/x",
                            "/tmp/ckpt-0-AbCdEf/files/3", "/tmp/ckpt-0-AbCdE/files/3/x"})
    CHECK((!is_supplied(other) && original_path(other) == other));
}

TEST_CASE("of a damaged manifest those fields are shown that can be read") {
  json whole = golden("increment");
  whole["argv"] = 7;
  whole.erase("cwd");
  whole["processes"] = json::array({7});
  manifest::Manifest m = manifest::readable_fields(whole);
  CHECK(m.program == whole["program"].get<std::string>());
  CHECK((m.argv.empty() && m.cwd.empty() && m.processes.empty()));
  CHECK(m.parent->name == "a");
  CHECK(manifest::readable_fields(json::array()).root_pid == 0);
}

TEST_CASE("copies with closed connections have none") {
  json whole = golden("program");
  size_t all = ImageManifest::parse(whole)->sockets.size();
  whole["template"] = {{"tcp_close", true}};
  CHECK(ImageManifest::parse(whole)->sockets.size() == all - 1);
}

}  // namespace ckpt::test

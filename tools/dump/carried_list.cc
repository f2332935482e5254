// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/carried_list.h"

#include "common/base/print.h"
#include "common/base/printable.h"
#include "common/base/units.h"
#include "tools/manifest/carried_files.h"
#include "tools/manifest/file_checks.h"

namespace ckpt::tools {
namespace {

constexpr size_t kMaxLineBytes = 2000;

Result<manifest::CarriedFile> describe(const std::string &path, int fd, const struct stat &st,
                                       bool hashed) {
  manifest::CarriedFile f;
  f.path = path;
  f.mode = st.st_mode & 0777;
  f.uid = st.st_uid;
  f.gid = st.st_gid;
  f.size = static_cast<u64>(st.st_size);
  f.mtime_ns = modification_time(st);
  if (f.size > 0) f.extents.emplace_back(0, f.size);
  if (!hashed) return f;
  std::optional<u64> hash = hash_of_contents(fd);
  if (!hash) return fail("it cannot be read");
  f.hash = *hash;
  return f;
}

}  // namespace

u64 CarriedList::bytes() const {
  u64 sum = 0;
  for (const manifest::CarriedFile &f : files) sum += f.size;
  return sum;
}

Result<CarriedList> CarriedList::of(const CarriedChoice &choice, const DescriptorTable &table,
                                    bool hashed) {
  CarriedList list;
  auto take = [&](const std::string &path, int fd, const struct stat &st) -> Result<> {
    CKPT_TRY(manifest::CarriedFile file, describe(path, fd, st, hashed));
    list.files.push_back(std::move(file));
    return {};
  };
  auto leave = [&list](const std::string &path, std::string why) {
    list.left_out.push_back({path, std::move(why)});
  };
  CKPT_CHECK(choice.choose(table, {}, take, leave));
  return list;
}

nlohmann::json as_json(const CarriedList &list) {
  nlohmann::json files = nlohmann::json::array(), left_out = nlohmann::json::array();
  for (const manifest::CarriedFile &f : list.files) files.push_back(f.path);
  for (const CarriedList::LeftOut &f : list.left_out)
    left_out.push_back({{"path", f.path}, {"why", f.why}});
  return {{"files", files}, {"bytes", list.bytes()}, {"left_out", left_out}};
}

void print_carried(const CarriedList &list) {
  print("carried  {} file{}, {}\n", list.files.size(), list.files.size() == 1 ? "" : "s",
        human_bytes(list.bytes()));
  for (const CarriedList::LeftOut &f : list.left_out)
    print("left out {}: {}\n", printable(f.path, kMaxLineBytes), f.why);
}

}  // namespace ckpt::tools

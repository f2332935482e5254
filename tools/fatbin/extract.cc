// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>

#include "common/ipc/unix_socket.h"
#include "tools/fatbin/commands.h"

namespace ckpt::tools {
namespace {

using fatbin::Entry;
using fatbin::Image;
using fatbin::Kind;
using fatbin::Payload;

ByteView contents(const Entry &entry, const Payload &payload) {
  return entry.kind == Kind::Ptx ? view(payload.text()) : payload.bytes();
}

// One of the two numbers of the entry name `name`.
Result<size_t> parse_index(std::string_view word, const std::string &name) {
  size_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && !word.empty()) return value;
  return fail_with_hint(fmt::format("'{}' is not the name of an entry", name),
                        "--entries lists the names, such as 0.1");
}

Result<const Entry *> find_entry(const Image &image, const std::string &name) {
  size_t dot = std::min(name.find('.'), name.size());
  CKPT_TRY(size_t i, parse_index(std::string_view(name).substr(0, dot), name));
  CKPT_TRY(size_t k,
           parse_index(std::string_view(name).substr(std::min(dot + 1, name.size())), name));
  if (i < image.containers().size() && k < image.containers()[i].entries.size())
    return &image.containers()[i].entries[k];
  return fail_with_hint(fmt::format("there is no entry {}", name), "--entries lists all entries");
}

Result<> write_file(const std::string &path, ByteView bytes) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return fail_errno("cannot create {}", path);
  Result<> written = write_all(fd.get(), bytes);
  return written ? written : Failure(std::move(written).error().in(path));
}

}  // namespace

Result<> extract_entry(const Image &image, const std::string &name, u64 max_bytes, int fd) {
  CKPT_TRY(const Entry *entry, find_entry(image, name));
  CKPT_TRY(Payload payload, image.payload(*entry, max_bytes));
  return write_all(fd, contents(*entry, payload));
}

Result<std::vector<std::string>> extract_ptx(const Image &image, const std::string &folder,
                                             u64 max_bytes) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return fail_errno("cannot create the folder {}", folder);
  std::vector<std::string> out;
  for (size_t i = 0; i < image.containers().size(); ++i)
    for (size_t k = 0; k < image.containers()[i].entries.size(); ++k) {
      const Entry &e = image.containers()[i].entries[k];
      if (e.kind != Kind::Ptx) continue;
      CKPT_TRY(Payload payload, image.payload(e, max_bytes));
      out.push_back(fmt::format("{}/{}.{}.{}.ptx", folder, i, k, e.target()));
      CKPT_CHECK(write_file(out.back(), contents(e, payload)));
    }
  return out;
}

}  // namespace ckpt::tools

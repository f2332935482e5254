// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/header_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/log.h"

namespace ckpt::ocl {
namespace {

namespace fs = std::filesystem;

// A recorded path, which comes from an image, stays below the folder.
bool is_sound(const std::string &path) {
  return path.starts_with('/') && fs::path(path).lexically_normal() == path;
}

// Whether no ".." in the path leads out of the folder that stands for the root.
bool stays_inside(const fs::path &path) {
  int depth = 0;
  for (const fs::path &part : path.relative_path()) {
    if (part != ".") depth += part == ".." ? -1 : 1;
    if (depth < 0) return false;
  }
  return path.is_absolute();
}

Result<> write_file(const std::string &path, const std::string &text) {
  std::error_code ec;
  fs::create_directories(fs::path(path).parent_path(), ec);
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size())).flush();
  return out ? Result<>{} : fail_errno("cannot write the header {}", path);
}

// Where an absolute name may begin in a source or in options: "-I/x", "\"/x\"", "<"/x">", "N=/x".
bool begins_name(const std::string &text, size_t at) {
  if (at == 0) return true;
  char before = text[at - 1];
  return before == '"' || before == '<' || before == '=' || before == '\'' || before == ' ' ||
         before == '\t' || (before == 'I' && at > 1 && text[at - 2] == '-');
}

}  // namespace

Result<HeaderFolder> HeaderFolder::create(const Headers &headers) {
  const char *folder = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/ckpt-headers-XXXXXX", folder && *folder ? folder : "/tmp");
  if (!is_sound(headers.folder)) return fail("\"{}\" is not a working folder", headers.folder);
  HeaderFolder f({headers.folder, {}, {}, headers.absolute});
  if (!::mkdtemp(name.data())) return fail_errno("cannot create a folder for headers, {}", name);
  f.root_ = name;
  std::error_code ec;
  fs::create_directories(f.root_ + headers.folder, ec);
  for (const std::string &through : headers.folders)
    if (stays_inside(through)) fs::create_directories(f.root_ + through, ec);
  for (const Headers::File &file : headers.files) {
    if (!is_sound(file.path)) return fail("\"{}\" is not a valid path of a header", file.path);
    CKPT_CHECK(write_file(f.root_ + file.path, f.moved(file.text)));
  }
  return f;
}

HeaderFolder::~HeaderFolder() {
  std::error_code ec;
  if (!root_.empty()) fs::remove_all(root_, ec);
}

std::string HeaderFolder::replaced(std::string text, const std::string &name,
                                   const std::string &path) const {
  for (size_t at = 0; (at = text.find(name, at)) != text.npos;) {
    if (!begins_name(text, at)) {
      at += name.size();
      continue;
    }
    text.replace(at, name.size(), root_ + path);
    at += root_.size() + path.size();
  }
  return text;
}

std::string HeaderFolder::moved(const std::string &source) const {
  std::string text = source;
  for (const auto &[name, path] : headers_.absolute) text = replaced(std::move(text), name, path);
  return text;
}

// "-I/x", "-I /x" and "-I"/x"".
std::string HeaderFolder::moved_options(const std::string &options) const {
  std::string text = moved(options);
  for (size_t at = 0; (at = text.find("-I", at)) != text.npos;) {
    at = text.find_first_not_of(" \t\"'", at + 2);
    if (at == text.npos) break;
    if (text[at] == '/' && !text.substr(at).starts_with(root_)) text.insert(at, root_);
  }
  return text;
}

HeaderFolder::Entered::Entered(const HeaderFolder &folder)
    : before_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (::chdir((folder.root_ + folder.headers_.folder).c_str()) != 0)
    log::warn("cannot enter the folder of a program's headers: {}", std::strerror(errno));
}

HeaderFolder::Entered::~Entered() {
  if (!before_ || ::fchdir(before_.get()) != 0)
    log::warn("cannot return to the working folder: {}", std::strerror(errno));
}

}  // namespace ckpt::ocl

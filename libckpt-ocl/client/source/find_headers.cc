// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/source/find_headers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "common/base/io.h"
#include "common/base/unique_fd.h"
#include "libckpt-ocl/client/source/directives.h"

namespace ckpt::ocl {
namespace {

namespace fs = std::filesystem;

// Of one program. What is beyond is missed.
constexpr size_t kMaxFiles = 4096;
constexpr u64 kMaxBytes = 16u << 20;

std::string current_folder() {
  char *here = ::getcwd(nullptr, 0);
  std::string folder = here && *here == '/' ? here : "/";
  std::free(here);
  return folder;
}

class Search {
 public:
  Search(const std::string &options, const GivenHeaders &given) : given_(given) {
    found_.headers.folder = current_folder();
    SearchOptions o = read_options(options);
    for (const std::string &folder : o.folders) {
      folders_.push_back((found_.headers.folder / fs::path(folder)).string());
      found_.headers.folders.push_back(folders_.back());
    }
    macros_ = std::move(o.macros);
  }

  FoundHeaders run(const std::string &source) {
    read(source, found_.headers.folder);
    for (const auto &[name, text] : given_) read(text, found_.headers.folder);
    // A macro may be defined in a file that is found later.
    for (size_t files = ~size_t{0}; files != found_.headers.files.size();) {
      files = found_.headers.files.size();
      read_new_files();
      for (Operand &o : operands_) o.found |= include_by_macro(o);
    }
    for (const Operand &o : operands_)
      if (!o.found) found_.missed.push_back(o.text);
    return std::move(found_);
  }

 private:
  struct Operand {
    std::string text, folder;
    bool found = false;
  };

  std::string absolute(const fs::path &path) const {
    return (found_.headers.folder / path).lexically_normal().string();
  }

  void read(const std::string &text, const std::string &folder) {
    Directives d = read_directives(text);
    macros_.insert(macros_.end(), d.macros.begin(), d.macros.end());
    for (std::string &operand : d.operands) operands_.push_back({std::move(operand), folder});
    for (const std::string &name : d.includes)
      if (!include(name, folder) && missed_.insert(name).second) found_.missed.push_back(name);
  }

  void read_new_files() {
    for (; files_read_ < found_.headers.files.size(); files_read_++) {
      Headers::File file = found_.headers.files[files_read_];
      read(file.text, fs::path(file.path).parent_path().string());
    }
  }

  bool include_by_macro(const Operand &o) {
    bool found = false;
    for (const std::string &name : expand_operand(o.text, macros_))
      found |= !name.empty() && include(name, o.folder);
    return found;
  }

  // Keeps the file `name`, as it is included from `folder`, in every place where it exists.
  bool include(const std::string &name, const std::string &folder) {
    if (std::ranges::any_of(given_, [&](const auto &g) { return g.first == name; })) return true;
    if (name.starts_with('/')) return include_absolute(name);
    bool found = keep(fs::path(folder) / name);
    if (folder != found_.headers.folder) found |= keep(found_.headers.folder / fs::path(name));
    for (const std::string &f : folders_) found |= keep(fs::path(f) / name);
    return found;
  }

  bool include_absolute(const std::string &name) {
    if (!keep(name)) return false;
    std::pair<std::string, std::string> entry{name, absolute(name)};
    auto &all = found_.headers.absolute;
    if (std::ranges::find(all, entry) == all.end()) all.push_back(std::move(entry));
    return true;
  }

  bool keep(const fs::path &written) {
    std::string path = absolute(written);
    if (paths_.contains(path)) return true;
    std::optional<std::string> text = text_of(written.string());
    if (!text) return false;
    paths_.insert(path);
    bytes_ += text->size();
    if (written != path) found_.headers.folders.push_back(written.parent_path().string());
    found_.headers.files.push_back({path, std::move(*text)});
    return true;
  }

  // No value: there is no such file, or it cannot be kept.
  std::optional<std::string> text_of(const std::string &path) const {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat st {};
    if (!fd || ::fstat(fd.get(), &st) < 0 || !S_ISREG(st.st_mode)) return {};
    auto size = static_cast<u64>(st.st_size);
    if (paths_.size() >= kMaxFiles || size > kMaxBytes - bytes_) return {};
    std::string text(size, '\0');
    if (size > 0 && !read_exactly(fd.get(), text.data(), size)) return {};
    return text;
  }

  const GivenHeaders &given_;
  FoundHeaders found_;
  std::vector<std::string> folders_;
  MacroBodies macros_;
  std::vector<Operand> operands_;
  std::set<std::string> paths_, missed_;
  size_t files_read_ = 0;
  u64 bytes_ = 0;
};

}  // namespace

FoundHeaders find_headers(const std::string &source, const std::string &options,
                          const GivenHeaders &given) {
  if (source.find("include") == source.npos && source.find("import") == source.npos &&
      given.empty())
    return {};
  return Search(options, given).run(source);
}

}  // namespace ckpt::ocl

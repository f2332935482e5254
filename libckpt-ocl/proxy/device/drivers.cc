// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/device/drivers.h"

#include <CL/cl_icd.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>

namespace ckpt::ocl {
namespace {

namespace fs = std::filesystem;

// By source.
std::map<std::string, size_t> &chosen() {
  static std::map<std::string, size_t> all;
  return all;
}

std::string file_of(void *symbol) {
  Dl_info info{};
  return symbol != nullptr && ::dladdr(symbol, &info) != 0 ? info.dli_fname : "";
}

// The library that the loader has loaded for the platform. A driver may only pass calls on to
// another library, which is none by itself: every driver exports clGetExtensionFunctionAddress
// (cl_khr_icd).
std::string library_of(cl_platform_id platform) {
  auto *dispatch = *reinterpret_cast<cl_icd_dispatch **>(platform);
  std::string file = file_of(reinterpret_cast<void *>(dispatch->clGetPlatformInfo));
  if (!file.starts_with('/') || file.find('\n') != file.npos) return {};
  void *library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  std::string exporter = file_of(::dlsym(library, "clGetExtensionFunctionAddress"));
  ::dlclose(library);
  return exporter == file ? file : "";
}

std::vector<cl_platform_id> all_platforms() {
  cl_uint n = 0;
  if (::clGetPlatformIDs(0, nullptr, &n) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> ids(n);
  if (::clGetPlatformIDs(n, ids.data(), nullptr) != CL_SUCCESS) return {};
  return ids;
}

// A variable of the environment while this lives. The drivers may start other processes later.
class Variable {
 public:
  Variable(const char *name, const char *value) : name_(name) {
    if (const char *old = std::getenv(name)) old_ = old;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable &) = delete;

 private:
  const char *name_;
  std::optional<std::string> old_;
};

// A folder as the loader reads it, with one file for each library.
class Vendors {
 public:
  explicit Vendors(const std::set<std::string> &libraries) {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "ckpt-drivers-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    for (const std::string &library : libraries)
      std::ofstream(path_ / fmt::format("{}.icd", count_++)) << library << '\n';
  }
  ~Vendors() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Vendors(const Vendors &) = delete;
  // With the slash by which loaders recognise a folder; empty: it could not be made.
  std::string path() const { return path_.empty() ? "" : path_.string() + "/"; }

 private:
  fs::path path_;
  size_t count_ = 0;
};

bool all_found() {
  std::set<std::string> found;
  for (const std::string &source : sources_of(all_platforms())) found.insert(source);
  for (const auto &[source, number] : chosen())
    if (!found.contains(source)) return false;
  return true;
}

}  // namespace

std::vector<std::string> sources_of(const std::vector<cl_platform_id> &platforms) {
  std::map<std::string, size_t> count;
  std::vector<std::string> all;
  for (cl_platform_id p : platforms) {
    std::string library = library_of(p);
    all.push_back(library.empty() ? "" : fmt::format("{}:{}", count[library]++, library));
  }
  return all;
}

bool load_only(const std::vector<std::string> &drivers) {
  std::set<std::string> libraries;
  for (const std::string &driver : drivers) {
    size_t number_end = driver.find(':'), nth_end = driver.find(':', number_end + 1);
    if (number_end == driver.npos || nth_end == driver.npos) return false;
    chosen()[driver.substr(number_end + 1)] = std::strtoul(driver.c_str(), nullptr, 10);
    libraries.insert(driver.substr(nth_end + 1));
  }
  Vendors vendors(libraries);
  if (vendors.path().empty()) return false;
  Variable folder("OCL_ICD_VENDORS", vendors.path().c_str()), more("OCL_ICD_FILENAMES", nullptr);
  return all_found();
}

std::optional<size_t> platform_number(const std::string &source, size_t position) {
  if (chosen().empty()) return position;
  auto found = chosen().find(source);
  return found == chosen().end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
//
// Builds a program with the headers that it had, on whatever machine
//
// The files are written into a private folder that stands for the root of the file system:
//
//   recorded   /home/u/kernels/a.h, built in /home/u with "-Ikernels -I/opt/x"
//   here       /tmp/ckpt-headers-…/home/u/kernels/a.h, built in /tmp/ckpt-headers-…/home/u
//              with "-Ikernels -I/tmp/ckpt-headers-…/opt/x"
//
// So relative names keep their meaning. Absolute names are replaced in options and sources, so that
// only recorded files are read. The driver finds its own headers itself.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "libckpt-ocl/headers.h"

namespace ckpt::ocl {

class HeaderFolder {
 public:
  static Result<HeaderFolder> create(const Headers &headers);
  HeaderFolder(HeaderFolder &&o) noexcept
      : headers_(std::move(o.headers_)), root_(std::exchange(o.root_, {})) {}
  HeaderFolder &operator=(HeaderFolder &&) = delete;
  ~HeaderFolder();

  // The source or a header, and the options, with absolute names replaced.
  std::string moved(const std::string &source) const;
  std::string moved_options(const std::string &options) const;

  // The working folder of this process, for as long as this object lives.
  class Entered {
   public:
    explicit Entered(const HeaderFolder &folder);
    ~Entered();
    Entered(const Entered &) = delete;

   private:
    UniqueFd before_;
  };

 private:
  explicit HeaderFolder(const Headers &headers) : headers_(headers) {}
  std::string replaced(std::string text, const std::string &name, const std::string &path) const;

  Headers headers_;   // without the files' texts
  std::string root_;  // empty: moved from
};

}  // namespace ckpt::ocl

// SPDX-License-Identifier: Apache-2.0
//
// Which streams a restored program gets (facts/criu.md, the table). Files CRIU opens itself. Then:
//
//   the image has a terminal  ours, when we have one at the same places and the program can be in
//   our
//                             session; else a pseudo-terminal of our own, passed on to our streams
//                             or, detached, to a file
//   a pipe led out of it      our descriptor of the same number, if that is a pipe; else a pipe of
//   our
//                             own, passed on as above. What was in a pipe unread is fed in first.
//                             Above 2 and not given to us: an end of file, or a sink, and a
//                             warning.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"
#include "tools/restore/manifest.h"
#include "tools/restore/pump.h"
#include "tools/restore/terminal.h"

namespace ckpt::tools {

class RestoredStreams {
 public:
  struct Options {
    bool detach = false;
    bool new_namespace = false;
    std::string output_file;  // for a detached program
  };

  static Result<std::unique_ptr<RestoredStreams>> plan(const ImageManifest &m,
                                                       const storage::ImageReader &image,
                                                       const Options &o);

  int terminal() const { return terminal_.get(); }  // CRIU's standard input; -1: none
  bool own_terminal() const { return static_cast<bool>(pty_.master); }
  const std::vector<std::pair<int, u64>> &pipes() const {
    return pipes_;
  }  // our descriptor, the image's inode
  const std::string &used_output_file() const { return used_output_file_; }

  // CRIU has its copies: closes ours, so that ends of files are seen.
  void handed_over();
  void window_changed();
  void before_stop();
  void after_stop();

 private:
  Result<> plan_terminal(const ImageManifest &m, const Options &o);
  Result<> plan_pty(const ImageManifest &m, const Options &o);
  Result<> plan_pipe(const ImageManifest::Pipe &p, const storage::ImageReader &image,
                     const Options &o);
  Result<> plan_input(const ImageManifest::Pipe &p, const storage::ImageReader &image,
                      const Options &o);
  Result<> plan_output(const ImageManifest::Pipe &p, const Options &o);
  Result<UniqueFd> output_for(int fd, const Options &o);

  UniqueFd terminal_;
  PseudoTerminal pty_;
  UniqueFd real_terminal_;  // ours, that the pseudo-terminal is like
  std::vector<UniqueFd> given_;
  std::vector<std::pair<int, u64>> pipes_;
  std::string used_output_file_;
  std::unique_ptr<RawTerminal> raw_;
  std::list<Pump> pumps_;
};

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// The streams of a restored program. CRIU opens files by name itself; these it cannot reopen:
//
//   Image has            Program gets
//   a terminal           our terminal, if the same standard streams are terminals here and the
//                        program can be in our session; otherwise a new pseudo-terminal: pumps
//                        copy its data to and from our streams, or with --detach to a file
//   a pipe to outside    our descriptor with the same number, if that is a pipe; otherwise a new
//                        pipe: a pump copies its data to or from our descriptor. Bytes that were
//                        unread at the dump come first. A pipe above descriptor 2 that we were not
//                        given becomes an empty input or /dev/null, with a warning.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"
#include "tools/manifest/image_manifest.h"
#include "tools/restore/pump.h"
#include "tools/restore/terminal.h"

namespace ckpt::tools {

// A copy of `fd` that can be given to CRIU; invalid where there are no descriptors left.
UniqueFd copy_of(int fd);

class RestoredStreams {
 public:
  struct Options {
    bool detach = false;
    bool new_namespace = false;
    std::string output_file;  // with `detach`: for output to a terminal or a pipe
  };

  static Result<std::unique_ptr<RestoredStreams>> plan(const ImageManifest &m,
                                                       const storage::ImageReader &image,
                                                       const Options &o);

  // CRIU's standard input, from which the program gets its terminal; -1: none.
  int terminal() const { return terminal_.get(); }
  bool own_terminal() const { return static_cast<bool>(pty_.master); }
  // For criu --inherit-fd: our descriptor for each pipe, and its inode in the image.
  const std::vector<std::pair<int, u64>> &pipes() const { return pipes_; }

  // Whether the program's output, or a copy of it, goes to a terminal of ours.
  bool on_our_terminal() const { return on_our_terminal_; }

  // CRIU has given the terminal the window size of the dump. Returns to the size that it has here;
  // true: that is another one, so the program must learn it (SIGWINCH).
  bool return_window_size();
  // CRIU has inherited the descriptors. Closes ours, so that readers can see the end of file.
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

  bool on_our_terminal_ = false;
  UniqueFd terminal_;
  PseudoTerminal pty_;
  UniqueFd real_terminal_;       // ours, which the pseudo-terminal imitates
  std::optional<winsize> size_;  // of our terminal
  std::vector<UniqueFd> given_;
  std::vector<std::pair<int, u64>> pipes_;
  std::unique_ptr<RawTerminal> raw_;
  std::list<Pump> pumps_;
};

}  // namespace ckpt::tools

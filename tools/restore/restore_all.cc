// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/restore_all.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "common/base/print.h"
#include "storage/io/key_file.h"
#include "storage/read/image_reader.h"
#include "tools/device/apis.h"
#include "tools/image/text.h"
#include "tools/manifest/saved_images.h"
#include "tools/proc/command.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

using State = SavedImage::State;

constexpr size_t kMaxOutput = 64u << 10;

// Root starts what an image says.
bool is_own(const std::string &image) {
  struct stat st {};
  return ::stat((image + "/index.ckpt").c_str(), &st) == 0 && st.st_uid == ::geteuid();
}

class RestoreAll {
 public:
  RestoreAll(const RestoreAllOptions &options, std::optional<storage::Key> key)
      : options_(options), key_(std::move(key)) {}

  Result<int> run() {
    CKPT_TRY(std::vector<SavedImage> images,
             images_in(options_.folder, key_or_null(), Thoroughness::Index));
    running_ = running_programs(std::nullopt);
    std::erase_if(images, [this](const SavedImage &i) { return set_aside(i); });
    std::ranges::stable_sort(images, std::ranges::greater(), &SavedImage::created);
    while (!images.empty()) {
      SavedImage newest = images.front();
      std::vector<SavedImage> of_program;
      for (const SavedImage &i : images)
        if (i.is_of_program(newest)) of_program.push_back(i);
      std::erase_if(images, [&](const SavedImage &i) { return i.is_of_program(newest); });
      restore_program(of_program);
    }
    print("{} restored, {} skipped, {} failed\n", restored_, skipped_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  const storage::Key *key_or_null() const { return key_ ? &*key_ : nullptr; }

  bool trusts_others() const {
    return std::ranges::find(options_.options, "--trust-image") != options_.options.end();
  }

  // Images that cannot be assigned to a program, or must not be started.
  bool set_aside(const SavedImage &i) {
    if (i.state == State::Incomplete)
      return skip(i, "incomplete: its dump was killed, or is under way"), true;
    if (!trusts_others() && !is_own(i.path)) return skip(i, "it belongs to another user"), true;
    if (i.state == State::Locked || i.state == State::Damaged) return fail(i, i.why), true;
    return false;
  }

  void restore_program(const std::vector<SavedImage> &newest_first) {
    const SavedImage &newest = newest_first.front();
    auto runs = std::ranges::find_if(running_, [&](const RunningProgram &p) {
      return p.session_folder == newest.session_folder && p.root_ns_pid == newest.root_pid;
    });
    size_t tried = 1;
    if (newest.state == State::Ended)
      skip(newest, "the program has ended by itself since then");
    else if (runs != running_.end())
      skip(newest, fmt::format("the program is already running (PID {})", runs->root));
    else
      tried = restore_newest(newest_first);
    for (size_t i = tried; i < newest_first.size(); i++)
      skip(newest_first[i], "there is a newer one");
  }

  // Returns how many images were tried. An older one is tried only if the newer one is damaged.
  size_t restore_newest(const std::vector<SavedImage> &newest_first) {
    for (size_t i = 0;; i++) {
      const SavedImage &image = newest_first[i];
      Result<pid_t> pid = start(image);
      if (pid) {
        restored_++;
        say("restored", image, fmt::format("PID {}", *pid));
        return i + 1;
      }
      if (i + 1 == newest_first.size() || !is_damaged(image)) {
        fail(image, pid.error().what);
        return i + 1;
      }
      skip(image, "damaged; the next older one is used: " + pid.error().what);
    }
  }

  Result<pid_t> start(const SavedImage &image) const {
    UniqueFd out(::memfd_create("ckpt-restore-pid", MFD_CLOEXEC));
    UniqueFd err(::memfd_create("ckpt-restore-errors", MFD_CLOEXEC));
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    Spawn spec{.argv = {sibling_tool("ckpt-restore"), "--detach", "--output", image.path + ".out",
                        image.path},
               .in = null.get(),
               .out = out.get(),
               .err = err.get()};
    if (!options_.key_file.empty() && image.encrypted)
      spec.argv.insert(spec.argv.end(), {"--key-file", options_.key_file});
    spec.argv.insert(spec.argv.end(), options_.options.begin(), options_.options.end());
    CKPT_TRY(pid_t child, spawn(spec));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    pid_t pid = std::atoi(output_in(out.get(), kMaxOutput).c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && pid > 0) return pid;
    std::string text = output_in(err.get(), kMaxOutput);
    return ckpt::fail("{}", text.substr(0, text.find_last_not_of('\n') + 1));
  }

  bool is_damaged(const SavedImage &image) const {
    auto reader = storage::ImageReader::open(image.path, {.key = key_or_null()});
    return !reader || !(*reader)->verify(storage::ImageReader::Depth::Stored).ok();
  }

  static void say(const char *what, const SavedImage &image, const std::string &more) {
    std::string name = printable(image.path);
    std::string program = image.program.empty() ? "" : value_text(image.program, 60);
    print("{:<8}  {}  {}{}{}\n", what, name, program, program.empty() ? "" : ": ", more);
  }
  void skip(const SavedImage &image, const std::string &why) {
    skipped_++;
    say("skipped", image, printable_lines(why));
  }
  void fail(const SavedImage &image, const std::string &why) {
    failed_++;
    say("FAILED", image, printable_lines(why));
  }
  const RestoreAllOptions &options_;
  std::optional<storage::Key> key_;
  std::vector<RunningProgram> running_;
  size_t restored_ = 0, skipped_ = 0, failed_ = 0;
};

}  // namespace

Result<int> restore_all(const RestoreAllOptions &options) {
  std::optional<storage::Key> key;
  if (!options.key_file.empty()) {
    CKPT_TRY(key, storage::read_key(options.key_file, options.key_access));
  }
  return RestoreAll(options, std::move(key)).run();
}

}  // namespace ckpt::tools

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
#include "tools/session/in_turns.h"
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

// The images of one program, the newest first.
struct Program {
  std::vector<SavedImage> images;
  size_t tried = 0;  // those before the one that is being restored
  UniqueFd out = {}, err = {};
  const SavedImage &image() const { return images[tried]; }
};

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
      Program program;
      for (const SavedImage &i : images)
        if (i.is_of_program(newest)) program.images.push_back(i);
      std::erase_if(images, [&](const SavedImage &i) { return i.is_of_program(newest); });
      if (is_needed(program)) programs_.push_back(std::move(program));
    }
    restore_in_turns();
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

  bool is_needed(const Program &program) {
    const SavedImage &newest = program.image();
    auto runs = std::ranges::find_if(running_, [&](const RunningProgram &p) {
      return p.session_folder == newest.session_folder && p.root_ns_pid == newest.root_pid;
    });
    if (newest.state != State::Ended && runs == running_.end()) return true;
    skip(newest, newest.state == State::Ended
                     ? "the program has ended by itself since then"
                     : fmt::format("the program is already running (PID {})", runs->root));
    skip_older(program);
    return false;
  }

  // One at a time: a restore looks whether the PIDs are free that it needs.
  void restore_in_turns() {
    std::vector<uid_t> users;
    for (const Program &p : programs_) users.push_back(p.image().owner.value_or(::geteuid()));
    InTurns turns(
        std::move(users), {.slots = 1, .user_time = options_.user_time},
        {.start = [this](size_t i) { return start(programs_[i]); },
         .ended = [this](size_t i, int status) { return ended(programs_[i], status); },
         .failed = [this](size_t i, const std::string &why) { give_up(programs_[i], why); },
         .kill_children = true});
    turns.run([] { return false; });
  }

  Result<pid_t> start(Program &program) const {
    const SavedImage &image = program.image();
    program.out.reset(::memfd_create("ckpt-restore-pid", MFD_CLOEXEC));
    program.err.reset(::memfd_create("ckpt-restore-errors", MFD_CLOEXEC));
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    Spawn spec{.argv = {sibling_tool("ckpt-restore"), "--detach", "--output", image.path + ".out",
                        image.path},
               .in = null.get(),
               .out = program.out.get(),
               .err = program.err.get()};
    if (!options_.key_file.empty() && image.encrypted)
      spec.argv.insert(spec.argv.end(), {"--key-file", options_.key_file});
    spec.argv.insert(spec.argv.end(), options_.options.begin(), options_.options.end());
    return spawn(spec);
  }

  // True: the next older image is to be tried, because this one is damaged.
  bool ended(Program &program, int status) {
    const SavedImage &image = program.image();
    pid_t pid = std::atoi(output_in(program.out.get(), kMaxOutput).c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && pid > 0) {
      restored_++;
      say("restored", image, fmt::format("PID {}", pid));
      return skip_older(program), false;
    }
    std::string text = output_in(program.err.get(), kMaxOutput);
    text.resize(text.find_last_not_of('\n') + 1);
    bool is_last = program.tried + 1 == program.images.size();
    if (is_last || !is_damaged(image)) return give_up(program, text), false;
    skip(image, "damaged; the next older one is used: " + text);
    program.tried++;
    return true;
  }

  void give_up(const Program &program, const std::string &why) {
    fail(program.image(), why);
    skip_older(program);
  }

  void skip_older(const Program &program) {
    for (size_t i = program.tried + 1; i < program.images.size(); i++)
      skip(program.images[i], "there is a newer one");
  }

  bool is_damaged(const SavedImage &image) const {
    auto reader = storage::ImageReader::open(image.path, {.key = key_or_null()});
    return !reader || !(*reader)->verify(storage::ImageReader::Depth::Stored).ok();
  }

  static void say(const char *what, const SavedImage &image, const std::string &more) {
    std::string name = printable(image.path);
    std::string program = image.program.empty() ? "" : value_text(image.program, 60);
    print("{:<8}  {}  {}{}{}\n", what, name, program, program.empty() ? "" : ": ", more);
    std::fflush(stdout);  // the next one may take minutes
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
  std::vector<Program> programs_;
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

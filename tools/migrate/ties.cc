// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/ties.h"

#include <filesystem>

#include "tools/proc/process.h"
#include "tools/session/series.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// The options of ckpt-run and ckpt-restore, with their values. The program's own follow.
std::vector<std::string> own_words(const KeeperCommand &k) {
  std::vector<std::string> own;
  for (size_t i = 1; i < k.words.size() && k.words[i] != "--" && k.words[i] != k.program; i++)
    own.push_back(k.words[i]);
  return own;
}

bool has_option(const std::vector<std::string> &words, const std::string &option) {
  for (const std::string &w : words)
    if (w == option || w.starts_with(option + "=")) return true;
  return false;
}

bool is_series(const std::string &path) {
  std::error_code ec;
  return fs::is_directory(path, ec) && !fs::exists(path + "/index.ckpt", ec) &&
         Series::has_images(path);
}

bool restores_series(const KeeperCommand &k, const std::vector<std::string> &words) {
  if (k.words.empty() || fs::path(k.words[0]).filename() != "ckpt-restore") return false;
  for (const std::string &w : words)
    if (!w.starts_with('-') && is_series(fs::path(k.folder) / w)) return true;
  return false;
}

}  // namespace

KeeperCommand command_of_keeper(pid_t keeper, pid_t program) {
  std::vector<std::string> of_program = arguments_of(program);
  return {.words = arguments_of(keeper),
          .folder = working_folder_of(keeper),
          .image_variable = environment_of(keeper, "CKPT_IMAGE"),
          .program = of_program.empty() ? "" : of_program.front()};
}

Result<> refuse_ties(const KeeperCommand &k) {
  std::vector<std::string> words = own_words(k);
  if (has_option(words, "--job"))
    return fail_with_hint("the program is a member of a job, which is restored as one (--job)",
                          "checkpoint the job with ckpt-dump --job, and restore it there");
  bool from_run = !k.words.empty() && fs::path(k.words[0]).filename() == "ckpt-run";
  if (has_option(words, "--image") || (from_run && !k.image_variable.empty()) ||
      restores_series(k, words))
    return fail_with_hint(
        "the program has a series of images (--image), from which it would be started here again",
        "checkpoint it with ckpt-dump, and restore it there with ckpt-restore");
  return {};
}

}  // namespace ckpt::tools

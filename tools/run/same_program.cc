// SPDX-License-Identifier: Apache-2.0
#include "tools/run/same_program.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/ranges.h>

#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/log.h"
#include "common/base/program.h"
#include "storage/read/image_reader.h"
#include "tools/job/create_once.h"
#include "tools/json_text.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string one_line(const std::vector<std::string> &words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// The same words with another PATH may be another program.
std::string described(const std::vector<std::string> &command) {
  std::error_code ec;
  std::string program = find_program(command.front());
  fs::path absolute = fs::canonical(program, ec);
  return json_text(json{{"program", ec ? program : absolute.string()},
                        {"command", command},
                        {"folder", fs::current_path(ec).string()}}) +
         "\n";
}

// The first word that names a file here, and in the folder of the first start another one or none:
// `python train.py` is another program in each folder. Images of earlier versions note no folder.
std::string word_for_other_file(const std::vector<std::string> &command, const fs::path &folder) {
  std::error_code ec;
  if (folder.empty()) return {};
  for (const std::string &word : command)
    if (fs::path(word).is_relative() && fs::is_regular_file(word, ec) &&
        !fs::equivalent(word, folder / word, ec))
      return word;
  return {};
}

bool same_command(json held, json ours) {
  held.erase("folder");
  ours.erase("folder");
  return held == ours;
}

void warn_if_another(const std::string &image, const std::vector<std::string> &command) {
  Result<std::unique_ptr<storage::ImageReader>> reader = storage::ImageReader::open(image);
  if (!reader) return;
  std::vector<std::string> held = json_strings(json_list((*reader)->manifest(), "argv"));
  if (held.empty() || held == command) return;
  log::warn("continuing {}, which holds {}", image, one_line(held));
}

}  // namespace

Result<> note_command(const std::string &file, const std::vector<std::string> &command) {
  std::string text = described(command);
  return replace_file(file, view(text));
}

Result<> check_same_command(const Continued &what, const std::vector<std::string> &command) {
  std::ifstream in(what.file);
  std::string noted{std::istreambuf_iterator<char>(in), {}}, ours = described(command);
  json held = parse_json(noted);
  if (!held.is_object()) return warn_if_another(what.image, command), Result<>();
  if (same_command(held, parse_json(ours))) {
    std::string folder = json_string(held, "folder"), word = word_for_other_file(command, folder);
    if (word.empty()) return {};
    return fail_with_hint(
        fmt::format("{} holds images of {}, started in {}, where {} is another file", what.folder,
                    one_line(command), folder, word),
        fmt::format("start it from that folder, or name another folder with {}", what.option));
  }
  std::string theirs = one_line(json_strings(json_list(held, "command")));
  std::string program = json_string(held, "program");
  return fail_with_hint(
      theirs == one_line(command) ? fmt::format("{} holds images of {}, and not of this {}",
                                                what.folder, program, command.front())
                                  : fmt::format("{} holds images of {}, and not of {}", what.folder,
                                                theirs, one_line(command)),
      fmt::format("name another folder with {}, or remove this one to start from the beginning",
                  what.option));
}

}  // namespace ckpt::tools

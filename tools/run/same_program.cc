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

std::string one_line(const std::vector<std::string> &words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// The same words in another folder, or with another PATH, may be another program.
std::string described(const std::vector<std::string> &command) {
  std::error_code ec;
  std::string program = find_program(command.front());
  std::filesystem::path absolute = std::filesystem::canonical(program, ec);
  return json_text(json{{"program", ec ? program : absolute.string()}, {"command", command}}) +
         "\n";
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
  if (noted == ours) return {};
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

// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/tag.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "tools/session/job_comment.h"

namespace ckpt::tools {
namespace {

constexpr double kMost = 1e12;
// What earlier versions of ckpt-schedd recorded in comments.
constexpr std::string_view kFormerly[] = {"done",  "at",      "slow",    "placed",
                                          "until", "leaving", "planned", "stays"};

Result<double> number(std::string_view name, std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > kMost)
    return fail("{}={} is not a number", name, text);
  return value;
}

Result<> set(Tag &tag, std::string_view name, std::string_view value) {
  if (name == "held") {
    tag.held = true;
  } else if (name == "seconds") {
    CKPT_TRY(tag.seconds, number(name, value));
    if (*tag.seconds <= 0) return fail("seconds={} is not a run time", value);
  } else if (name == "mb") {
    CKPT_TRY(tag.megabytes, number(name, value));
  } else if (name == "compile") {
    CKPT_TRY(tag.compile, number(name, value));
  } else if (name == "wait") {
    CKPT_TRY(tag.wait, number(name, value));
  } else if (name == "memory_gb") {
    CKPT_TRY(tag.memory_gb, number(name, value));
  } else if (name == "host_to_device_gb") {
    CKPT_TRY(tag.host_to_device_gb, number(name, value));
  } else if (name == "device_to_host_gb") {
    CKPT_TRY(tag.device_to_host_gb, number(name, value));
  } else if (std::ranges::find(kFormerly, name) != std::end(kFormerly)) {
    return {};
  } else {
    return fail("{} is not known", name);
  }
  return {};
}

}  // namespace

Result<std::optional<Tag>> parse_tag(std::string_view comment) {
  constexpr std::string_view kMark = "ckpt";
  comment = without_note(comment);
  if (!comment.starts_with(kMark)) return std::optional<Tag>();
  comment.remove_prefix(kMark.size());
  if (comment.empty()) return std::optional(Tag{});
  if (comment[0] != ':') return std::optional<Tag>();
  comment.remove_prefix(1);
  Tag tag;
  while (!comment.empty()) {
    std::string_view word = comment.substr(0, comment.find(','));
    comment.remove_prefix(std::min(word.size() + 1, comment.size()));
    size_t equals = std::min(word.find('='), word.size());
    CKPT_CHECK(set(tag, word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))));
  }
  if (tag.may_share() && !tag.seconds)
    return fail(
        "memory_gb, host_to_device_gb and device_to_host_gb need seconds, the run time alone");
  return std::optional(tag);
}

std::string text_of(const Tag &tag) {
  std::string words;
  auto add = [&](const std::string &word) { words += (words.empty() ? ":" : ",") + word; };
  if (tag.seconds) add(fmt::format("seconds={}", *tag.seconds));
  if (tag.megabytes) add(fmt::format("mb={}", *tag.megabytes));
  if (tag.compile) add(fmt::format("compile={}", *tag.compile));
  if (tag.wait) add(fmt::format("wait={}", *tag.wait));
  if (tag.memory_gb) add(fmt::format("memory_gb={}", *tag.memory_gb));
  if (tag.host_to_device_gb) add(fmt::format("host_to_device_gb={}", *tag.host_to_device_gb));
  if (tag.device_to_host_gb) add(fmt::format("device_to_host_gb={}", *tag.device_to_host_gb));
  if (tag.held) add("held");
  return "ckpt" + words;
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/tag.h"

#include <charconv>

namespace ckpt::tools {
namespace {

constexpr double kMost = 1e12;

template <class T>
Result<T> number(std::string_view name, std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) ||
      static_cast<double>(value) > kMost)
    return fail("{}={} is not a number", name, text);
  return value;
}

Result<> set(Tag &tag, std::string_view name, std::string_view value) {
  if (name == "held") {
    tag.held = true;
  } else if (name == "stays") {
    tag.stays = true;
  } else if (name == "seconds") {
    CKPT_TRY(tag.seconds, number<double>(name, value));
    if (*tag.seconds <= 0) return fail("seconds={} is not a run time", value);
  } else if (name == "mb") {
    CKPT_TRY(tag.megabytes, number<double>(name, value));
  } else if (name == "compile") {
    CKPT_TRY(tag.compile, number<double>(name, value));
  } else if (name == "wait") {
    CKPT_TRY(tag.wait, number<double>(name, value));
  } else if (name == "memory_gb") {
    CKPT_TRY(tag.memory_gb, number<double>(name, value));
  } else if (name == "host_to_device_gb") {
    CKPT_TRY(tag.host_to_device_gb, number<double>(name, value));
  } else if (name == "device_to_host_gb") {
    CKPT_TRY(tag.device_to_host_gb, number<double>(name, value));
  } else if (name == "done") {
    CKPT_TRY(tag.done, number<double>(name, value));
    tag.done = std::min(tag.done, 1.0);
  } else if (name == "at") {
    CKPT_TRY(tag.at, number<i64>(name, value));
  } else if (name == "slow") {
    CKPT_TRY(tag.slow, number<double>(name, value));
    tag.slow = std::max(*tag.slow, 1.0);
  } else if (name == "placed") {
    CKPT_TRY(tag.placed, number<i64>(name, value));
  } else if (name == "until") {
    CKPT_TRY(tag.until, number<i64>(name, value));
  } else if (name == "leaving") {
    CKPT_TRY(tag.leaving, number<i64>(name, value));
  } else if (name == "planned") {
    CKPT_TRY(tag.planned, number<double>(name, value));
  } else {
    return fail("{} is not known", name);
  }
  return {};
}

}  // namespace

Result<std::optional<Tag>> parse_tag(std::string_view comment) {
  constexpr std::string_view kMark = "ckpt";
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

void Tag::forget_nodes() {
  at = placed = until = leaving = {};
  slow.reset();
  planned.reset();
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
  if (tag.done > 0) add(fmt::format("done={:.4f}", tag.done));
  if (tag.at) add(fmt::format("at={}", *tag.at));
  if (tag.slow) add(fmt::format("slow={:.2f}", *tag.slow));
  if (tag.placed) add(fmt::format("placed={}", *tag.placed));
  if (tag.until) add(fmt::format("until={}", *tag.until));
  if (tag.leaving) add(fmt::format("leaving={}", *tag.leaving));
  if (tag.planned) add(fmt::format("planned={:.1f}", *tag.planned));
  if (tag.stays) add("stays");
  return "ckpt" + words;
}

}  // namespace ckpt::tools

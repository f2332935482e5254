// SPDX-License-Identifier: Apache-2.0
#include "tools/error_json.h"

#include <fcntl.h>

#include <string_view>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

// What as_list() puts in front of each. No reason contains it, because printable() escapes line
// breaks.
constexpr std::string_view kMark = "\n  - ";
constexpr int kSignal = 128;

std::string kind_of(const Reasons &reasons, int code) {
  if (code > kSignal) return "cancelled";
  return reasons.empty() ? "failed" : "refused";
}

}  // namespace

Reasons reasons_in(const std::string &what) {
  Reasons reasons;
  for (size_t at = what.find(kMark); at != what.npos;) {
    size_t begin = at + kMark.size(), end = what.find(kMark, begin);
    reasons.push_back(what.substr(begin, end == what.npos ? end : end - begin));
    at = end;
  }
  return reasons;
}

nlohmann::json error_report(const Error &error, int code, const std::string &kind) {
  Reasons reasons = reasons_in(error.what);
  return {{"error",
           {{"what", error.what},
            {"hint", error.hint},
            {"reasons", reasons},
            {"kind", kind.empty() ? kind_of(reasons, code) : kind},
            {"code", code}}}};
}

void write_error_report(const std::string &path, const Error &error, int code,
                        const std::string &kind) {
  if (path.empty()) return;
  Result<UniqueFd> out = open_output(path, O_TRUNC, 0666);
  Result<> written =
      out ? write_all(out->get(), view(json_text(error_report(error, code, kind)) + "\n"))
          : Result<>(Failure(out.error()));
  if (!written) log::warn("the report was not written: {}", written.error().text());
}

int fail_with_report(const std::string &path, int code, const Error &error) {
  write_error_report(path, error, code, code == kWrongUsage ? kUsage : "");
  return fail_with_code(code, error);
}

Result<int> with_report(Result<int> code, const std::string &path, int failed) {
  if (!code) write_error_report(path, code.error(), failed);
  return code;
}

int run_tool_with_json(CommandLine &line, int argc, const char *const *argv, int failed,
                       const bool &as_json, const std::function<Result<int>()> &run) {
  return run_tool(line, argc, argv, failed, [&] {
    Result<int> code = run();
    if (!code && as_json) print_text(json_text(error_report(code.error(), failed), 2) + "\n");
    return code;
  });
}

}  // namespace ckpt::tools

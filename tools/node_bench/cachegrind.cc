// SPDX-License-Identifier: Apache-2.0
#include "tools/node_bench/cachegrind.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "tools/node_bench/measured_run.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kWays = 16, kLine = 64;

struct TemporaryFolder {
  explicit TemporaryFolder(std::string p) : path(std::move(p)) {}
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

// What follows `mark` at the begin of a line.
std::string_view line_after(std::string_view file, std::string_view mark) {
  for (size_t at = file.find(mark); at != file.npos; at = file.find(mark, at + 1))
    if (at == 0 || file[at - 1] == '\n') {
      std::string_view line = file.substr(at + mark.size());
      return line.substr(0, line.find('\n'));
    }
  return {};
}

// Only these lines of a file are kept: the rest has a line for each line of the program's source.
std::string summary_of(const fs::path &path) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("events:") || line.starts_with("summary:")) kept += line + "\n";
  return kept;
}

std::vector<std::string> command_of(const std::vector<std::string> &program, u64 cache_bytes,
                                    const std::string &folder) {
  std::vector<std::string> command = {"valgrind",
                                      "-q",
                                      "--tool=cachegrind",
                                      "--cache-sim=yes",
                                      "--trace-children=yes",
                                      fmt::format("--cachegrind-out-file={}/%p", folder)};
  if (cache_bytes)
    command.push_back(fmt::format("--LL={},{},{}", std::bit_floor(cache_bytes), kWays, kLine));
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

}  // namespace

Result<u64> misses_in(std::string_view file) {
  std::vector<std::string_view> names = words_of(line_after(file, "events:"));
  std::vector<std::string_view> counts = words_of(line_after(file, "summary:"));
  u64 misses = 0;
  for (std::string_view name : {"ILmr", "DLmr", "DLmw"}) {
    auto i = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (i >= std::min(names.size(), counts.size()))
      return fail("cachegrind has written no count of {}", name);
    u64 count = 0;
    auto [end, error] =
        std::from_chars(counts[i].data(), counts[i].data() + counts[i].size(), count);
    if (error != std::errc()) return fail("cachegrind's count {} is not a number", counts[i]);
    misses += count;
  }
  return misses;
}

Result<> find_cachegrind() {
  CKPT_TRY(CommandResult found, run_command({"valgrind", "--tool=cachegrind", "--version"}, ""));
  if (found.exit_code == 0) return {};
  return fail("valgrind --version ended with exit code {}", found.exit_code);
}

Result<u64> simulated_misses(const std::vector<std::string> &program, u64 cache_bytes) {
  std::string path = (fs::temp_directory_path() / "ckpt-cachegrind-XXXXXX").string();
  if (!::mkdtemp(path.data())) return fail_errno("cannot create the folder {}", path);
  TemporaryFolder folder(path);
  CKPT_CHECK(measured_run(
      {.argv = command_of(program, cache_bytes, path), .out = STDERR_FILENO, .die_with_us = true}));
  u64 misses = 0;
  for (const fs::directory_entry &file : fs::directory_iterator(path)) {
    CKPT_TRY(u64 of_process, misses_in(summary_of(file.path())));
    misses += of_process;
  }
  return misses;
}

}  // namespace ckpt::tools

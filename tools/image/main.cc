// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image: shows, verifies, compares, copies and removes images, which are untrusted input.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <optional>

#include "common/base/print.h"
#include "storage/io/key_file.h"
#include "storage/ops/receive.h"
#include "tools/command_line.h"
#include "tools/error_json.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/session/periodic.h"

namespace ckpt::tools {
namespace {

constexpr int kDifferent = 1;
constexpr int kFailed = 1;
constexpr int kDiffFailed = 2;  // as in diff(1)

struct Options {
  std::string image, other, stream, key_file;
  bool shared_key = false, json = false, streams = false, every_byte = false, quiet = false,
       overwrite = false;
  size_t keep = 0;
  std::vector<std::string> images;  // of rm
  bool dry_run = false, recursive = false;
  Retention rules;
  u64 max_size = 0;  // 0: not given
  std::string within, unused, by = "program";
  std::optional<storage::Key> key;

  const storage::Key *key_or_null() const { return key ? &*key : nullptr; }
  RemovalOptions removal() const { return {dry_run, json, key_or_null()}; }
  storage::ReadOptions reading() const { return {.key = key_or_null()}; }
};

void print_json(const nlohmann::json &j) { print_text(json_text(j, 2) + "\n"); }

Result<int> run_show(const Options &o) {
  CKPT_TRY(auto image, storage::ImageReader::open(o.image, o.reading()));
  if (!o.stream.empty()) {
    CKPT_CHECK(extract(*image, o.stream, STDOUT_FILENO));
  } else if (o.json) {
    print_json(show_json(*image));
  } else {
    print_text(show_text(*image, o.streams));
  }
  return 0;
}

Result<int> run_verify(const Options &o) {
  CKPT_TRY(auto image, storage::ImageReader::open(o.image, o.reading()));
  return verify(*image, o.quiet, o.json);
}

Result<int> run_diff(const Options &o) {
  CKPT_TRY(auto a, storage::ImageReader::open(o.image, o.reading()));
  CKPT_TRY(auto b, storage::ImageReader::open(o.other, o.reading()));
  CKPT_TRY(Difference d, diff(*a, *b));
  if (o.json)
    print_json(d.json);
  else
    print_text(d.text);
  return d.same ? 0 : kDifferent;
}

Result<int> run_flatten(const Options &o) {
  CKPT_TRY(auto image, storage::ImageReader::open(o.image, o.reading()));
  bool in_place = o.other.empty();
  CKPT_CHECK(
      flatten(*image, in_place ? o.image : o.other, in_place || o.overwrite, o.key_or_null()));
  return 0;
}

Result<int> run_receive(const Options &o) {
  CKPT_CHECK(storage::receive_image(STDIN_FILENO, o.image, o.overwrite, o.reading()));
  return 0;
}

Result<int> run_prune(const Options &o) {
  CKPT_CHECK(prune(o.image, o.keep, o.json, o.key_or_null()));
  return 0;
}

Result<int> run_list(const Options &o) {
  return list(o.image.empty() ? "." : o.image, {.json = o.json,
                                                .recursive = o.recursive,
                                                .every_byte = o.every_byte,
                                                .key = o.key_or_null()});
}

Result<int> run_rm(const Options &o) {
  CKPT_CHECK(remove_images(o.images, o.removal()));
  return 0;
}

Result<int> run_keep(const Options &o) {
  KeepOptions keeping{
      .rules = {.times = o.rules, .by = o.by == "folder" ? CountedBy::Folder : CountedBy::Program},
      .recursive = o.recursive,
      .removal = o.removal()};
  if (o.max_size > 0) keeping.rules.most_bytes = o.max_size;
  if (!o.within.empty()) {
    CKPT_TRY(keeping.rules.times.within, parse_duration(o.within));
  }
  if (!o.unused.empty()) {
    CKPT_TRY(Seconds unused, parse_duration(o.unused));
    keeping.rules.unused_since = ::time(nullptr) - static_cast<time_t>(unused.count());
  }
  return keep(o.image, keeping);
}

Result<int> run_clean(const Options &o) {
  CKPT_CHECK(clean(o.image.empty() ? "." : o.image, o.json));
  return 0;
}

Result<> read_key(Options &o) {
  if (o.key_file.empty()) return {};
  CKPT_TRY(o.key, storage::read_key(o.key_file, o.shared_key ? storage::KeyAccess::Shared
                                                             : storage::KeyAccess::Private));
  return {};
}

// One command, and the exit code of its failures.
struct Command {
  CommandLine line;
  std::function<Result<int>(const Options &)> run;
  int failed = kFailed;
  bool names_damages = false;  // in its JSON
};

CommandLine add_keep(CommandLine &line, Options &o) {
  CommandLine keep = line.command(
      "keep", "remove the images of a folder that no rule keeps, and that no other image needs");
  keep.option("FOLDER", o.image, "the folder with the images").required();
  struct Rule {
    const char *names, *help;
    unsigned &count;
  };
  for (const Rule &rule :
       {Rule{"--last=N", "keep the N newest", o.rules.last},
        Rule{"--hourly=N", "keep the newest of each of the last N hours with one", o.rules.hourly},
        Rule{"--daily=N", "keep the newest of each of the last N days with one", o.rules.daily},
        Rule{"--weekly=N", "keep the newest of each of the last N weeks with one", o.rules.weekly},
        Rule{"--monthly=N", "keep the newest of each of the last N months with one",
             o.rules.monthly}})
    keep.option(rule.names, rule.count, rule.help).range(1, 1000000).default_is("");
  auto why_no_duration = [](const std::string &text) {
    Result<Seconds> duration = parse_duration(text);
    return duration ? "" : duration.error().text();
  };
  keep.option("--within=DURATION", o.within,
              "keep what is at most this much older than the newest: 12h, 7d, 1d12h")
      .refuse_unless(why_no_duration);
  keep.option("--unused=DURATION", o.unused,
              "keep nothing of a program if its newest image is older than this: it has finished, "
              "or its job was cancelled")
      .refuse_unless(why_no_duration);
  keep.size_option("--max-size=SIZE", o.max_size,
                   "what the kept images of a folder may take on the disk: beyond it, the oldest "
                   "that no other one needs go, but never the newest")
      .range(1.0, 1e18)
      .default_is("");
  keep.option("--by=WHAT", o.by, "count the images of each program, or all in a folder together")
      .one_of({"program", "folder"});
  keep.flag("-r,--recursive", o.recursive, "do the same in each folder below it");
  return keep;
}

std::vector<Command> add_commands(CommandLine &line, Options &o) {
  CommandLine show = line.command("show", "show what an image contains");
  show.flag("--streams", o.streams, "list every stream");
  show.option("--extract=STREAM", o.stream, "write the bytes of this stream to standard output");

  CommandLine verify = line.command(
      "verify",
      "read and check every byte; exit code 0: undamaged, 1: damaged, or it cannot be restored");
  verify.flag("-q,--quiet", o.quiet, "show no progress, and print only damage");

  CommandLine diff =
      line.command("diff", "compare two images; exit code 0: no difference, 1: differences");

  CommandLine flatten =
      line.command("flatten", "turn an increment into an image that needs no parent");
  flatten.option("-o,--output=IMAGE", o.other, "the new image; -: standard output")
      .default_is("in place");

  CommandLine receive = line.command("receive", "create an image from a pipe (standard input)");

  CommandLine prune = line.command("prune", "remove the older images of a chain");
  prune.option("--keep=N", o.keep, "how many images to keep").required().range(1, 1000000);

  CommandLine list = line.command(
      "list", "list the images in a folder; exit code 1: one is damaged or cannot be restored");
  list.option("FOLDER", o.image, "the folder with the images").default_is("the current folder");
  list.flag("--verify", o.every_byte,
            "check every stored byte, and whether a restore could succeed, not only that each file "
            "is whole");

  list.flag("-r,--recursive", o.recursive, "list the folders below it, too");

  CommandLine rm = line.command("rm", "remove images, but none that another image needs");
  rm.repeated("IMAGE", o.images, "the folders of the images").required();
  CommandLine keep = add_keep(line, o);
  for (CommandLine *c : {&rm, &keep})
    c->flag("-n,--dry-run", o.dry_run, "only say what would be removed");
  for (CommandLine *c : {&list, &rm, &keep}) {
    c->option("--key-file=FILE", o.key_file, "the file with the key of encrypted images");
    c->flag("--shared-key", o.shared_key, "accept a key file that other users can read");
  }

  CommandLine clean = line.command("clean", "remove what killed tools have left behind");
  clean.option("FOLDER", o.image, "also remove partial images here")
      .default_is("the current folder");

  for (CommandLine *c : {&flatten, &receive})
    c->flag("--overwrite", o.overwrite, "replace an existing image");
  for (CommandLine *c : {&show, &list, &verify, &diff, &prune, &rm, &keep, &clean})
    c->flag("--json", o.json, "report as one JSON object");
  for (CommandLine *c : {&show, &verify, &diff, &flatten, &receive, &prune}) {
    c->option("IMAGE", o.image, "the image's folder").required();
    c->option("--key-file=FILE", o.key_file, "the file with the key of an encrypted image");
    c->flag("--shared-key", o.shared_key, "accept a key file that other users can read");
  }
  diff.option("SECOND", o.other, "the folder of the second image").required();

  std::vector<Command> all;
  all.push_back({std::move(show), run_show});
  all.push_back({std::move(list), run_list});
  all.push_back({std::move(verify), run_verify, kFailed, true});
  all.push_back({std::move(diff), run_diff, kDiffFailed});
  all.push_back({std::move(flatten), run_flatten});
  all.push_back({std::move(receive), run_receive});
  all.push_back({std::move(prune), run_prune});
  all.push_back({std::move(rm), run_rm});
  all.push_back({std::move(keep), run_keep});
  all.push_back({std::move(clean), run_clean});
  return all;
}

Result<int> execute(const Command &c, Options &o) {
  CKPT_CHECK(read_key(o));
  return c.run(o);
}

nlohmann::json failure_json(const Command &c, const Options &o, const Error &e) {
  nlohmann::json j = error_report(e, c.failed);
  if (c.names_damages) j.update({{"image", o.image}, {"ok", false}, {"damages", {e.what}}});
  return j;
}

int run(const std::vector<Command> &commands, Options &o) {
  for (const Command &c : commands) {
    if (!c.line.given()) continue;
    Result<int> code = execute(c, o);
    if (code) return *code;
    // A message may quote names from the image, which is untrusted.
    const Error &e = code.error();
    if (o.json) print_json(failure_json(c, o, e));
    return fail_with_code(c.failed, {printable_lines(e.what), printable(e.hint)});
  }
  return kWrongUsage;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  CommandLine line("ckpt-image",
                   "Lists, shows, verifies, compares, copies and removes images of ckpt-dump.\n"
                   "Exit code 125: the arguments are wrong; ckpt-image(1) lists the others.");
  Options o;
  std::vector<Command> commands = add_commands(line, o);
  return run_tool(line, argc, argv, kFailed, [&] { return run(commands, o); });
}

// SPDX-License-Identifier: Apache-2.0
//
// ckpt-image: looks into images, and keeps them in order. Trusts nothing that stands in them.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <optional>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "storage/io/key_file.h"
#include "storage/ops/receive.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"

namespace ckpt::tools {
namespace {

constexpr int kDifferent = 1;
constexpr int kFailed = 1;  // or damaged
constexpr int kUsage = 2;
constexpr int kDiffFailed = 2;  // as diff(1)

struct Options {
  std::string image, other, stream, key_file;
  bool json = false, streams = false, quiet = false, overwrite = false;
  size_t keep = 0;
  std::optional<storage::Key> key;

  const storage::Key *key_or_null() const { return key ? &*key : nullptr; }
  storage::ReadOptions reading() const { return {.key = key_or_null()}; }
};

void print_json(const nlohmann::json &j) {
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Result<int> run_show(const Options &o) {
  CKPT_TRY(auto image, storage::ImageReader::open(o.image, o.reading()));
  if (!o.stream.empty()) {
    CKPT_CHECK(extract(*image, o.stream, STDOUT_FILENO));
  } else if (o.json) {
    print_json(show_json(*image));
  } else {
    fmt::print("{}", show_text(*image, o.streams));
  }
  return 0;
}

Result<int> run_verify(const Options &o) {
  auto image = storage::ImageReader::open(o.image, o.reading());
  if (!image && o.json)
    print_json({{"image", o.image}, {"ok", false}, {"damages", {image.error().what}}});
  if (!image) return Failure(std::move(image).error());
  return verify(**image, o.quiet, o.json);
}

Result<int> run_diff(const Options &o) {
  CKPT_TRY(auto a, storage::ImageReader::open(o.image, o.reading()));
  CKPT_TRY(auto b, storage::ImageReader::open(o.other, o.reading()));
  CKPT_TRY(Difference d, diff(*a, *b));
  if (o.json)
    print_json(d.json);
  else
    fmt::print("{}", d.text);
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

Result<> read_key(Options &o) {
  if (o.key_file.empty()) return {};
  CKPT_TRY(o.key, storage::read_key(o.key_file));
  return {};
}

int report(Result<int> r, int failed = kFailed) {
  if (r) return *r;
  // Messages name files and streams of the image: hostile text, too.
  log::error(Error{for_terminal(r.error().what), for_terminal(r.error().hint)});
  return failed;
}

// One command: its options, and what carries it out.
struct Command {
  CLI::App *app;
  std::function<Result<int>(const Options &)> run;
  int failed = kFailed;
};

std::vector<Command> add_commands(CLI::App &app, Options &o) {
  CLI::App *show = app.add_subcommand("show", "what an image holds");
  show->add_flag("--streams", o.streams, "every stream too");
  show->add_option("--extract", o.stream, "write this stream's bytes to standard output");

  CLI::App *verify =
      app.add_subcommand("verify", "read and check every byte; 0: whole, 1: damaged");
  verify->add_flag("-q,--quiet", o.quiet, "no progress");

  CLI::App *diff = app.add_subcommand("diff", "what differs; 0: nothing, 1: something");

  CLI::App *flatten = app.add_subcommand("flatten", "make an increment whole: it needs no parent");
  flatten->add_option("-o,--output", o.other,
                      "a new image (default: in place); -: to standard output");

  CLI::App *receive = app.add_subcommand("receive", "make an image of what comes from a pipe");

  CLI::App *prune = app.add_subcommand("prune", "remove the older images of a chain");
  prune->add_option("--keep", o.keep, "how many to keep")
      ->required()
      ->check(CLI::Range(1, 1000000));

  for (CLI::App *c : {flatten, receive})
    c->add_flag("--overwrite", o.overwrite, "replace an existing image");
  for (CLI::App *c : {show, verify, diff, prune})
    c->add_flag("--json", o.json, "report as one JSON object");
  for (CLI::App *c : {show, verify, diff, flatten, receive, prune}) {
    c->add_option("image", o.image, "the image's folder")->required();
    c->add_option("--key-file", o.key_file, "the key of an encrypted image");
  }
  diff->add_option("second", o.other, "another's")->required();
  return {{show, run_show},       {verify, run_verify},   {diff, run_diff, kDiffFailed},
          {flatten, run_flatten}, {receive, run_receive}, {prune, run_prune}};
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  log::set_name("ckpt-image");
  Options o;
  CLI::App app{"Looks into images that ckpt-dump wrote, copies them and removes old ones."};
  app.set_version_flag("--version", CKPT_VERSION);
  app.require_subcommand(1);
  std::vector<Command> commands = add_commands(app, o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  for (const Command &c : commands) {
    if (!c.app->parsed()) continue;
    Result<> key = read_key(o);
    return report(key ? c.run(o) : Failure(key.error()), c.failed);
  }
}

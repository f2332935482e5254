// SPDX-License-Identifier: Apache-2.0
//
// ckpt-migrate: moves a running program to another machine.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/print.h"
#include "tools/command_line.h"
#include "tools/device/apis.h"
#include "tools/error_json.h"
#include "tools/json_text.h"
#include "tools/migrate/move.h"
#include "tools/migrate/move_picture.h"
#include "tools/migrate/move_print.h"
#include "tools/migrate/receiver.h"
#include "tools/migrate/settle_move.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kInDoubt = 4;

struct Options {
  MoveOptions move;
  std::optional<int> pid;
  std::string finish, take_back, to_device;
  bool force = false, detach = false, list = false, receive = false, verbose = false;
};

int fail_run(const Error &error, const Options &o, int code) {
  if (o.move.json) print("{}\n", json_text(error_report(error, code)));
  return fail_with_code(code, error);
}

Error doubt(const Move &move, Error why) {
  why.what = fmt::format(
      "the program was given away, and the other machine has not said that it runs there: {}",
      why.what);
  why.hint = fmt::format(
      "it does not run here; ckpt-migrate --take-back {} restores it here if it does not run "
      "there, and --finish removes its images if it does",
      move.number());
  return why;
}

// The program runs there, whatever becomes of its picture.
void draw(const MoveReport &r, const std::string &file) {
  if (file.empty()) return;
  Result<UniqueFd> out = open_output(file, O_TRUNC, 0644);
  Result<> drawn = out ? write_all(out->get(), view(move_svg(r))) : Failure(out.error());
  if (!drawn) log::warn("the picture is not drawn: {}", drawn.error().text());
}

int run_move(const Options &o) {
  Cancel cancel;
  Move move(o.move, *o.pid, cancel);
  Result<MoveReport> r = move.run();
  if (!r && move.in_doubt()) return fail_run(doubt(move, r.error()), o, kInDoubt);
  if (!r) return fail_run(r.error(), o, cancel.signal() ? 128 + cancel.signal() : kFailed);
  draw(*r, o.move.svg);
  if (o.move.json)
    print("{}\n", json_text(as_json(*r)));
  else if (!o.move.quiet)
    print_report(*r);
  return 0;
}

// What is printed to standard output must not get between the frames.
Result<int> run_receive() {
  Cancel cancel;
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!in || !out || !null) return fail_errno("cannot use standard input and output");
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  Receiver receiver(FrameLink(std::move(in), std::move(out), [&] { return cancel.check(); }),
                    cancel);
  Result<> done = receiver.run();
  if (!done) log::info("{}", done.error().text());  // the other side reports it
  return done ? 0 : kFailed;
}

Result<int> run_finish(const Options &o) {
  Cancel cancel;
  return finish_move(o.finish, o.force, o.move, cancel).transform([] { return 0; });
}

// The processes stay: only their devices are others. So there is nothing to hand over, and a
// failure lets the program go on with its former devices.
Result<int> run_to_device(const Options &o) {
  return become_program({sibling_tool("ckpt-restore"), fmt::format("--resume={}", *o.pid),
                         fmt::format("--device={}", o.to_device)});
}

// ckpt-restore takes the place of this process, as the keeper of the program.
Result<int> run_take_back(const Options &o) {
  TakenBack back;
  {
    Cancel cancel;
    CKPT_TRY(back, take_back(o.take_back, o.force, o.move, cancel));
  }
  if (back.runs) {
    print("the program was never ended here, and goes on; its image is {}\n", back.image);
    return 0;
  }
  std::vector<std::string> argv{sibling_tool("ckpt-restore"), back.image};
  if (o.detach) argv.emplace_back("--detach");
  if (!o.move.key_file.empty()) argv.insert(argv.end(), {"--key-file", o.move.key_file});
  if (!o.move.device.empty()) argv.insert(argv.end(), {"--device", o.move.device});
  return become_program(std::move(argv));
}

// What makes no sense with devices of this machine.
bool names_another_machine(const MoveOptions &m) {
  return !m.host.empty() || !m.device.empty() || !m.output.empty() || !m.key_file.empty() ||
         !m.svg.empty() || m.max_downtime || m.keep || m.json || m.ignore_processor || m.with_files;
}

Result<> check(const Options &o) {
  int given = !o.finish.empty() + !o.take_back.empty() + o.list + o.receive;
  if (!o.to_device.empty() && (given > 0 || !o.pid || names_another_machine(o.move)))
    return fail_with_hint(
        "--to-device needs a PID, and cannot be combined with a host, nor with options of a move "
        "to another machine",
        "name only the process and the devices");
  if (given > 1 || (given == 1 && (o.pid || !o.move.host.empty())))
    return fail_with_hint(
        "--finish, --take-back, --list and --receive cannot be combined with each other, nor with "
        "a PID and a host",
        "leave all but one of them out");
  if (given == 0 && o.to_device.empty() && (!o.pid || o.move.host.empty()))
    return fail_with_hint("PID and HOST are needed",
                          "name a process of the program (ckpt-ps lists the programs), and the "
                          "machine that it is to go to");
  if (o.move.rsh.find_first_not_of(' ') == std::string::npos ||
      o.move.tool_there.find_first_not_of(' ') == std::string::npos)
    return fail_with_hint("--rsh and --tool-there need a command", "leave them out, or name one");
  return {};
}

Result<int> run(const Options &o) {
  if (o.verbose) log::set_level(log::Level::Info);
  if (Result<> sound = check(o); !sound) {
    if (o.move.json) print("{}\n", json_text(error_report(sound.error(), kWrongUsage, kUsage)));
    return fail_with_code(kWrongUsage, sound.error());
  }
  // A peer that ends is an error of write(2), not a signal.
  sigset_t pipe_signal;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &pipe_signal, nullptr);
  if (o.receive) return run_receive();
  if (!o.to_device.empty()) return run_to_device(o);
  if (o.list) return list_moves(o.move.json);
  if (!o.finish.empty()) return run_finish(o);
  if (!o.take_back.empty()) return run_take_back(o);
  return run_move(o);
}

void add_options(CommandLine &line, Options &o) {
  MoveOptions &m = o.move;
  line.option("PID", o.pid, "any process of the program, or its ckpt-run or ckpt-restore");
  line.option("HOST", m.host, "the machine that the program goes to: [USER@]HOST");
  line.option("--device=LIST", m.device, "devices there, as for ckpt-restore")
      .default_is("every device");
  line.option("--to-device=LIST", o.to_device,
              "instead of a HOST: let the program go on here, with these devices");
  line.option("--output=FILE", m.output, "the file there for output to a terminal or pipe")
      .default_is("ckpt-PID.out");
  line.option("--rounds=N", m.most_rounds,
              "at most how many copies are made while the program runs, before it is stopped")
      .range(0, 100);
  line.option("--max-downtime=SECONDS", m.max_downtime,
              "do not move the program if it would be stopped for longer")
      .range(0.001, 86400.0)
      .default_is("no limit");
  line.option("--rsh=COMMAND", m.rsh, "the command that leads to the other machine");
  line.option("--tool-there=COMMAND", m.tool_there, "ckpt-migrate on the other machine");
  line.option("--link-timeout=SECONDS", m.link_timeout,
              "seconds without any answer after which the connection counts as lost")
      .range(1, 3600);
  line.option("--timeout=SECONDS", m.timeout_seconds, "seconds to wait for running kernels")
      .range(1, 86400);
  line.option("--key-file=FILE", m.key_file, "encrypt the images with the key in this file");
  line.option("--key-file-there=FILE", m.key_file_there, "the same key on the other machine")
      .default_is("the same path");
  line.flag("--shared-key", m.shared_key, "accept a key file that other users can read");
  line.flag("--ignore-processor", m.ignore_processor,
            "move it to a processor that lacks instructions which the program may use");
  line.flag("--with-files", m.with_files,
            "move the libraries and other files that the program only reads with it, for a machine "
            "where they are missing or differ");
  line.flag("--keep", m.keep, "keep the images on both machines");
  line.option("--finish=MIGRATION", o.finish,
              "the program was given away and runs there: remove its images here");
  line.option("--take-back=MIGRATION", o.take_back,
              "the program was given away and does not run there: restore it here");
  line.flag("--force", o.force,
            "with --finish or --take-back: also if the other machine cannot be asked");
  line.flag("--detach", o.detach, "with --take-back: restore it in the background");
  line.flag("--list", o.list,
            "list the programs that were given away, as long as their images are here");
  line.flag("--receive", o.receive,
            "be the other machine, by standard input and output; images are kept in "
            "/var/lib/ckpt/migrations (root) or ~/.local/state/ckpt/migrations until the program "
            "runs");
  line.option("--svg=FILE", m.svg, "draw the rounds and the stop to this file");
  line.flag("--json", m.json, "report as one JSON object on standard output");
  line.flag("-q,--quiet", m.quiet, "print neither progress nor the report");
  line.flag("--verbose", o.verbose, "log every step");
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line(
      "ckpt-migrate",
      "Moves a running program (started by ckpt-run or ckpt-restore) to another machine.\n"
      "Exit code 0: it runs there; 1: it keeps running here; 4: it was given away, and whether it "
      "runs there is not known (--finish, --take-back); 125: the arguments are wrong.");
  add_options(line, o);
  return run_tool(line, argc, argv, kFailed, [&] { return run(o); });
}

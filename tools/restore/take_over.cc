// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/take_over.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/test_points.h"
#include "tools/migrate/decision_files.h"

namespace ckpt::tools {
namespace {

constexpr int kTickMs = 50;

Result<> say(int socket, char word) {
  return ::send(socket, &word, 1, MSG_NOSIGNAL) == 1 ? Result<>() : fail("ckpt-migrate has ended");
}

}  // namespace

void add_migration_options(CommandLine &line, MigrationOptions &o) {
  line.option("--needs=FILE", o.needs, "").hide();
  line.option("--take-over=FD", o.take_over, "").hide();
  line.option("--record=FOLDER", o.record, "").hide();
  line.flag("--stand-by", o.stand_by, "").hide();
}

Result<> refuse_given_away(const RestoreOptions &o) {
  std::optional<std::string> owner = owner_elsewhere(o.image);
  if (!owner) return {};
  return fail_with_hint(fmt::format("the program of {} was given away to {}", o.image, *owner),
                        "ckpt-migrate --list names the migration; ckpt-migrate --take-back takes "
                        "the program back if it does not run there");
}

std::optional<TakeOver> take_over_of(const MigrationOptions &o) {
  if (!o.take_over) return std::nullopt;
  return std::optional<TakeOver>(std::in_place, o.record, *o.take_over);
}

TakeOver::TakeOver(std::string folder, int connection)
    : folder_(std::move(folder)), connection_(connection) {
  ::fcntl(connection, F_SETFD, FD_CLOEXEC);  // neither CRIU nor the program may keep it open
}

Result<> TakeOver::take(pid_t root, const std::function<Result<>()> &check) {
  test_point("loaded");
  CKPT_CHECK(say(connection_.get(), 'R'));
  for (pollfd p{connection_.get(), POLLIN, 0}; ::poll(&p, 1, kTickMs) <= 0;) CKPT_CHECK(check());
  char word = 0;
  if (!read_exactly(connection_.get(), &word, 1) || word != 'G')
    return fail("the program goes on where it was");
  test_point("told-to-go");
  CKPT_TRY(decision_, tools::take(folder_));
  test_point("taken");
  CKPT_CHECK(note_running(folder_, root));
  test_point("noted");
  // From here on it goes on here, whether or not the other machine hears of it.
  (void)say(connection_.get(), 'T');
  return {};
}

void TakeOver::runs() {
  test_point("devices-back");
  if (Result<> noted = note_devices(folder_); !noted)
    log::warn("the program runs, but {}", noted.error().what);
  decision_.reset();
}

}  // namespace ckpt::tools

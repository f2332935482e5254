// SPDX-License-Identifier: Apache-2.0
//
// ckpt-cuda-server: serves the CUDA devices of this node to one program of another node. ckpt-devd
// starts it for each program; it is not meant to be started by hand. It is a process of its own, so
// that all that a program had ends with it.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include <CLI/CLI.hpp>

#include "ckpt_config.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "remote/cuda/server/server.h"
#include "remote/server/notes.h"

namespace ckpt::remote::cuda {
namespace {

// As ckpt-cuda-proxy tells it to ckpt-devd.
constexpr const char *kDriverVariable = "CKPT_CUDA_DRIVER";

Result<> start_driver() {
  const char *path = std::getenv(kDriverVariable);
  if (!path) return fail("{} names no driver", kDriverVariable);
  CKPT_CHECK(load_driver(path));
  if (CUresult e = driver().cuInit(0); e != CUDA_SUCCESS)
    return fail("the CUDA driver cannot be started: error {}", static_cast<int>(e));
  return {};
}

Result<> serve(int connection, int account) {
  // One at a time (notes.h): the program's threads ask.
  auto ask = [account, mutex = std::make_shared<std::mutex>()](i64 change) {
    std::lock_guard lock(*mutex);
    return account < 0 || ask_for_memory(account, change);
  };
  // Never destroyed: its threads run until the process ends.
  auto *server = new Server(
      std::make_unique<Connection>(std::make_unique<SocketStream>(UniqueFd(connection))), ask);
  CKPT_CHECK(start_driver());
  CKPT_CHECK(server->output.redirect());
  return server->run();
}

int run(int argc, char **argv) {
  CLI::App app{"serves this node's CUDA devices to one program of another node"};
  app.set_version_flag("--version", CKPT_VERSION);
  int connection = -1, account = -1;
  app.add_option("--serve", connection, "a connection to the program")->required();
  app.add_option("--account", account,
                 "where ckpt-devd is asked for memory; -1: there is no limit");
  CLI11_PARSE(app, argc, argv);
  Result<> r = guarded([&] { return serve(connection, account); });
  if (!r) log::error(r.error());
  return r ? 0 : 1;
}

}  // namespace
}  // namespace ckpt::remote::cuda

int main(int argc, char **argv) {
  ckpt::log::set_name("ckpt-cuda-server");
  ckpt::survive_file_size_limit();
  ::signal(SIGPIPE, SIG_IGN);
  int code = ckpt::remote::cuda::run(argc, argv);
  _exit(code);  // threads still run, perhaps in the driver
}

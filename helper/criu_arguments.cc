// SPDX-License-Identifier: Apache-2.0
#include "helper/criu_arguments.h"

#include <sys/stat.h>

#include <filesystem>

#include "common/base/installation.h"

namespace ckpt::helper {
namespace {

// Without CRIU's own plugins: cuda_plugin, where it is installed, would lock and resume the devices
// that the agent has left. `plugins`: a folder without them.
std::vector<std::string> common_arguments(const CriuRun &run, const char *verb,
                                          const std::string &plugins) {
  std::vector<std::string> c{run.criu,
                             verb,
                             "--no-default-config",
                             "--libdir",
                             plugins,
                             "--stream",
                             "--leave-stopped",
                             "--shell-job",
                             "--file-locks",
                             run.tcp_close ? "--tcp-close" : "--tcp-established",
                             "--network-lock",
                             "skip",
                             "-D",
                             run.folder,
                             "-o",
                             run.log,
                             run.errors_only ? "-v1" : "-v4"};
  if (run.unprivileged) c.push_back("--unprivileged");
  return c;
}

std::string dump_plugin() {
  constexpr const char *kName = "ckpt_stop.so";
  return first_existing({own_folder().parent_path() / "criu-plugin" / "dump" / kName,
                         installed_libdir().parent_path() / "criu" / "dump" / kName});
}

}  // namespace

std::vector<std::string> dump_arguments(const CriuRun &run, pid_t root) {
  std::vector<std::string> c =
      common_arguments(run, "dump", run.plugins.empty() ? run.folder : run.plugins);
  c.insert(c.end(), {"--link-remap", "--ghost-limit", std::to_string(kMaxUnlinkedBytes), "-t",
                     std::to_string(root)});
  return c;
}

std::vector<std::string> restore_arguments(const CriuRun &run) {
  std::vector<std::string> c = common_arguments(run, "restore", run.folder);
  c.push_back("-d");
  for (auto [fd, inode] : run.inherited)
    c.insert(c.end(), {"--inherit-fd", fmt::format("fd[{}]:pipe:[{}]", fd, inode)});
  return c;
}

std::string dump_plugins() { return std::filesystem::path(dump_plugin()).parent_path().string(); }

std::string trusted_dump_plugins() {
  std::string plugin = dump_plugin();
  return !plugin.empty() && check_owned_by_root(plugin) ? dump_plugins() : "";
}

Result<> check_owned_by_root(const std::string &executable) {
  std::error_code ec;
  std::filesystem::path path = std::filesystem::canonical(executable, ec);
  if (ec) return fail("there is no {}", executable);
  for (; !path.empty(); path = path.parent_path()) {
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0 || st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
      return fail_with_hint(fmt::format("users other than root can change {}", path.string()),
                            "chown root it, and chmod go-w it");
    if (path == path.parent_path()) break;
  }
  return {};
}

}  // namespace ckpt::helper

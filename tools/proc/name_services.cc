// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/name_services.h"

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

struct NameService {
  std::string_view folder, name;
};

// SSSD (sss_client/common.c) and winbind (nsswitch/wb_common.c) keep the connection. nscd, nslcd
// and systemd-userdbd answer one request for each connection.
constexpr NameService kServices[] = {{"/var/lib/sss/pipes/", "SSSD"},
                                     {"/run/samba/winbindd/", "winbind"},
                                     {"/var/run/samba/winbindd/", "winbind"},
                                     {"/var/lib/samba/winbindd_privileged/", "winbind"}};

}  // namespace

std::string remedy_for_name_service(const std::string &socket) {
  for (const NameService &s : kServices)
    if (socket.starts_with(s.folder))
      return fmt::format(
          "libc keeps this connection to {} after a look-up of a user or group: run nscd on this "
          "node, which answers without one (apt install nscd), and start the program again",
          s.name);
  return {};
}

}  // namespace ckpt::tools

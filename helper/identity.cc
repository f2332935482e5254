// SPDX-License-Identifier: Apache-2.0
#include "helper/identity.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "common/base/file_text.h"
#include "common/base/words.h"
#include "common/ipc/unix_socket.h"
#include "common/proc/file.h"

namespace ckpt::helper {
namespace {

constexpr int kLastBit = 63;

struct Sets {
  u64 effective, permitted, inheritable;
};

bool set_capabilities(const Sets &s) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  for (unsigned i = 0; i < data.size(); i++)
    data[i] = {static_cast<u32>(s.effective >> 32 * i), static_cast<u32>(s.permitted >> 32 * i),
               static_cast<u32>(s.inheritable >> 32 * i)};
  return ::syscall(SYS_capset, &header, data.data()) == 0;
}

Sets get_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) return {};
  auto whole = [](u32 low, u32 high) { return u64{high} << 32 | low; };
  return {whole(data[0].effective, data[1].effective), whole(data[0].permitted, data[1].permitted),
          whole(data[0].inheritable, data[1].inheritable)};
}

bool raise_ambient(u64 capabilities) {
  for (int c = 0; c <= kLastBit; c++)
    if ((capabilities & bit_of(c)) && ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0) != 0)
      return false;
  return true;
}

// The bounding set only ever shrinks.
bool bound(u64 allowed) {
  for (int c = 0; c <= kLastBit; c++)
    if (!(allowed & bit_of(c)) && ::prctl(PR_CAPBSET_READ, c, 0, 0, 0) == 1 &&
        ::prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0)
      return false;
  return true;
}

template <class T>
bool take_number(std::string_view &text, T &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return true;
}

}  // namespace

Result<Identity> identity_of_peer(int socket) {
  CKPT_TRY(ucred peer, peer_credentials(socket));
  Identity identity{peer.uid, peer.gid};
  identity.groups.resize(64 * 1024);  // NGROUPS_MAX of the kernel
  socklen_t bytes = static_cast<socklen_t>(identity.groups.size() * sizeof(gid_t));
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, identity.groups.data(), &bytes) != 0)
    return fail_errno("cannot read the caller's groups");
  identity.groups.resize(bytes / sizeof(gid_t));
  return identity;
}

std::string to_text(const Identity &identity) {
  std::string text = fmt::format("{}:{}", identity.uid, identity.gid);
  for (gid_t group : identity.groups) text += fmt::format(":{}", group);
  return text;
}

Result<Identity> identity_from(const std::string &text) {
  Identity identity;
  std::string_view rest = text;
  if (!take_number(rest, identity.uid) || !take_number(rest, identity.gid))
    return fail("\"{}\" is not an identity", text);
  while (!rest.empty())
    if (!take_number(rest, identity.groups.emplace_back()))
      return fail("\"{}\" is not an identity", text);
  return identity;
}

u64 own_capabilities() { return get_capabilities().permitted; }

bool keep_only(u64 capabilities, u64 at_hand) {
  u64 kept = own_capabilities() & capabilities;
  return set_capabilities({kept & ~at_hand, kept, 0});
}

WithCapability::WithCapability(int capability) {
  Sets now = get_capabilities();
  raised_ = now.permitted & ~now.effective & bit_of(capability);
  if (raised_) (void)set_capabilities({now.effective | raised_, now.permitted, now.inheritable});
}

WithCapability::~WithCapability() {
  Sets now = get_capabilities();
  if (raised_) (void)set_capabilities({now.effective & ~raised_, now.permitted, now.inheritable});
}

// Ambient capabilities must be inheritable, so a smaller inheritable set lowers them, too.
bool pass_on_only(u64 capabilities) {
  return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 &&
         set_capabilities({capabilities, capabilities, capabilities}) &&
         raise_ambient(capabilities);
}

bool become(const Identity &identity, u64 capabilities) {
  return bound(identity.bounding) && ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 &&
         ::setgroups(identity.groups.size(), identity.groups.data()) == 0 &&
         ::setresgid(identity.gid, identity.gid, identity.gid) == 0 &&
         ::setresuid(identity.uid, identity.uid, identity.uid) == 0 &&
         set_capabilities({capabilities, capabilities, capabilities}) &&
         raise_ambient(capabilities);
}

u64 criu_capabilities() {
  return bit_of(CAP_CHECKPOINT_RESTORE) | (yama_restricts_ptrace() ? bit_of(CAP_SYS_PTRACE) : 0);
}

bool yama_restricts_ptrace() {
  std::string scope = proc::text_of_machine("sys/kernel/yama/ptrace_scope");
  return leading_number(scope, 0) > 0;
}

}  // namespace ckpt::helper

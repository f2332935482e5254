// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/copy_edits.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ckpt::test {
using namespace tools;
namespace {

using Numbers = std::vector<std::pair<u32, u64>>;

void put_varint(Writer &w, u64 v) {
  for (; v >= 0x80; v >>= 7) w.put(static_cast<u8>(v | 0x80));
  w.put(static_cast<u8>(v));
}

Bytes message(const Numbers &numbers, u32 field, ByteView inner) {
  Writer w;
  for (auto [number, value] : numbers) {
    put_varint(w, u64{number} << 3);
    put_varint(w, value);
  }
  put_varint(w, u64{field} << 3 | 2);
  put_varint(w, inner.size());
  w.raw(inner.data(), inner.size());
  return w.take();
}

// The embedded message of `field` in an entry of files.img, after the edits.
ProtoMessage edited(const CopyEdits &edits, u32 field, const Bytes &inner) {
  std::optional<ProtoMessage> entry = ProtoMessage::parse(message({{1, 1}, {2, 7}}, field, inner));
  REQUIRE(entry);
  edits.edit(*entry);
  std::optional<ProtoMessage> found = ProtoMessage::parse(entry->bytes(field));
  REQUIRE(found);
  return *found;
}

Copy copy_with(const std::vector<std::string> &listen) {
  Copy copy;
  copy.facts.number = 2;
  copy.addresses = *Addresses::parse(listen);
  copy.mark = 99;
  return copy;
}

constexpr u32 kRegular = 3, kInet = 4, kUnix = 16, kName = 6, kUnixName = 11, kAddress = 11;

}  // namespace

TEST_CASE("an unlinked file gets a name of its own, except in the copy's own folder") {
  CHECK(marked_name("/tmp/a", 99) == "/tmp/a.ckpt-99");
  CHECK(marked_name("/tmp/a.ckpt-98", 99) == "/tmp/a.ckpt-99");
  CHECK(marked_name("/no/such/folder/a", 99) == "/a.ckpt-99");
  CHECK(marked_name("/tmp/" + std::string(255, 'x'), 99).size() == 5 + 255);
  CriuFiles criu;
  for (const char *name : {"/tmp/a", "/dev/shm/a"}) {
    criu.files[7] = {.path = name, .ghost = 1};
    ProtoMessage f = edited(CopyEdits({}, criu, copy_with({})), kRegular,
                            message({{2, O_RDWR}}, kName, view(std::string_view(name))));
    CHECK(text(f.bytes(kName)) == (name[1] == 't' ? "/tmp/a.ckpt-99" : name));
  }
}

TEST_CASE("the links of unlinked files get the names that CRIU is told") {
  ImageManifest m;
  m.links = {{"/tmp/link_remap.1", "/tmp/link_remap.1.ckpt-abc"}, {"/dev/shm/link_remap.2", "x"}};
  mark_links(m, 99);
  CHECK(m.links[0].path == "/tmp/link_remap.1.ckpt-99");
  CHECK(m.links[1].path == "/dev/shm/link_remap.2");
}

TEST_CASE("a file that was the output becomes the copy's") {
  ImageManifest m;
  m.file_at[1] = "/tmp/log";
  Copy copy = copy_with({});
  copy.output = "/dev/null";
  for (u64 flags : {O_WRONLY, O_RDONLY}) {
    ProtoMessage f =
        edited(CopyEdits(m, {}, copy), kRegular,
               message({{2, flags}, {3, 70}, {8, 70}}, kName, view(std::string_view("/tmp/log"))));
    bool changed = flags == O_WRONLY;
    CHECK(text(f.bytes(kName)) == (changed ? "/dev/null" : "/tmp/log"));
    CHECK(f.number(3) == (changed ? 0 : 70));
  }
}

TEST_CASE("listening IP sockets get their addresses, and connections keep theirs") {
  CopyEdits edits({}, {}, copy_with({"80=127.0.0.2:9001-9002"}));
  for (auto [protocol, state, changed] :
       {std::tuple{IPPROTO_TCP, 10, true}, std::tuple{IPPROTO_TCP, 7, true},
        std::tuple{IPPROTO_UDP, 7, true}, std::tuple{IPPROTO_UDP, 1, true},
        std::tuple{IPPROTO_TCP, 1, false}}) {
    ProtoMessage s = edited(edits, kInet,
                            message({{3, AF_INET},
                                     {5, static_cast<u64>(protocol)},
                                     {6, static_cast<u64>(state)},
                                     {7, 80},
                                     {kAddress, htonl(INADDR_LOOPBACK)},
                                     {12, 0}},
                                    13, {}));
    CHECK(s.number(7) == (changed ? 9002 : 80));
    CHECK(s.number(kAddress) == htonl(changed ? INADDR_LOOPBACK + 1 : INADDR_LOOPBACK));
    CHECK(s.numbers(12).size() == 1);
  }
}

TEST_CASE("an address of IPv6 has four words") {
  CopyEdits edits({}, {}, copy_with({"80=[2001::5]:81"}));
  ProtoMessage s = edited(edits, kInet,
                          message({{3, AF_INET6},
                                   {5, IPPROTO_UDP},
                                   {6, 7},
                                   {7, 80},
                                   {kAddress, 0},
                                   {kAddress, 0},
                                   {kAddress, 0},
                                   {kAddress, htonl(1)}},
                                  13, {}));
  CHECK(s.numbers(kAddress) == std::vector<u64>{htonl(0x20010000), 0, 0, htonl(5)});
}

TEST_CASE("an IPv6 socket keeps the form of an IPv4 address") {
  CopyEdits edits({}, {}, copy_with({"80=127.0.0.2:81"}));
  u64 prefix = htonl(0xffff);
  ProtoMessage s = edited(edits, kInet,
                          message({{3, AF_INET6},
                                   {5, IPPROTO_UDP},
                                   {6, 7},
                                   {7, 80},
                                   {kAddress, 0},
                                   {kAddress, 0},
                                   {kAddress, prefix},
                                   {kAddress, htonl(INADDR_LOOPBACK)}},
                                  13, {}));
  CHECK(s.numbers(kAddress) == std::vector<u64>{0, 0, prefix, htonl(INADDR_LOOPBACK + 1)});
}

TEST_CASE("UNIX sockets get their names") {
  for (auto [name, wanted] : {std::pair<std::string, std::string>{{"/a\0", 3}, {"/b-2\0", 5}},
                              {{"\0a", 2}, {"\0b-2", 4}}}) {
    CriuFiles criu;
    criu.files[7].unix_name = name.starts_with('/') ? "/a" : "@a";
    CopyEdits edits({}, criu, copy_with({"/a=/b-%n", "@a=@b-%n"}));
    ProtoMessage s = edited(edits, kUnix, message({{2, 5}}, kUnixName, view(name)));
    CHECK(text(s.bytes(kUnixName)) == wanted);
  }
}

TEST_CASE("an unlinked UNIX socket gets a name of its own") {
  ProtoMessage s =
      edited(CopyEdits({}, {}, copy_with({})), kUnix,
             message({{2, 5}, {15, 1}}, kUnixName, view(std::string_view("/tmp/s\0", 7))));
  CHECK(text(s.bytes(kUnixName)) == std::string("/tmp/s.ckpt-99\0", 15));
}

}  // namespace ckpt::test

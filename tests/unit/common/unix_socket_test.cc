// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/unix_socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <thread>

#include <doctest/doctest.h>

using namespace ckpt;

TEST_CASE("a message and its descriptors cross a socket") {
  auto pair = socket_pair();
  REQUIRE(pair);
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  int fds[] = {null.get()};
  REQUIRE(send_message(pair->first.get(), 9, view("hello"), fds));
  auto m = receive_message(pair->second.get());
  REQUIRE(m);
  REQUIRE(m->has_value());
  CHECK((*m)->type == 9);
  CHECK(text((*m)->body) == "hello");
  REQUIRE((*m)->fds.size() == 1);
  struct stat a {
  }, b{};
  REQUIRE(::fstat(null.get(), &a) == 0);
  REQUIRE(::fstat((*m)->fds[0].get(), &b) == 0);
  CHECK(a.st_rdev == b.st_rdev);
}

TEST_CASE("a hang-up between messages yields no value, inside a message it is an error") {
  auto pair = socket_pair();
  REQUIRE(pair);
  SUBCASE("between") {
    pair->first.reset();
    auto m = receive_message(pair->second.get());
    REQUIRE(m);
    CHECK_FALSE(m->has_value());
  }
  SUBCASE("inside") {
    u32 header[2] = {100, 1};
    REQUIRE(write_all(pair->first.get(), view(header, sizeof header)));
    pair->first.reset();
    CHECK_FALSE(receive_message(pair->second.get()));
  }
}

TEST_CASE("a message over the limit is refused before memory is allocated") {
  auto pair = socket_pair();
  REQUIRE(pair);
  u32 header[2] = {0xffffffff, 1};
  REQUIRE(write_all(pair->first.get(), view(header, sizeof header)));
  auto m = receive_message(pair->second.get(), 1 << 20);
  REQUIRE_FALSE(m);
  CHECK(m.error().what.find("4294967295") != std::string::npos);
}

TEST_CASE("a message cannot bring more descriptors than a message may have") {
  auto pair = socket_pair();
  REQUIRE(pair);
  u32 header[2] = {1000, 1};
  REQUIRE(write_all(pair->first.get(), view(header, sizeof header)));
  // Eight with each byte of the body.
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<int> fds(kMaxMessageFds, null.get());
  for (int i = 0; i < 10; i++) {
    char byte = 0;
    iovec iov{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)]{};
    msghdr m{};
    m.msg_iov = &iov;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
    REQUIRE(::sendmsg(pair->first.get(), &m, 0) == 1);
  }
  auto m = receive_message(pair->second.get());  // it does not wait for the rest
  REQUIRE_FALSE(m);
  CHECK(m.error().what.find("more than 8 descriptors") != std::string::npos);
}

TEST_CASE("one descriptor goes with a byte") {
  auto pair = socket_pair();
  REQUIRE(pair);
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  REQUIRE(send_descriptor(pair->first.get(), null.get()));
  auto sent = receive_descriptor(pair->second.get());
  REQUIRE((sent && sent->has_value()));
  CHECK(::write((*sent)->get(), "x", 1) == 1);
  REQUIRE(write_all(pair->first.get(), view("x", 1)));
  auto none = receive_descriptor(pair->second.get());
  REQUIRE_FALSE(none);
  CHECK(none.error().what.find("0 descriptors instead of one") != std::string::npos);
  pair->first.reset();
  auto ended = receive_descriptor(pair->second.get());
  REQUIRE(ended);
  CHECK_FALSE(ended->has_value());
}

TEST_CASE("a process that has no descriptor left says so") {
  auto pair = socket_pair();
  REQUIRE(pair);
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  REQUIRE(send_descriptor(pair->first.get(), null.get()));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none{static_cast<rlim_t>(null.get()), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto sent = receive_descriptor(pair->second.get());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(sent);
  CHECK(sent.error().what.find("no file descriptor is left") != std::string::npos);
}

TEST_CASE("only the owner can use a socket") {
  char dir[] = "/tmp/ckpt-ipc-test-XXXXXX";
  REQUIRE(::mkdtemp(dir));
  std::string path = std::string(dir) + "/s";
  auto listener = listen_unix(path);
  REQUIRE(listener);
  struct stat st {};
  REQUIRE(::stat(path.c_str(), &st) == 0);
  CHECK((st.st_mode & 0777) == 0600);
  auto client = connect_unix(path);
  REQUIRE(client);
  CHECK(accept_unix(listener->get()));
  CHECK_FALSE(listen_unix(path));
  // Connections that are not accepted: connect_unix_at_once() does not wait when the queue is full.
  std::vector<UniqueFd> queue;
  for (bool taken = true; taken;) {
    auto next = connect_unix_at_once(path);
    REQUIRE(next);
    taken = next->has_value();
    if (taken) queue.push_back(std::move(**next));
    REQUIRE(queue.size() < 1000);
  }
  CHECK_FALSE(connect_unix_at_once(path + "/none"));
  ::unlink(path.c_str());
  ::rmdir(dir);
}

TEST_CASE("the wait for a message can be limited") {
  auto pair = socket_pair();
  REQUIRE(pair);
  REQUIRE(set_receive_timeout(pair->first.get(), std::chrono::milliseconds(20)));
  auto m = receive_message(pair->first.get());
  REQUIRE_FALSE(m);
  CHECK(m.error().what == "no answer in time");
}

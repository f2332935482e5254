// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/parent_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <unordered_map>

#include "common/base/cores.h"
#include "common/base/parallel.h"
#include "common/base/shortage.h"
#include "tools/agent_link/device_streams.h"
#include "tools/proc/command.h"

namespace ckpt::tools {
namespace {

using protocol::Type;
using storage::ChunkAddress;
using storage::ChunkEntry;

constexpr std::chrono::seconds kStartTimeout{30};

// Distinct chunks of the device memory of process `number`, but for zeros.
std::vector<u32> device_chunks(const storage::ImageReader &image, u32 number) {
  std::set<u32> found;
  for (const storage::StreamEntry &s : image.streams())
    if (s.name.starts_with(device_stream_prefix(number)))
      found.insert(s.chunks.begin(), s.chunks.end());
  std::erase_if(found, [&](u32 chunk) {
    const ChunkEntry &c = image.index().chunks[chunk];
    return c.codec == storage::Codec::Zero || c.raw_size > storage::kChunkBytes;
  });
  return {found.begin(), found.end()};
}

bool is_readable(const storage::ImageReader &image, u32 chunk) {
  const ChunkEntry &entry = image.index().chunks[chunk];
  Bytes stored(entry.stored_size);
  if (!image.read_stored(chunk, stored)) return false;
  return entry.codec != storage::Codec::Delta || is_readable(image, entry.base);
}

// The addresses of those that can be read.
std::vector<ChunkAddress> readable(const storage::ImageReader &image,
                                   const std::vector<u32> &chunks) {
  std::vector<char> good(chunks.size());
  std::atomic<size_t> next = 0;
  run_parallel(usable_cores(), [&](unsigned) {
    for (size_t i; (i = next++) < chunks.size();) {
      Result<bool> read = guarded([&]() -> Result<bool> { return is_readable(image, chunks[i]); });
      good[i] = read && *read;
    }
  });
  std::vector<ChunkAddress> addresses;
  for (size_t i = 0; i < chunks.size(); ++i)
    if (good[i]) addresses.push_back(image.index().chunks[chunks[i]].address);
  return addresses;
}

Result<UniqueFd> file_with(const std::vector<ChunkAddress> &addresses) {
  static_assert(sizeof(ChunkAddress) == 2 * sizeof(u64));
  UniqueFd file(::memfd_create("ckpt-chunks", MFD_CLOEXEC));
  if (!file) return fail_errno("cannot create a file in memory");
  CKPT_CHECK(
      write_all(file.get(), view(addresses.data(), addresses.size() * sizeof(ChunkAddress))));
  return file;
}

// What is not for the command line, which all users can read. The first message to the process.
Writer secrets(const storage::ImageReader &image, const storage::Key *key) {
  Writer out;
  out.raw(image.index().uuid.data(), image.index().uuid.size());
  if (key != nullptr) out.raw(key->bytes().data(), key->bytes().size());
  return out;
}

Result<> await_start(int socket) {
  CKPT_CHECK(set_receive_timeout(socket, kStartTimeout));
  CKPT_TRY(std::optional<Message> m, receive_message(socket));
  if (!m) return fail("it ended");
  if (static_cast<Type>(m->type) == Type::Ok) return set_receive_timeout(socket, {});
  return fail("{}", m->reader().str());
}

// ---- the process

// Answers an agent until that hangs up.
class ChunkServer {
 public:
  ChunkServer(std::unique_ptr<storage::ImageReader> image, u32 number, int socket)
      : image_(std::move(image)), socket_(socket) {
    for (u32 chunk : device_chunks(*image_, number))
      chunks_[image_->index().chunks[chunk].address] = chunk;
  }

  Result<> run() {
    for (;;) {
      CKPT_TRY(std::optional<Message> m, receive_message(socket_, kMostRequestBytes));
      if (!m) return {};
      Result<Bytes> chunk = guarded([&] { return chunk_for(*m); });
      if (chunk)
        CKPT_CHECK(send_message(socket_, static_cast<u16>(Type::Ok), *chunk));
      else
        CKPT_CHECK(send_message(socket_, static_cast<u16>(Type::Failed),
                                Writer().str(chunk.error().what).str("").bytes()));
    }
  }

 private:
  static constexpr size_t kMostRequestBytes = 64;

  Result<Bytes> chunk_for(const Message &m) {
    Reader in = m.reader();
    ChunkAddress address{in.get<u64>(), in.get<u64>()};
    u32 bytes = in.get<u32>();
    auto found = chunks_.find(address);
    if (static_cast<Type>(m.type) != Type::ChunkWanted || !in.done() || found == chunks_.end() ||
        image_->index().chunks[found->second].raw_size != bytes)
      return fail("the parent image has no such chunk");
    Bytes raw(bytes);
    CKPT_CHECK(image_->read_chunk(found->second, raw));
    return raw;
  }

  std::unique_ptr<storage::ImageReader> image_;
  int socket_;
  std::unordered_map<ChunkAddress, u32, storage::ChunkAddressHash> chunks_;
};

Result<std::unique_ptr<storage::ImageReader>> open_parent(const std::string &path, int socket) {
  CKPT_TRY(std::optional<Message> m, receive_message(socket));
  if (!m) return fail("ckpt-dump hung up");
  storage::Uuid uuid{};
  if (m->body.size() < uuid.size()) return fail("malformed request");
  std::memcpy(uuid.data(), m->body.data(), uuid.size());
  std::optional<storage::Key> key;
  if (m->body.size() > uuid.size()) {
    CKPT_TRY(key, storage::Key::from_bytes(ByteView(m->body).subspan(uuid.size())));
  }
  CKPT_TRY(std::unique_ptr<storage::ImageReader> image,
           storage::ImageReader::open(path, {.key = key ? &*key : nullptr, .only_own = true}));
  if (image->index().uuid != uuid) return fail("{} has been replaced", path);
  return image;
}

Result<> serve(const std::string &path, u32 number, int socket) {
  Result<std::unique_ptr<storage::ImageReader>> image =
      guarded([&] { return open_parent(path, socket); });
  if (!image) {
    Writer why;
    why.str(image.error().what).str("");
    return send_message(socket, static_cast<u16>(Type::Failed), why.bytes());
  }
  ChunkServer server(std::move(*image), number, socket);
  CKPT_CHECK(send_message(socket, static_cast<u16>(Type::Ok)));
  return server.run();
}

}  // namespace

Result<std::unique_ptr<ParentReader>> ParentReader::start(const storage::ImageReader &parent,
                                                          u32 number, const storage::Key *key) {
  std::vector<ChunkAddress> addresses = readable(parent, device_chunks(parent, number));
  if (addresses.empty()) return nullptr;
  std::unique_ptr<ParentReader> reader(new ParentReader);
  reader->count_ = addresses.size();
  CKPT_TRY(reader->addresses_, file_with(addresses));
  CKPT_TRY(auto ends, socket_pair());
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CKPT_TRY(reader->process_,
           spawn({.argv = {"/proc/self/exe", "--parent-reader", parent.path(),
                           std::to_string(number), std::to_string(ends.second.get())},
                  .in = null.get(),
                  .out = null.get(),
                  .err = null.get(),
                  .keep = {ends.second.get()},
                  .own_group = true}));
  ends.second.reset();
  reader->socket_ = std::move(ends.first);
  CKPT_CHECK(send_message(reader->socket_.get(), 0, secrets(parent, key).bytes()));
  Result<> started = await_start(reader->socket_.get());
  if (!started)
    return Failure(std::move(started.error()).in("the process that reads the parent image"));
  return reader;
}

// It ends by itself when nobody is connected to it any more.
ParentReader::~ParentReader() {
  if (process_ > 0) ::waitpid(process_, nullptr, WNOHANG);
}

bool ParentReader::give_to(AgentClient &agent) {
  bool taken = agent.parent_chunks(count_, addresses_.get(), socket_.get());
  socket_.reset();
  addresses_.reset();
  return taken;
}

void ParentReader::end() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = 0;
}

// A signal to ckpt-dump undoes the dump, for which this process is needed.
int parent_reader_main(char **arguments) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  u32 number = static_cast<u32>(std::strtoul(arguments[1], nullptr, 10));
  int socket = std::atoi(arguments[2]);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  return guarded([&] { return serve(arguments[0], number, socket); }) ? 0 : 1;
}

}  // namespace ckpt::tools

// SPDX-License-Identifier: Apache-2.0
//
// Processes that share memory by cudaIpc*, directed by the first one, which has a model of it:
//
//   ipc_memory STEPS CHILDREN SEED [end]  a random history; with "end", children end or are killed
//   ipc_memory rules                      what the handles of one process may and may not do
//   ipc_memory killed                     kills a process that shares memory alone, and waits for the file `pause`
//   ipc_memory late                       the exporter ends when the file `pause` is gone, the importers do not
//   ipc_memory held FILE                  writes a handle to the file, and waits for the file `pause`
//   ipc_memory foreign FILE               opens a handle of another session
//
// Element i of each piece is a * i + b. A step exports a piece, opens it, changes a and b by a kernel
// of one of its users, checks it in one of them, closes or frees it.
#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <random>
#include <set>
#include <string>

#include "check.h"

using u32 = unsigned;
constexpr int kPieces = 4;
constexpr u32 kSizes[kPieces] = {1000, 700000, 300, 1u << 20};
constexpr unsigned kLazy = cudaIpcMemLazyEnablePeerAccess;

__global__ void change(u32 *p, u32 n, u32 times, u32 plus) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * times + plus;
}
__global__ void number(u32 *p, u32 n) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = i;
}

enum class Op : u32 { Export, Open, Change, Check, Close, Free, Quit };
struct Order {
  Op op;
  u32 piece, a, b;
  cudaIpcMemHandle_t handle;
};
struct Answer {
  cudaIpcMemHandle_t handle;
  void *address;
};

// The pieces of this process. The address of one that was opened does not change.
static u32 *pieces[kPieces];
static Answer execute(const Order &o) {
  Answer answer{};
  u32 *&p = pieces[o.piece], n = kSizes[o.piece], blocks = (n + 255) / 256;
  switch (o.op) {
    case Op::Export:
      CUDA(cudaMalloc(&p, n * sizeof(u32)));
      number<<<blocks, 256>>>(p, n);
      CUDA(cudaDeviceSynchronize());
      CUDA(cudaIpcGetMemHandle(&answer.handle, p));
      break;
    case Op::Open: CUDA(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&p), o.handle, kLazy)); break;
    case Op::Change:
      change<<<blocks, 256>>>(p, n, o.a, o.b);
      CUDA(cudaDeviceSynchronize());
      break;
    case Op::Check: {
      std::vector<u32> all(n);
      CUDA(cudaMemcpy(all.data(), p, n * sizeof(u32), cudaMemcpyDeviceToHost));
      for (u32 i = 0; i < n; i++) CHECK(all[i] == o.a * i + o.b);
      break;
    }
    case Op::Close: CUDA(cudaIpcCloseMemHandle(p)); break;
    case Op::Free: CUDA(cudaFree(p)); break;
    case Op::Quit: break;
  }
  answer.address = p;
  return answer;
}

static void serve(int socket) {
  Order o;
  while (read(socket, &o, sizeof o) == sizeof o) {
    Answer answer = execute(o);
    CHECK(write(socket, &answer, sizeof answer) == sizeof answer);
    if (o.op == Op::Quit) std::exit(0);
  }
  std::exit(0);
}

struct Member {
  pid_t pid = 0;
  int socket = -1;
  bool alive = true;
  Answer order(const Order &o) {
    if (pid == 0) return execute(o);
    Answer answer;
    CHECK(write(socket, &o, sizeof o) == sizeof o);
    CHECK(read(socket, &answer, sizeof answer) == sizeof answer);
    return answer;
  }
};
struct Piece {
  bool lives = false, exported = false;  // exported: its exporter has it
  int exporter = 0;
  std::set<int> users;
  u32 a = 0, b = 0;
  cudaIpcMemHandle_t handle;
};

class History {
 public:
  History(int children, u32 seed, bool ends) : random_(seed), ends_(ends), members_(children + 1) {
    for (int i = 1; i <= children; i++) start(i);
  }
  void run(int steps) {
    for (int i = 0; i < steps; i++) {
      step(pieces_[below(kPieces)], i);
      usleep(1000);
    }
    for (int k = 0; k < kPieces; k++)
      for (int m : pieces_[k].users) check(k, m);
    for (size_t m = 1; m < members_.size(); m++) end(static_cast<int>(m), false);
  }

 private:
  int below(size_t n) { return static_cast<int>(random_() % n); }
  int one_of(const std::set<int> &all) { return *std::next(all.begin(), below(all.size())); }
  void start(int i) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    Member &m = members_[i];
    m.pid = fork();
    if (m.pid == 0) serve(ends[1]);
    m.socket = ends[0];
    close(ends[1]);
  }
  void check(int k, int m) {
    members_[m].order({Op::Check, static_cast<u32>(k), pieces_[k].a, pieces_[k].b, {}});
  }
  void end(int m, bool killed) {
    if (!members_[m].alive) return;
    if (killed)
      kill(members_[m].pid, SIGKILL);
    else
      members_[m].order({Op::Quit, 0, 0, 0, {}});
    waitpid(members_[m].pid, nullptr, 0);
    close(members_[m].socket);
    members_[m].alive = false;
    for (Piece &p : pieces_) {
      p.users.erase(m);
      if (p.exporter == m) p.exported = false;
      if (p.users.empty()) p.lives = false;
    }
  }
  void step(Piece &p, int number) {
    u32 k = static_cast<u32>(&p - pieces_);
    if (ends_ && number % 100 == 99 && members_.size() > 2) return end(1 + number / 100 % (members_.size() - 1), below(2) == 0);
    int m = below(members_.size());
    if (!members_[m].alive) return;
    if (!p.lives) {
      p = {true, true, m, {m}, 1, 0, members_[m].order({Op::Export, k, 0, 0, {}}).handle};
      return;
    }
    if (!p.users.contains(m)) {
      if (p.exported) members_[m].order({Op::Open, k, 0, 0, p.handle}), p.users.insert(m);
      return;
    }
    int what = below(8);
    if (what < 4) {
      u32 times = 2 * below(1000) + 1, plus = random_();
      members_[m].order({Op::Change, k, times, plus, {}});
      p.a *= times, p.b = p.b * times + plus;
    } else if (what < 7) {
      check(static_cast<int>(k), m);
    } else if (m != p.exporter) {
      members_[m].order({Op::Close, k, 0, 0, {}});
      p.users.erase(m);
      if (p.users.empty()) p.lives = false;
    } else if (p.users.size() == 1) {
      members_[m].order({Op::Free, k, 0, 0, {}});
      p = {};
    }
  }

  std::mt19937 random_;
  bool ends_;
  std::vector<Member> members_;
  Piece pieces_[kPieces];
};

static cudaError_t open_error(const cudaIpcMemHandle_t &h, unsigned flags = kLazy) {
  void *p;
  cudaError_t e = cudaIpcOpenMemHandle(&p, h, flags);
  cudaGetLastError();
  return e;
}

static void wait_for_go() {
  std::puts("started");
  std::fflush(stdout);
  while (access("pause", F_OK) == 0) usleep(1000);
}

static void rules() {
  int *p, on_host = 0, supported = 0;
  void *pooled;
  CUDA(cudaMalloc(&p, 5000));
  cudaIpcMemHandle_t h, again, forged{};
  CUDA(cudaIpcGetMemHandle(&h, p));
  CUDA(cudaIpcGetMemHandle(&again, p + 100));
  CHECK(std::memcmp(&h, &again, sizeof h) == 0);
  CHECK(open_error(h) == cudaErrorDeviceUninitialized);  // its own
  CHECK(open_error(h, 0) == cudaErrorInvalidValue);
  CHECK(open_error(forged) == cudaErrorInvalidResourceHandle);
  for (int at : {0, 8, 63}) {
    forged = h;
    forged.reserved[at] ^= 1;
    CHECK(open_error(forged) == cudaErrorInvalidResourceHandle);
  }
  CHECK(cudaIpcGetMemHandle(&again, &on_host) == cudaErrorInvalidValue);
  CUDA(cudaMallocAsync(&pooled, 4 << 20, nullptr));
  CHECK(cudaIpcGetMemHandle(&again, pooled) == cudaErrorInvalidValue);
  CHECK(cudaIpcCloseMemHandle(p) == cudaErrorInvalidValue);
  cudaGetLastError();
  CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, 0));
  CHECK(supported == 1);
  u32 capable = 0;
  CHECK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                              reinterpret_cast<CUdeviceptr>(p)) == CUDA_SUCCESS);
  CHECK(capable == 1);
  CUDA(cudaFree(p));
  CHECK(open_error(h) == cudaErrorInvalidResourceHandle);
}

static void keep_handle(const char *file) {
  int *p;
  cudaIpcMemHandle_t h;
  CUDA(cudaMalloc(&p, 5000));
  CUDA(cudaIpcGetMemHandle(&h, p));
  std::FILE *out = std::fopen(file, "w");
  CHECK(std::fwrite(&h, sizeof h, 1, out) == 1);
  std::fclose(out);
  wait_for_go();
}

static void open_foreign(const char *file) {
  cudaIpcMemHandle_t h;
  std::FILE *in = std::fopen(file, "r");
  CHECK(std::fread(&h, sizeof h, 1, in) == 1);
  CUDA(cudaFree(nullptr));
  CHECK(open_error(h) == cudaErrorInvalidResourceHandle);
}

static pid_t fork_exporter(int socket) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  Answer answer = execute({Op::Export, 0, 0, 0, {}});
  CHECK(write(socket, &answer, sizeof answer) == sizeof answer);
  while (access("pause", F_OK) == 0) usleep(1000);
  std::exit(0);
}

// The exporter ends as soon as it can, and two importers check its memory afterwards.
static void come_late(bool killed) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_t exporter = fork_exporter(ends[1]);
  Answer answer;
  CHECK(read(ends[0], &answer, sizeof answer) == sizeof answer);
  if (killed) {
    kill(exporter, SIGKILL);
    waitpid(exporter, nullptr, 0);
    return wait_for_go();
  }
  pid_t second = fork();
  execute({Op::Open, 0, 0, 0, answer.handle});
  if (second == 0) CHECK(write(ends[1], &answer, sizeof answer) == sizeof answer);
  if (second != 0) CHECK(read(ends[0], &answer, sizeof answer) == sizeof answer);
  if (second != 0) wait_for_go();
  while (access("pause", F_OK) == 0) usleep(1000);
  if (second != 0) waitpid(exporter, nullptr, 0);
  execute({Op::Check, 0, 1, 0, {}});
  if (second == 0) std::exit(0);
  int status = 0;
  waitpid(second, &status, 0);
  CHECK(status == 0 || WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv) {
  std::string what = argv[1];
  if (what == "rules") return rules(), passed();
  if (what == "late" || what == "killed") return come_late(what == "killed"), passed();
  if (what == "held") return keep_handle(argv[2]), passed();
  if (what == "foreign") return open_foreign(argv[2]), passed();
  CHECK(argc >= 4);
  History history(std::atoi(argv[2]), std::strtoul(argv[3], nullptr, 10), argc > 4);
  std::puts("started");
  std::fflush(stdout);
  history.run(std::atoi(argv[1]));
  return passed();
}

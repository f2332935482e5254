// SPDX-License-Identifier: Apache-2.0
//
// Managed memory that host and device use in turns. The same program is right without ckpt.
//
//   managed held             leaves memory with the host, with the device, with both and with each in
//                            part, prints "ready", waits while the file "pause" exists, and checks
//   managed NAME             one of the functions below
//   managed history SEED COUNT [SUSPENDS]
//                            random steps against a model; suspends itself SUSPENDS times per 100 steps
#include <ckpt/ckpt.h>
#include <cuda.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "check.h"

constexpr size_t kPart = (2u << 20) / sizeof(unsigned);

__global__ void grow(unsigned *p, size_t begin, size_t end, size_t stride, unsigned by) {
  for (size_t i = begin + threadIdx.x * stride; i < end; i += blockDim.x * stride) p[i] = p[i] * 3 + by;
}
__global__ void wait_a_little(unsigned *p, int rounds) {
  unsigned x = *p;
  for (int i = 0; i < rounds; i++) x = x * 1664525 + 1013904223;
  *p = x;
}

static unsigned *managed(size_t words) {
  unsigned *p;
  CUDA(cudaMallocManaged(&p, words * sizeof *p));
  return p;
}
static void grow_all(unsigned *p, size_t words, unsigned by, size_t stride = 1, cudaStream_t s = nullptr) {
  grow<<<1, 64, 0, s>>>(p, 0, words, stride, by);
}
static bool concurrent() {
  int can = 0;
  CUDA(cudaDeviceGetAttribute(&can, cudaDevAttrConcurrentManagedAccess, 0));
  return can != 0;
}

static void pause_here() {
  std::puts("ready");
  std::fflush(stdout);
  while (access("pause", F_OK) == 0) usleep(2000);
}

static void held() {
  constexpr size_t kWords = 4 * kPart;
  unsigned *device = managed(kWords), *both = managed(kWords), *host = managed(kWords), *mixed = managed(kWords);
  unsigned *small[3] = {managed(10), managed(10), managed(10)};
  for (unsigned *p : {device, both, host, mixed, small[0], small[1], small[2]}) p[0] = p[9] = 5;
  for (unsigned *p : {device, both, host, mixed}) grow_all(p, kWords, 1, 1000);
  for (unsigned *p : small) grow_all(p, 10, 1, 9);
  CUDA(cudaDeviceSynchronize());
  constexpr size_t kLast = (kWords - 1) / 1000 * 1000;
  CHECK(both[0] == 16 && both[1000] == 1 && both[kLast] == 1 && both[kWords - 1] == 0);
  for (size_t i = 0; i < kWords; i += 500) host[i] += 7;
  mixed[2 * kPart + 5] = 99;
  small[1][3] = 4;
  pause_here();
  for (int round = 0; round < 2; round++) {
    unsigned now = round == 0 ? 1 : 5;
    CHECK(device[1000] == now && both[1000] == now && both[kLast] == now && mixed[1000] == now);
    CHECK(device[0] == (round == 0 ? 16u : 50u) && device[kWords - 1] == 0 && small[2][9] == (round == 0 ? 16u : 50u));
    CHECK(host[1000] == (round == 0 ? 8u : 26u) && host[500] == 7 && host[501] == 0);
    CHECK(mixed[2 * kPart + 5] == 99 && small[1][3] == 4 && small[1][0] == (round == 0 ? 16u : 50u));
    if (round > 0) break;
    for (unsigned *p : {device, both, host, mixed}) grow_all(p, kWords, 2, 1000);
    for (unsigned *p : small) grow_all(p, 10, 2, 9);
    CUDA(cudaDeviceSynchronize());
  }
  for (unsigned *p : {device, both, host, mixed, small[0], small[1], small[2]}) CUDA(cudaFree(p));
}

// Where both sides cannot use it at once, the host waits by touching it.
static void without_a_wait() {
  unsigned *p = managed(kPart);
  for (unsigned i = 1; i < 20; i++) {
    p[7] = i;
    wait_a_little<<<1, 1>>>(p, 20'000);
    grow_all(p, kPart, i, 7);
    if (concurrent()) CUDA(cudaDeviceSynchronize());
    CHECK(p[7] == 4 * i);
  }
  CUDA(cudaFree(p));
}

static void streams() {
  cudaStream_t a, b;
  CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CUDA(cudaStreamCreate(&b));
  unsigned *p = managed(3 * kPart), *q = managed(100);
  for (unsigned i = 0; i < 10; i++) {
    p[0] = p[kPart] = q[5] = i;
    grow_all(p, 3 * kPart, 1, kPart, a);
    grow_all(q, 100, 2, 5, b);
    CUDA(cudaMemcpyAsync(q + 50, q + 5, 4, cudaMemcpyDefault, b));
    CUDA(cudaDeviceSynchronize());
    CHECK(p[0] == 3 * i + 1 && p[kPart] == 3 * i + 1 && q[5] == 3 * i + 2 && q[50] == 3 * i + 2);
  }
  // Attached to a stream, and to the host.
  CUDA(cudaStreamAttachMemAsync(a, q, 0, cudaMemAttachSingle));
  CUDA(cudaStreamSynchronize(a));
  grow_all(q, 1, 3, 1, a);
  CUDA(cudaStreamSynchronize(a));
  CHECK(q[5] == 29);
}

// Whatever the program says of a side, it is memory of both.
static void copies() {
  constexpr size_t kWords = kPart + 500;
  unsigned *p = managed(kWords), *q = managed(kWords), *device;
  std::vector<unsigned> plain(kWords);
  CUDA(cudaMalloc(&device, kWords * 4));
  for (size_t i = 0; i < kWords; i++) p[i] = i;
  const size_t kBytes = kWords * 4;
  CHECK(cuMemcpyHtoD(CUdeviceptr(device), p, kBytes) == CUDA_SUCCESS);
  grow_all(p, kWords, 1);
  CHECK(cuMemcpyDtoH(q, CUdeviceptr(device), kBytes) == CUDA_SUCCESS);
  CHECK(q[kWords - 1] == kWords - 1 && p[kWords - 1] == 3 * (kWords - 1) + 1);
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  grow_all(q, kWords, 1, 1, s);
  CHECK(cuMemcpyHtoDAsync(CUdeviceptr(device), q, kBytes, s) == CUDA_SUCCESS);  // behind the kernel
  CHECK(cuMemcpyDtoHAsync(p, CUdeviceptr(device), 400, s) == CUDA_SUCCESS);
  CUDA(cudaMemcpyAsync(plain.data(), q, kBytes, cudaMemcpyDeviceToHost, s));
  CUDA(cudaStreamSynchronize(s));
  CHECK(p[99] == 3 * 99 + 1 && p[100] == 3 * 100 + 1 && plain[kWords - 1] == 3 * (kWords - 1) + 1);
  CUDA(cudaMemset(q, 1, 8));
  if (concurrent()) CUDA(cudaDeviceSynchronize());
  CHECK(q[0] == 0x01010101 && q[1] == 0x01010101 && q[2] == 7);
  CUDA(cudaMemcpy2D(p, 40, q, 80, 20, 3, cudaMemcpyHostToHost));
  CHECK(p[0] == 0x01010101 && p[10] == q[20] && p[15] == 3 * 15 + 1);
  // Arrays have no common address.
  cudaArray_t array;
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
  CUDA(cudaMallocArray(&array, &format, 16, 4));
  grow_all(p, 64, 5);
  CUDA(cudaMemcpy2DToArray(array, 0, 0, p, 64, 64, 4, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy2DFromArray(q, 64, array, 0, 0, 64, 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) CHECK(q[i] == p[i]);
  CUarray line;
  CUDA_ARRAY_DESCRIPTOR one{64, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1};
  CHECK(cuArrayCreate(&line, &one) == CUDA_SUCCESS);
  grow_all(p, 64, 6, 1, s);
  CHECK(cuMemcpyHtoAAsync(line, 0, p, 256, s) == CUDA_SUCCESS);
  CHECK(cuMemcpyAtoHAsync(q, line, 4, 200, s) == CUDA_SUCCESS);
  CUDA(cudaStreamSynchronize(s));
  CHECK(cuMemcpyAtoH(q + 100, line, 0, 256) == CUDA_SUCCESS);
  CHECK(q[0] == p[1] && q[49] == p[50] && q[163] == p[63]);
}

static void graphs() {
  unsigned *p = managed(kPart), *q = managed(kPart);
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamCreate(&s));
  p[3] = 10;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  p[3] = 11;  // nothing of the capture has run
  grow_all(p, kPart, 1, 3, s);
  CUDA(cudaMemcpyAsync(q, p, 64, cudaMemcpyHostToHost, s));
  CHECK(p[3] == 11);
  CUDA(cudaStreamEndCapture(s, &graph));
  cudaGraphNode_t copy;
  CUDA(cudaGraphAddMemcpyNode1D(&copy, graph, nullptr, 0, q + 100, p + 1000, 64, cudaMemcpyHostToHost));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (unsigned i = 0; i < 5; i++) {
    p[3] = i;
    p[1001] = i + 9;
    CUDA(cudaGraphLaunch(exec, s));
    CUDA(cudaStreamSynchronize(s));
    CHECK(p[3] == 3 * i + 1 && q[3] == 3 * i + 1 && q[101] == i + 9);
  }
}

static void host_functions() {
  struct State {
    unsigned *p, *q;
    int calls = 0;
  } state{managed(kPart), managed(20)};
  cudaStream_t s;
  CUDA(cudaStreamCreate(&s));
  auto change = [](void *data) {
    auto *t = static_cast<State *>(data);
    t->p[0] += t->p[kPart - 1] + t->q[0];
    t->calls++;
  };
  unsigned first = 1, last = 2;
  state.p[0] = first, state.p[kPart - 1] = last, state.q[0] = 4;
  for (int i = 0; i < 20; i++) {
    grow_all(state.p, kPart, 1, kPart - 1, s);
    CUDA(cudaLaunchHostFunc(s, change, &state));
    grow_all(state.p, kPart, 2, kPart - 1, s);
    first = (first * 3 + 1 + last * 3 + 1 + 4) * 3 + 2;
    last = (last * 3 + 1) * 3 + 2;
    // A call that waits for the function, and a thread that waits for the devices.
    unsigned word = 0;
    if (i % 3 == 0) {
      CUDA(cudaMemcpy(&word, state.p, 4, cudaMemcpyDefault));
      CHECK(word == first);
    }
    if (i % 3 == 1 && !concurrent()) CHECK(state.p[0] == first);
    CUDA(cudaStreamSynchronize(s));
    CHECK(state.p[0] == first && state.p[kPart - 1] == last && state.calls == i + 1);
  }
}

static void threads() {
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; t++)
    all.emplace_back([t] {
      unsigned *p = managed(t % 2 ? 50 : kPart + 1), n = t % 2 ? 50 : kPart + 1;
      cudaStream_t s;
      CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
      unsigned expected = p[n - 1] = t;
      for (unsigned i = 0; i < 40; i++) {
        grow_all(p, n, i, n - 1, s);
        CUDA(cudaStreamSynchronize(s));
        expected = expected * 3 + i;
        CHECK(p[n - 1] == expected);
        if (i % 2) p[n - 1] = expected += 7;
      }
      CUDA(cudaFree(p));
    });
  for (std::thread &t : all) t.join();
}

// System calls, and functions of the C library that make them, on memory that the device has.
static void calls() {
  constexpr size_t kWords = 2 * kPart + 100, kBytes = kWords * 4;
  unsigned *p = managed(kWords), *q = managed(kWords), round = 0;
  for (size_t i = 0; i < kWords; i++) p[i] = i;
  int file = open("words", O_RDWR | O_CREAT | O_TRUNC, 0600), ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  std::FILE *stream = std::fopen("stream", "w+");
  auto next = [&] {
    grow_all(p, kWords, ++round, kPart / 2);
    CUDA(cudaMemset(q, 0, kBytes));
    CUDA(cudaDeviceSynchronize());
    lseek(file, 0, SEEK_SET);
    std::rewind(stream);
  };
  auto same = [&] { return std::memcmp(p, q, kBytes) == 0; };
  next();
  CHECK(write(file, p, kBytes) == ssize_t(kBytes) && lseek(file, 0, SEEK_SET) == 0);
  CHECK(read(file, q, kBytes) == ssize_t(kBytes) && same());
  next();
  CHECK(pwrite(file, p, kBytes, 8) == ssize_t(kBytes) && pread(file, q, kBytes, 8) == ssize_t(kBytes) && same());
  next();
  iovec out[2] = {{p, 100}, {p + 25, kBytes - 100}}, in[2] = {{q, 5000}, {q + 1250, kBytes - 5000}};
  CHECK(writev(file, out, 2) == ssize_t(kBytes) && lseek(file, 0, SEEK_SET) == 0);
  CHECK(readv(file, in, 2) == ssize_t(kBytes) && same());
  next();
  CHECK(std::fwrite(p, 4, kWords, stream) == kWords);
  std::rewind(stream);
  CHECK(std::fread(q, 4, kWords, stream) == kWords && same());
  for (int how = 0; how < 2; how++) {
    next();
    std::thread sender([&] {
      size_t sent = 0;
      while (sent < kBytes) {
        iovec part{reinterpret_cast<char *>(p) + sent, kBytes - sent};
        msghdr m{};
        m.msg_iov = &part, m.msg_iovlen = 1;
        ssize_t n = how ? sendmsg(ends[0], &m, 0) : send(ends[0], part.iov_base, part.iov_len, 0);
        CHECK(n > 0);
        sent += n;
      }
    });
    msghdr m{};
    in[0] = {q, kBytes};
    m.msg_iov = in, m.msg_iovlen = 1;
    CHECK((how ? recvmsg(ends[1], &m, MSG_WAITALL) : recv(ends[1], q, kBytes, MSG_WAITALL)) == ssize_t(kBytes));
    sender.join();
    CHECK(same());
  }
  // What is no memory is still refused.
  CHECK(write(file, reinterpret_cast<void *>(8), 4) == -1 && errno == EFAULT);
  CHECK(read(file, p + kWords - 1, 4) == 4);
}

static void attributes() {
  unsigned *p = managed(1000);
  cudaPointerAttributes a{};
  CUDA(cudaPointerGetAttributes(&a, p + 5));
  CHECK(a.type == cudaMemoryTypeManaged && a.devicePointer == p + 5 && a.hostPointer == p + 5 && a.device == 0);
  CUdeviceptr base = 0, at = CUdeviceptr(p);
  size_t bytes = 0;
  CHECK(cuMemGetAddressRange(&base, &bytes, at + 40) == CUDA_SUCCESS && base == at && bytes == 4000);
  unsigned type = 0;
  bool is_managed = false;
  CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *out[] = {&type, &is_managed};
  CHECK(cuPointerGetAttributes(2, what, out, at) == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE && is_managed);
  CUDA(cudaMemPrefetchAsync(p, 4000, {cudaMemLocationTypeDevice, 0}, 0, nullptr));
  CUDA(cudaMemPrefetchAsync(p, 4000, {cudaMemLocationTypeHost, 0}, 0, nullptr));
  CUDA(cudaMemAdvise(p, 4000, cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, 0}));
  int preferred = 0;
  CHECK(cuMemRangeGetAttribute(&preferred, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, 4000) == CUDA_SUCCESS);
  CHECK(preferred == CU_DEVICE_INVALID);
  CHECK(cuMemAllocManaged(&at, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocManaged(&at, 8, 77) == CUDA_ERROR_INVALID_VALUE);
  // Zeros, also where other allocations were.
  for (int i = 0; i < 200; i++) {
    unsigned *again = managed(i % 7 ? 900 : kPart + 3);
    CHECK(again[i] == 0 && again[899] == 0);
    again[i] = i;
    grow_all(again, 900, 1, 100);
    CUDA(cudaDeviceSynchronize());
    CHECK(again[i] == (i % 100 ? unsigned(i) : 3u * i + 1));
    CUDA(cudaFree(again));
  }
  CUDA(cudaDeviceReset());
  unsigned *later = managed(10);
  later[1] = 3;
  grow_all(later, 10, 1);
  CUDA(cudaDeviceSynchronize());
  CHECK(later[1] == 10);
}

// A program has a handler of its own, and faults of its own.
static sigjmp_buf back;
static int own_faults = 0;
static void own_handler(int, siginfo_t *info, void *) {
  if (reinterpret_cast<size_t>(info->si_addr) > 4096) _exit(3);
  own_faults++;
  siglongjmp(back, 1);
}
static void handlers() {
  unsigned *p = managed(100);
  grow_all(p, 100, 1);
  CUDA(cudaDeviceSynchronize());
  CHECK(p[5] == 1);
  struct sigaction own {};
  own.sa_sigaction = own_handler;
  own.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(sigaction(SIGSEGV, &own, nullptr) == 0);
  for (unsigned i = 0, expected = 1; i < 5; i++) {
    grow_all(p, 100, i);
    CUDA(cudaDeviceSynchronize());
    CHECK(p[5] == (expected = expected * 3 + i));
    if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int *>(8) = 1;
    CHECK(own_faults == int(i) + 1);
    p[7] += 1;
  }
}

// A child has no managed memory, and the parent's is not changed.
static void forks() {
  unsigned *p = managed(kPart);
  p[1] = 5;
  for (int round = 0; round < 2; round++) {
    pid_t child = fork();
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);
      p[1] = 77;
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(p[1] == (round == 0 ? 5u : 16u));
    if (concurrent()) break;
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    grow_all(p, kPart, 1, kPart);
    grow<<<1, 1>>>(p, 1, 2, 1, 1);
    CUDA(cudaDeviceSynchronize());
  }
}

static void two_devices() {
  int n = 0;
  CUDA(cudaGetDeviceCount(&n));
  CHECK(n == 2);
  unsigned *p = managed(100), expected = 0;
  for (unsigned i = 0; i < 6; i++) {
    CUDA(cudaSetDevice(i % 2));
    grow_all(p, 100, i, 99);
    CUDA(cudaDeviceSynchronize());
    CHECK(p[99] == (expected = expected * 3 + i));
  }
}

// ---- random steps against a model

static std::mt19937 rnd;
static size_t below(size_t n) { return rnd() % n; }

struct Piece {
  unsigned *p;
  std::vector<unsigned> model;
  explicit Piece(size_t words) : p(managed(words)), model(words) {}
  ~Piece() { CUDA(cudaFree(p)); }
  Piece(const Piece &) = delete;
  size_t words() const { return model.size(); }
  void check(size_t begin, size_t end) const { CHECK(std::memcmp(p + begin, &model[begin], (end - begin) * 4) == 0); }
};

class History {
 public:
  History() {
    for (auto &s : streams_) CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  }
  void step() {
    switch (pieces_.empty() ? 0 : below(10)) {
      case 0: return pieces_.size() > 12 ? free_one() : allocate();
      case 1: return below(3) ? on_host() : free_one();
      case 2:
      case 3: return on_device();
      case 4:
      case 5: return on_host();
      case 6: return copy();
      case 7: return fill();
      case 8: return look();
      default: return below(2) ? advise() : on_device();
    }
  }
  void check_all() {
    wait();
    for (auto &p : pieces_) p->check(0, p->words());
  }
  void wait() {
    for (auto &s : streams_) CUDA(cudaStreamSynchronize(s));
  }

 private:
  Piece &any() { return *pieces_[below(pieces_.size())]; }
  cudaStream_t &stream() { return streams_[0]; }
  void allocate() { pieces_.push_back(std::make_unique<Piece>(1 + below(below(3) ? 2000 : 3 * kPart))); }
  void free_one() { pieces_.erase(pieces_.begin() + below(pieces_.size())); }
  void on_device() {
    Piece &x = any();
    size_t begin = below(x.words()), end = begin + 1 + below(x.words() - begin), stride = 1 + (end - begin) / 300;
    unsigned by = rnd();
    grow<<<1, 64, 0, stream()>>>(x.p, begin, end, stride, by);
    for (size_t i = begin; i < end; i += stride) x.model[i] = x.model[i] * 3 + by;
  }
  void on_host() {
    wait();
    Piece &x = any();
    size_t begin = below(x.words()), end = begin + 1 + below(std::min<size_t>(x.words() - begin, 3000));
    for (size_t i = begin; i < end; i++) x.p[i] = x.model[i] = rnd();
  }
  void look() {
    if (concurrent() || below(2)) wait();
    Piece &x = any();
    size_t begin = below(x.words());
    x.check(begin, begin + 1 + below(x.words() - begin));
  }
  void copy() {
    Piece &x = any(), &y = any();
    size_t n = 1 + below(std::min(x.words(), y.words())), from = below(x.words() - n + 1), to = below(y.words() - n + 1);
    if (&x == &y && (from < to ? to - from : from - to) < n) return;
    cudaMemcpyKind kinds[] = {cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                              cudaMemcpyDeviceToDevice};
    wait();
    CUDA(cudaMemcpyAsync(y.p + to, x.p + from, n * 4, kinds[below(4)], stream()));
    std::memmove(&y.model[to], &x.model[from], n * 4);
  }
  void fill() {
    Piece &x = any();
    size_t begin = below(x.words()), n = 1 + below(x.words() - begin);
    unsigned char value = rnd();
    CUDA(cudaMemsetAsync(x.p + begin, value, n * 4, stream()));
    std::memset(&x.model[begin], value, n * 4);
  }
  void advise() {
    Piece &x = any();
    CUDA(cudaMemPrefetchAsync(x.p, x.words() * 4, {cudaMemLocationTypeDevice, 0}, 0, stream()));
  }

  std::vector<std::unique_ptr<Piece>> pieces_;
  cudaStream_t streams_[1];
};

static int history(unsigned seed, int count, unsigned suspends) {
  int suspended = 0;
  CUDA(cudaFree(nullptr));  // from the first line on, the program uses the device
  for (int n = 0; n < count; n++) {
    if (n % 10 == 0) std::printf("history %d\n", n), std::fflush(stdout);
    rnd.seed(seed + n);
    History h;
    for (int steps = 20 + below(60); steps > 0; steps--) {
      h.step();
      if (below(100) >= suspends) continue;
      CHECK((below(2) ? ckpt_suspend : ckpt_suspend_memory)(nullptr) == 0 && ckpt_resume() == 0);
      suspended++;
    }
    h.check_all();
  }
  std::printf("suspended %d times\n", suspended);
  return passed();
}

int main(int argc, char **argv) {
  struct {
    const char *name;
    void (*run)();
  } const all[] = {{"held", held},           {"without_a_wait", without_a_wait},
                   {"streams", streams},     {"copies", copies},
                   {"graphs", graphs},       {"host_functions", host_functions},
                   {"threads", threads},     {"attributes", attributes},
                   {"handlers", handlers},   {"forks", forks},
                   {"two_devices", two_devices}, {"calls", calls}};
  if (argc > 3 && std::strcmp(argv[1], "history") == 0)
    return history(std::atoi(argv[2]), std::atoi(argv[3]), argc > 4 ? std::atoi(argv[4]) : 0);
  for (auto &a : all)
    if (argc > 1 && std::strcmp(argv[1], a.name) == 0) return a.run(), passed();
  return 2;
}

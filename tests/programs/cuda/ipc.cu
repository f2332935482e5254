// SPDX-License-Identifier: Apache-2.0
//
// Memory and events that two processes share, as the CUDA driver API documents cuIpc*.
//
//   ipc                       starts the other process of each pair itself, before it uses CUDA
//   ipc export|import IN OUT  one of two processes that talk through these descriptors
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "check.h"

static_assert(cudaIpcMemLazyEnablePeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

constexpr int kSmall = 1000, kLarge = 1 << 20, kInner = 5000;

__global__ void apply(int *p, int n, int times, int plus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * times + plus;
}
static void start(int *p, int n, int times, int plus, cudaStream_t s) {
  apply<<<(n + 255) / 256, 256, 0, s>>>(p, n, times, plus);
  CUDA(cudaGetLastError());
}
static int *new_ints(int n, int value) {
  int *p;
  CUDA(cudaMalloc(&p, n * sizeof(int)));
  start(p, n, 0, value, nullptr);
  CUDA(cudaDeviceSynchronize());
  return p;
}
static void check_ints(const int *p, int n, int value) {
  std::vector<int> all(n);
  CUDA(cudaMemcpy(all.data(), p, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int x : all) CHECK(x == value);
}
static cudaStream_t new_stream() {
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}
static cudaEvent_t new_event() {
  cudaEvent_t e;
  CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventInterprocess));
  return e;
}
// What follows in the stream has not begun when the other process waits for it.
static void delay(cudaStream_t s) {
  CUDA(cudaLaunchHostFunc(s, [](void *) { usleep(150000); }, nullptr));
}

struct Link {
  int in, out;
  template <class T>
  void send(const T &value) {
    CHECK(write(out, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  }
  template <class T>
  T receive() {
    T value;
    char *to = reinterpret_cast<char *>(&value);
    for (size_t done = 0; done < sizeof value;) {
      ssize_t n = read(in, to + done, sizeof value - done);
      CHECK(n > 0);
      done += n;
    }
    return value;
  }
};

static cudaIpcMemHandle_t handle_of(void *p) {
  cudaIpcMemHandle_t h;
  CUDA(cudaIpcGetMemHandle(&h, p));
  return h;
}
static cudaIpcEventHandle_t handle_of(cudaEvent_t e) {
  cudaIpcEventHandle_t h;
  CUDA(cudaIpcGetEventHandle(&h, e));
  return h;
}
static int *open(const cudaIpcMemHandle_t &h) {
  void *p;
  CUDA(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess));
  return static_cast<int *>(p);
}
static cudaError_t error_of_open(const cudaIpcMemHandle_t &h, unsigned flags = cudaIpcMemLazyEnablePeerAccess) {
  void *p;
  cudaError_t e = cudaIpcOpenMemHandle(&p, h, flags);
  cudaGetLastError();
  return e;
}
template <class Handle>
static bool same(const Handle &a, const Handle &b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// The driver's own checkpoint of this process.
static CUresult checkpoint_and_restore() {
  CHECK(cuCheckpointProcessLock(getpid(), nullptr) == CUDA_SUCCESS);
  CUresult e = cuCheckpointProcessCheckpoint(getpid(), nullptr);
  if (e == CUDA_SUCCESS) CHECK(cuCheckpointProcessRestore(getpid(), nullptr) == CUDA_SUCCESS);
  CHECK(cuCheckpointProcessUnlock(getpid(), nullptr) == CUDA_SUCCESS);
  return e;
}

static void check_wrong_arguments(int *p, cudaEvent_t shareable) {
  cudaIpcMemHandle_t h = handle_of(p), zero{}, other = h;
  cudaIpcEventHandle_t eh = handle_of(shareable);
  cudaEvent_t e;
  int on_host;
  int capable = -1;
  CHECK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, reinterpret_cast<CUdeviceptr>(p)) ==
        CUDA_SUCCESS && capable == 1);
  CUDA(cudaDeviceGetAttribute(&capable, cudaDevAttrIpcEventSupport, 0));
  CHECK(capable == 1);
  CHECK(error_of_open(h) == cudaErrorDeviceUninitialized);  // the process that exports it
  CHECK(cudaIpcOpenEventHandle(&e, eh) == cudaErrorDeviceUninitialized);
  CHECK(error_of_open(h, 0) == cudaErrorInvalidValue);
  CHECK(error_of_open(zero) == cudaErrorInvalidResourceHandle);
  other.reserved[20] ^= 1;
  CHECK(error_of_open(other) == cudaErrorInvalidResourceHandle);
  std::memcpy(&other, &eh, sizeof other);
  CHECK(error_of_open(other) == cudaErrorInvalidResourceHandle);
  CHECK(cudaIpcGetMemHandle(&h, &on_host) == cudaErrorInvalidValue);
  CHECK(cudaIpcCloseMemHandle(p) == cudaErrorInvalidValue);
  CHECK(cudaEventCreateWithFlags(&e, cudaEventInterprocess) == cudaErrorInvalidValue);
  CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  CHECK(cudaIpcGetEventHandle(&eh, e) == cudaErrorInvalidValue);
  CUDA(cudaEventDestroy(e));
  void *pooled;
  CUDA(cudaMallocAsync(&pooled, 4096, nullptr));
  CHECK(cudaIpcGetMemHandle(&h, pooled) == cudaErrorInvalidValue);
  CUDA(cudaFreeAsync(pooled, nullptr));
  cudaGetLastError();
}

struct Offer {
  cudaIpcMemHandle_t small, neighbour, large;
  cudaIpcEventHandle_t pending, there, back;
};

static void export_all(Link link) {
  int *before = new_ints(10, 11), *small = new_ints(kSmall, 1), *neighbour = new_ints(kSmall, 2), *after = new_ints(10, 12);
  int *large = new_ints(kLarge, 3);
  cudaStream_t s = new_stream();
  cudaEvent_t pending = new_event(), there = new_event(), back = new_event();
  check_wrong_arguments(small, there);
  Offer o{handle_of(small), handle_of(neighbour), handle_of(large), {}, handle_of(there), handle_of(back)};
  CHECK(same(handle_of(large + kInner), o.large) && same(handle_of(small), o.small) && !same(o.small, o.neighbour));
  check_ints(small, kSmall, 1);
  delay(s);
  start(large, kLarge, 2, 1, s);  // 7
  CUDA(cudaEventRecord(pending, s));
  o.pending = handle_of(pending);
  CHECK(cudaEventQuery(pending) == cudaErrorNotReady);
  link.send(o);

  // The other process has made it 70, and 71 once we have made it 700.
  CHECK(link.receive<char>() == 'r');
  CUDA(cudaStreamWaitEvent(s, back, 0));
  delay(s);
  start(large, kLarge, 10, 0, s);
  CUDA(cudaEventRecord(there, s));
  link.send('g');
  CHECK(link.receive<char>() == 'w');
  CUDA(cudaEventSynchronize(back));
  check_ints(large, kLarge, 701);
  check_ints(small, kSmall, 5);
  check_ints(neighbour, kSmall, 2);
  check_ints(before, 10, 11);
  check_ints(after, 10, 12);

  // Memory that is freed can be opened no more; new memory at its address has a handle of its own.
  CHECK(checkpoint_and_restore() == CUDA_ERROR_NOT_SUPPORTED);
  CUDA(cudaFree(small));
  small = new_ints(kSmall, 9);
  CHECK(!same(handle_of(small), o.small));
  link.send(handle_of(small));
  CHECK(link.receive<char>() == 'f');

  // A process that dies finishes nothing, so nothing waits for it.
  pid_t pid = link.receive<pid_t>();
  CHECK(cudaEventQuery(back) == cudaErrorNotReady);
  CHECK(kill(pid, SIGKILL) == 0);
  CUDA(cudaEventSynchronize(back));
  CUDA(cudaStreamWaitEvent(s, back, 0));
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaEventQuery(back));

  // When nothing is shared any more, the process can be checkpointed, with what it had.
  for (int *p : {small, neighbour, large}) CUDA(cudaFree(p));
  CHECK(checkpoint_and_restore() == CUDA_ERROR_NOT_SUPPORTED);
  for (cudaEvent_t e : {pending, there, back}) CUDA(cudaEventDestroy(e));
  CHECK(checkpoint_and_restore() == CUDA_SUCCESS);
  check_ints(before, 10, 11);
  check_ints(after, 10, 12);
  start(before, 10, 2, 0, nullptr);
  check_ints(before, 10, 22);
  handle_of(before);
  check_ints(before, 10, 22);
}

static void import_all(Link link) {
  Offer o = link.receive<Offer>();
  cudaStream_t s = new_stream();
  cudaEvent_t pending, there, back;
  CUDA(cudaIpcOpenEventHandle(&pending, o.pending));
  CUDA(cudaIpcOpenEventHandle(&there, o.there));
  CUDA(cudaIpcOpenEventHandle(&back, o.back));
  CUDA(cudaEventQuery(there));  // never recorded
  int *small = open(o.small), *neighbour = open(o.neighbour), *large = open(o.large);
  CHECK(open(o.large) == large && open(o.small) == small);
  CHECK(checkpoint_and_restore() == CUDA_ERROR_NOT_SUPPORTED);
  cudaPointerAttributes a;
  CUDA(cudaPointerGetAttributes(&a, large + kInner));
  CHECK(a.type == cudaMemoryTypeDevice);
  CUdeviceptr base;
  size_t bytes;
  CHECK(cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(large + kInner)) == CUDA_SUCCESS);
  CHECK(base == reinterpret_cast<CUdeviceptr>(large) && bytes == kLarge * sizeof(int));
  cudaIpcMemHandle_t again;
  CHECK(cudaIpcGetMemHandle(&again, large) == cudaErrorInvalidValue);
  CHECK(cudaFree(large) == cudaErrorInvalidValue);
  cudaGetLastError();
  check_ints(small, kSmall, 1);
  check_ints(neighbour, kSmall, 2);

  CUDA(cudaStreamWaitEvent(s, pending, 0));
  start(large, kLarge, 10, 0, s);
  start(small, kSmall, 1, 4, s);
  CUDA(cudaEventRecord(back, s));
  link.send('r');
  CHECK(link.receive<char>() == 'g');
  CUDA(cudaStreamWaitEvent(s, there, 0));
  start(large, kLarge, 1, 1, s);
  CUDA(cudaEventRecord(back, s));
  link.send('w');

  cudaIpcMemHandle_t renewed = link.receive<cudaIpcMemHandle_t>();
  CUDA(cudaIpcCloseMemHandle(small));
  CHECK(open(o.large) == large);
  CUDA(cudaIpcCloseMemHandle(large));
  CUDA(cudaIpcCloseMemHandle(large));
  check_ints(large, kLarge, 701);
  CUDA(cudaIpcCloseMemHandle(large));
  CHECK(cudaIpcCloseMemHandle(large) == cudaErrorInvalidValue);
  cudaGetLastError();
  int x;
  CHECK(cudaMemcpy(&x, large, sizeof x, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  cudaGetLastError();
  // One use of the first small memory is left, although its handle is not valid any more.
  CUDA(cudaIpcCloseMemHandle(small));
  CHECK(error_of_open(o.small) == cudaErrorInvalidResourceHandle);
  small = open(renewed);
  check_ints(small, kSmall, 9);
  CUDA(cudaIpcCloseMemHandle(small));
  CUDA(cudaIpcCloseMemHandle(neighbour));
  CHECK(checkpoint_and_restore() == CUDA_ERROR_NOT_SUPPORTED);  // the events
  link.send('f');

  CUDA(cudaLaunchHostFunc(s, [](void *) { pause(); }, nullptr));
  CUDA(cudaEventRecord(back, s));
  link.send(getpid());
  pause();
}

// The exporting process ends. What was opened stays, and nothing more can be opened.
static void export_and_end(Link link) {
  link.send(handle_of(new_ints(kLarge, 42)));
  link.send(handle_of(new_ints(kSmall, 43)));
  CHECK(link.receive<char>() == 'o');
}
static void outlive(Link link, pid_t other) {
  cudaIpcMemHandle_t large = link.receive<cudaIpcMemHandle_t>(), small = link.receive<cudaIpcMemHandle_t>();
  int *p = open(large), status;
  link.send('o');
  CHECK(waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (int i = 0; i < 500 && error_of_open(small) == cudaSuccess; i++) usleep(10000);
  CHECK(error_of_open(small) == cudaErrorInvalidResourceHandle);
  start(p, kLarge, 2, 0, nullptr);
  check_ints(p, kLarge, 84);
  CUDA(cudaDeviceReset());  // closes it
  CHECK(cudaIpcCloseMemHandle(p) == cudaErrorInvalidValue);
  cudaGetLastError();
  CHECK(checkpoint_and_restore() == CUDA_SUCCESS);
}

// Many recordings, more than an event keeps apart, with many of them under way.
static void check_many_recordings() {
  cudaStream_t s = new_stream();
  cudaEvent_t e = new_event();
  handle_of(e);
  for (int i = 0; i < 10000; i++) CUDA(cudaEventRecord(e, s));
  CUDA(cudaEventSynchronize(e));
  delay(s);
  CUDA(cudaEventRecord(e, s));
  CHECK(cudaEventQuery(e) == cudaErrorNotReady);
  CUDA(cudaEventSynchronize(e));
  CUDA(cudaEventQuery(e));
  CUDA(cudaEventDestroy(e));
}

// Memory that is exported for the first time moves, and loses nothing of what kernels and copies write meanwhile.
static void check_exports_during_work() {
  constexpr int kInts = 300000, kKernels = 6;
  cudaStream_t s = new_stream();
  for (int round = 0; round < 10; round++) {
    int *p = new_ints(kInts, 0);
    for (int i = 0; i < kKernels; i++) start(p, kInts, 1, 1, s);
    usleep(1000 * round);
    handle_of(p);
    CUDA(cudaStreamSynchronize(s));
    check_ints(p, kInts, kKernels);
    CUDA(cudaFree(p));
  }
}

static Link start_other(const char *program, const char *role, pid_t &pid) {
  int to[2], from[2];
  CHECK(pipe(to) == 0 && pipe(from) == 0);
  pid = fork();
  if (pid == 0) {
    std::string in = std::to_string(to[0]), out = std::to_string(from[1]);
    close(to[1]), close(from[0]);
    execl(program, program, role, in.c_str(), out.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]), close(from[1]);
  return {from[0], to[1]};
}

int main(int argc, char **argv) {
  std::string role = argc > 1 ? argv[1] : "";
  Link link = argc > 3 ? Link{std::atoi(argv[2]), std::atoi(argv[3])} : Link{};
  if (role == "export") return export_all(link), passed();
  if (role == "import") return import_all(link), 1;
  if (role == "end") return export_and_end(link), 0;
  pid_t importer, exporter;
  int status;
  Link to_importer = start_other(argv[0], "import", importer), to_exporter = start_other(argv[0], "end", exporter);
  export_all(to_importer);
  CHECK(waitpid(importer, &status, 0) == importer && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  CUDA(cudaDeviceReset());
  outlive(to_exporter, exporter);
  check_many_recordings();
  check_exports_during_work();
  return passed();
}

// SPDX-License-Identifier: Apache-2.0
//
// Processes that share events by cudaIpc*:
//
//   ipc_events tensors STEPS CONSUMERS SEED  sends tensors to other processes as PyTorch does
//   ipc_events states    events in every state, of processes on different devices; waits while the
//                        file `pause` exists, and uses them again
//   ipc_events killed|killed-later exporter|importer  a process that has recorded is killed, while
//                        others wait; before or after the file `pause` has gone
//   ipc_events rules     what events and handles may and may not do
//   ipc_events held FILE | foreign FILE  a handle that another session tries to open
#include <cuda.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "check.h"

using u32 = unsigned;

struct Link {
  int fd = -1;
  template <class T>
  void send(const T &value) const {
    CHECK(write(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value));
  }
  template <class T>
  T receive() const {
    T value;
    CHECK(recv(fd, &value, sizeof value, MSG_WAITALL) == static_cast<ssize_t>(sizeof value));
    return value;
  }
};

struct Child {
  pid_t pid;
  Link link;
  void end() const {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
};

// Before this process uses CUDA.
static Child start_child(const std::function<void(Link)> &run) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    run({ends[1]});
    std::exit(0);
  }
  close(ends[1]);
  return {pid, {ends[0]}};
}

static cudaStream_t new_stream() {
  cudaStream_t s;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}
static cudaEvent_t new_event() {
  cudaEvent_t e;
  CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventInterprocess | cudaEventBlockingSync));
  return e;
}
static cudaIpcEventHandle_t handle_of(cudaEvent_t e) {
  cudaIpcEventHandle_t h;
  CUDA(cudaIpcGetEventHandle(&h, e));
  return h;
}
static cudaEvent_t open(const cudaIpcEventHandle_t &h) {
  cudaEvent_t e;
  CUDA(cudaIpcOpenEventHandle(&e, h));
  return e;
}
static cudaError_t error_of(cudaError_t e) {
  cudaGetLastError();
  return e;
}
static cudaError_t open_error(const cudaIpcEventHandle_t &h) {
  cudaEvent_t e;
  return error_of(cudaIpcOpenEventHandle(&e, h));
}
// What follows in the stream has not begun when others wait for it.
static void delay(cudaStream_t s, u32 milliseconds) {
  CUDA(cudaLaunchHostFunc(s, [](void *p) { usleep(1000 * reinterpret_cast<uintptr_t>(p)); },
                          reinterpret_cast<void *>(static_cast<uintptr_t>(milliseconds))));
}
static void say(const char *what) {
  std::puts(what);
  std::fflush(stdout);
}
static void wait_here() {
  say("started");
  while (access("pause", F_OK) == 0) usleep(2000);
}

// ---- tensors

constexpr u32 kBlockInts = 1 << 18, kTensorInts = 1 << 16, kTensorsOfBlock = 3, kBlocks = 2;

__global__ void fill(u32 *p, u32 seed) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  p[i] = seed * 2654435761u + i;
}
__global__ void take(const u32 *p, u32 seed, u32 *wrong, u32 *sum) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (p[i] != seed * 2654435761u + i) atomicAdd(wrong, 1);
  if (i == 0) atomicAdd(sum, p[i]);
}

// What PyTorch puts into a queue for a tensor (torch/multiprocessing/reductions.py).
struct Tensor {
  bool last;
  u32 seed, counter;
  size_t offset;
  cudaIpcMemHandle_t block;
  cudaIpcEventHandle_t event;
};

// The references of consumers to tensors, in memory of all processes.
static std::atomic<u32> *counters;

class Consumer {
 public:
  explicit Consumer(Link link) : link_(link) {}
  void run() {
    CUDA(cudaMalloc(&results_, 2 * sizeof(u32)));
    CUDA(cudaMemset(results_, 0, 2 * sizeof(u32)));
    stream_ = new_stream();
    link_.send('r');
    for (Tensor t = link_.receive<Tensor>(); !t.last; t = link_.receive<Tensor>()) use(t);
    u32 results[2];
    CUDA(cudaMemcpy(results, results_, sizeof results, cudaMemcpyDeviceToHost));
    CHECK(results[0] == 0);
    link_.send(results[1]);
  }

 private:
  void use(const Tensor &t) {
    auto *base = static_cast<char *>(open_block(t.block));
    cudaEvent_t e = open(t.event);
    CUDA(cudaStreamWaitEvent(stream_, e, 0));
    CUDA(cudaEventDestroy(e));
    take<<<kTensorInts / 256, 256, 0, stream_>>>(reinterpret_cast<u32 *>(base + t.offset), t.seed, results_, results_ + 1);
    CUDA(cudaGetLastError());
    CUDA(cudaStreamSynchronize(stream_));
    counters[t.counter]--;
    if (++used_ % 5 != 0) return;
    CUDA(cudaIpcCloseMemHandle(base));
    blocks_.erase(key(t.block));
  }
  static std::string key(const cudaIpcMemHandle_t &h) { return {h.reserved, sizeof h.reserved}; }
  void *open_block(const cudaIpcMemHandle_t &h) {
    void *&p = blocks_[key(h)];
    if (p == nullptr) CUDA(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess));
    return p;
  }

  Link link_;
  u32 *results_ = nullptr;  // how many values were wrong, and the sum of the first ones
  cudaStream_t stream_ = nullptr;
  std::map<std::string, void *> blocks_;
  u32 used_ = 0;
};

class Producer {
 public:
  Producer(std::vector<Child> consumers, u32 seed) : consumers_(std::move(consumers)), random_(seed), sums_(consumers_.size()) {
    for (u32 *&b : blocks_) CUDA(cudaMalloc(&b, kBlockInts * sizeof(u32)));
    for (cudaStream_t &s : streams_) s = new_stream();
    for (const Child &c : consumers_) CHECK(c.link.receive<char>() == 'r');
  }
  void run(u32 steps) {
    for (u32 i = 0; i < steps; i++) send(i);
    for (size_t c = 0; c < consumers_.size(); c++) {
      consumers_[c].link.send(Tensor{true});
      CHECK(consumers_[c].link.receive<u32>() == sums_[c]);
      consumers_[c].end();
    }
  }

 private:
  void send(u32 number) {
    u32 place = number % (kBlocks * kTensorsOfBlock), to = random_() % consumers_.size(), seed = random_();
    while (counters[place] > 0) usleep(50);
    if (events_[place] != nullptr) CUDA(cudaEventDestroy(events_[place]));
    Tensor t{false, seed, place, place % kTensorsOfBlock * kTensorInts * sizeof(u32)};
    u32 *block = blocks_[place / kTensorsOfBlock];
    cudaStream_t s = streams_[random_() % 2];
    if (random_() % 2 == 0) delay(s, random_() % 20);
    fill<<<kTensorInts / 256, 256, 0, s>>>(block + t.offset / sizeof(u32), seed);
    CUDA(cudaGetLastError());
    cudaEvent_t &e = events_[place] = new_event();
    CUDA(cudaEventRecord(e, s));
    CUDA(cudaIpcGetMemHandle(&t.block, block));
    t.event = handle_of(e);
    counters[place]++;
    sums_[to] += seed * 2654435761u;
    consumers_[to].link.send(t);
  }

  std::vector<Child> consumers_;
  std::mt19937 random_;
  std::vector<u32> sums_;
  u32 *blocks_[kBlocks];
  cudaStream_t streams_[2];
  cudaEvent_t events_[kBlocks * kTensorsOfBlock] = {};
};

static void tensors(u32 steps, u32 consumers, u32 seed) {
  counters = static_cast<std::atomic<u32> *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<Child> children;
  for (u32 i = 0; i < consumers; i++) children.push_back(start_child([](Link link) { Consumer(link).run(); }));
  Producer producer(std::move(children), seed);
  say("started");
  producer.run(steps);
}

// ---- states

// The child opens four events at first, and a fifth one only after `pause`.
constexpr int kNever = 0, kDone = 1, kPending = 2, kBack = 3, kLate = 4, kEvents = 5;
struct Handles {
  cudaIpcEventHandle_t all[kEvents];
};

static void use_last_device() {
  int n;
  CUDA(cudaGetDeviceCount(&n));
  CUDA(cudaSetDevice(n - 1));
}

static void states_child(Link link) {
  use_last_device();
  Handles h = link.receive<Handles>();
  cudaEvent_t e[kEvents], again = open(h.all[kDone]);
  for (int i = 0; i < kLate; i++) e[i] = open(h.all[i]);
  cudaStream_t s = new_stream();
  CUDA(cudaEventQuery(e[kNever]));
  CUDA(cudaEventQuery(e[kDone]));
  CHECK(cudaEventQuery(e[kPending]) == cudaErrorNotReady);
  CUDA(cudaStreamWaitEvent(s, e[kPending], 0));
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
  delay(s, 300);
  CUDA(cudaEventRecord(e[kBack], s));
  cudaGetLastError();
  link.send('r');

  CHECK(link.receive<char>() == 'g');  // after the pause
  e[kLate] = open(h.all[kLate]);
  for (cudaEvent_t one : e) CUDA(cudaEventSynchronize(one));
  CUDA(cudaStreamSynchronize(s));
  link.send('n');
  CHECK(link.receive<char>() == 'd');  // all are recorded again, and none is reached
  for (int i = 0; i < kEvents; i++) CHECK(i == kBack || cudaEventQuery(e[i]) == cudaErrorNotReady);
  CHECK(cudaEventQuery(again) == cudaErrorNotReady);
  for (cudaEvent_t one : e) CUDA(cudaStreamWaitEvent(s, one, 0));
  CUDA(cudaEventRecord(e[kBack], s));
  link.send('b');
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaEventSynchronize(again));
  for (cudaEvent_t one : e) CUDA(cudaEventQuery(one));
  CHECK(link.receive<char>() == 'x');  // the exporter has destroyed them
  for (cudaEvent_t one : e) {
    CUDA(cudaEventQuery(one));
    CUDA(cudaStreamWaitEvent(s, one, 0));
    CUDA(cudaEventRecord(one, s));
    CUDA(cudaEventSynchronize(one));
    CUDA(cudaEventDestroy(one));
  }
  CUDA(cudaEventDestroy(again));
  CHECK(open_error(h.all[kDone]) == cudaErrorInvalidResourceHandle);
  link.send('e');
}

static void states() {
  Child child = start_child(states_child);
  cudaStream_t s = new_stream();
  cudaEvent_t e[kEvents];
  Handles h;
  for (int i = 0; i < kEvents; i++) {
    e[i] = new_event();
    if (i == kDone) {
      CUDA(cudaEventRecord(e[i], s));
      CUDA(cudaEventSynchronize(e[i]));
    }
    if (i == kPending) {
      delay(s, 2000);
      CUDA(cudaEventRecord(e[i], s));
    }
    h.all[i] = handle_of(e[i]);
  }
  child.link.send(h);
  CHECK(child.link.receive<char>() == 'r');
  CHECK(cudaEventQuery(e[kBack]) == cudaErrorNotReady);
  wait_here();
  child.link.send('g');
  CHECK(child.link.receive<char>() == 'n');
  delay(s, 400);
  for (int i = 0; i < kEvents; i++)
    if (i != kBack) CUDA(cudaEventRecord(e[i], s));
  child.link.send('d');
  CHECK(child.link.receive<char>() == 'b');
  cudaStream_t other = new_stream();
  CUDA(cudaStreamWaitEvent(other, e[kBack], 0));
  CUDA(cudaStreamSynchronize(other));
  CUDA(cudaEventQuery(e[kLate]));
  CUDA(cudaEventSynchronize(e[kBack]));
  for (cudaEvent_t one : e) CUDA(cudaEventDestroy(one));
  child.link.send('x');
  CHECK(child.link.receive<char>() == 'e');
  child.end();
}

// ---- killed

// Records what is never reached.
static void record_for_ever(cudaEvent_t e) {
  cudaStream_t s = new_stream();
  CUDA(cudaLaunchHostFunc(s, [](void *) { pause(); }, nullptr));
  CUDA(cudaEventRecord(e, s));
}

static void killed(bool exporter, bool later) {
  Child child = start_child([&](Link link) {
    cudaEvent_t e = exporter ? new_event() : open(link.receive<cudaIpcEventHandle_t>());
    if (exporter) link.send(handle_of(e));
    CHECK(link.receive<char>() == 'g');
    record_for_ever(e);
    link.send('r');
    pause();
  });
  cudaEvent_t e = exporter ? open(child.link.receive<cudaIpcEventHandle_t>()) : new_event();
  if (!exporter) child.link.send(handle_of(e));
  if (later) wait_here();
  child.link.send('g');
  CHECK(child.link.receive<char>() == 'r');
  cudaStream_t s = new_stream();
  CUDA(cudaStreamWaitEvent(s, e, 0));
  usleep(200000);
  CHECK(cudaEventQuery(e) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
  CHECK(kill(child.pid, SIGKILL) == 0);
  CUDA(cudaEventSynchronize(e));
  CUDA(cudaStreamSynchronize(s));
  waitpid(child.pid, nullptr, 0);
  CUDA(cudaEventQuery(e));
  if (!later) wait_here();
  CUDA(cudaStreamWaitEvent(s, e, 0));
  delay(s, 50);
  CUDA(cudaEventRecord(e, s));
  CHECK(cudaEventQuery(e) == cudaErrorNotReady);
  CUDA(cudaEventSynchronize(e));
  CUDA(cudaStreamSynchronize(s));
  CUDA(cudaEventDestroy(e));
}

// ---- rules

static void check_handles() {
  cudaEvent_t e = new_event(), plain, out;
  cudaIpcEventHandle_t h = handle_of(e), again = handle_of(e), forged{};
  CHECK(std::memcmp(&h, &again, sizeof h) == 0);
  CHECK(open_error(h) == cudaErrorDeviceUninitialized);  // its own
  CHECK(open_error(forged) == cudaErrorInvalidResourceHandle);
  for (int at : {0, 8, 16, 18, 63}) {
    forged = h;
    forged.reserved[at] ^= 1;
    CHECK(open_error(forged) == cudaErrorInvalidResourceHandle);
  }
  CHECK(error_of(cudaIpcOpenEventHandle(nullptr, h)) == cudaErrorInvalidValue);
  CHECK(error_of(cudaIpcGetEventHandle(nullptr, e)) == cudaErrorInvalidValue);
  CHECK(error_of(cudaEventCreateWithFlags(&out, cudaEventInterprocess)) == cudaErrorInvalidValue);
  CUDA(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
  CHECK(error_of(cudaIpcGetEventHandle(&again, plain)) == cudaErrorInvalidValue);
  float milliseconds;
  CHECK(error_of(cudaEventElapsedTime(&milliseconds, e, e)) == cudaErrorInvalidResourceHandle);
  CUDA(cudaEventDestroy(plain));
  CUDA(cudaEventDestroy(e));
  CHECK(open_error(h) == cudaErrorInvalidResourceHandle);
  int supported = 0;
  CUDA(cudaDeviceGetAttribute(&supported, cudaDevAttrIpcEventSupport, 0));
  CHECK(supported == 1);
}

// Many recordings, more than the session keeps apart, with many of them under way.
static void check_many_recordings() {
  cudaStream_t s = new_stream();
  cudaEvent_t e = new_event();
  handle_of(e);
  delay(s, 100);
  for (int i = 0; i < 40000; i++) CUDA(cudaEventRecord(e, s));
  CUDA(cudaEventSynchronize(e));
  delay(s, 100);
  CUDA(cudaEventRecord(e, s));
  CHECK(cudaEventQuery(e) == cudaErrorNotReady);
  CUDA(cudaEventSynchronize(e));
  CUDA(cudaEventQuery(e));
  CUDA(cudaEventDestroy(e));
}

// More events than fit at once, one after the other.
static void check_many_events() {
  for (int i = 0; i < 20000; i++) {
    cudaEvent_t e = new_event();
    handle_of(e);
    CUDA(cudaEventDestroy(e));
  }
}

// An event that other processes may use is no part of a graph; one that is part of a graph is of this process alone.
static void check_graphs() {
  cudaEvent_t shared = new_event(), alone = new_event();
  cudaIpcEventHandle_t h = handle_of(shared);
  cudaGraph_t graph;
  cudaGraphNode_t node;
  CUDA(cudaGraphCreate(&graph, 0));
  CHECK(error_of(cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, shared)) == cudaErrorNotSupported);
  CHECK(error_of(cudaGraphAddEventWaitNode(&node, graph, nullptr, 0, shared)) == cudaErrorNotSupported);
  CUDA(cudaGraphAddEventRecordNode(&node, graph, nullptr, 0, alone));
  CHECK(error_of(cudaGraphEventRecordNodeSetEvent(node, shared)) == cudaErrorNotSupported);
  CHECK(error_of(cudaIpcGetEventHandle(&h, alone)) == cudaErrorNotSupported);
  cudaStream_t s = new_stream();
  cudaGraph_t captured;
  CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CHECK(error_of(cudaEventRecordWithFlags(shared, s, cudaEventRecordExternal)) == cudaErrorNotSupported);
  CHECK(error_of(cudaStreamWaitEvent(s, shared, cudaEventWaitExternal)) == cudaErrorNotSupported);
  CUDA(cudaEventRecord(shared, s));  // no node: an order of what is captured
  CUDA(cudaStreamWaitEvent(s, shared, 0));
  CUDA(cudaStreamEndCapture(s, &captured));
  size_t nodes = 1;
  CUDA(cudaGraphGetNodes(captured, nullptr, &nodes));
  CHECK(nodes == 0);
}

// Events of a context that is destroyed, and the memory of all events, which was registered in it.
static void check_reset() {
  cudaIpcEventHandle_t h = handle_of(new_event());
  CUDA(cudaDeviceReset());
  cudaEvent_t e = new_event();
  cudaStream_t s = new_stream();
  CUDA(cudaEventRecord(e, s));
  CUDA(cudaEventSynchronize(e));
  CHECK(open_error(h) == cudaErrorInvalidResourceHandle);
}

static void rules() {
  check_handles();
  check_many_recordings();
  check_many_events();
  check_graphs();
  check_reset();
}

static void keep_handle(const char *file) {
  cudaIpcEventHandle_t h = handle_of(new_event());
  std::FILE *out = std::fopen(file, "w");
  CHECK(std::fwrite(&h, sizeof h, 1, out) == 1);
  std::fclose(out);
  wait_here();
}

static void open_foreign(const char *file) {
  cudaIpcEventHandle_t h;
  std::FILE *in = std::fopen(file, "r");
  CHECK(std::fread(&h, sizeof h, 1, in) == 1);
  CUDA(cudaFree(nullptr));
  CHECK(open_error(h) == cudaErrorInvalidResourceHandle);
}

int main(int argc, char **argv) {
  std::string what = argc > 1 ? argv[1] : "";
  auto number = [&](int i) { return static_cast<u32>(std::atoi(argv[i])); };
  if (what == "tensors" && argc == 5) return tensors(number(2), number(3), number(4)), passed();
  if (what == "states") return states(), passed();
  if ((what == "killed" || what == "killed-later") && argc == 3)
    return killed(std::strcmp(argv[2], "exporter") == 0, what == "killed-later"), passed();
  if (what == "rules") return rules(), passed();
  if (what == "held" && argc == 3) return keep_handle(argv[2]), passed();
  if (what == "foreign" && argc == 3) return open_foreign(argv[2]), passed();
  return 2;
}

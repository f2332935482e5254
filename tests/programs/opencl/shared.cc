// SPDX-License-Identifier: Apache-2.0
//
// Memory that program and device share: a random history of maps, kernels, transfers, forks and
// accesses of host memory, against a model of each buffer's contents. A test dumps and moves the
// program meanwhile, with whatever is mapped or under way there.
//
//   ocl-shared SEED STEPS [direct]
//
// STEPS 0: until the file $CKPT_TEST_GO exists. "direct": the device works on host memory itself,
// so that what a kernel writes to memory of CL_MEM_USE_HOST_PTR is there after clFinish, and
// kernels see what the program writes there without a map.
#include <sys/mman.h>

#include <fstream>
#include <memory>

#include "random_history.h"

static const char *const kSource =
    "__kernel void add(__global uint *d, uint v) { d[get_global_id(0)] += v; }";

struct Buffer {
  cl_mem mem = nullptr;
  std::vector<unsigned> model;
  unsigned *host = nullptr;  // of CL_MEM_USE_HOST_PTR
  std::vector<unsigned char> block;
  size_t skip = 0;          // of `block`, before the buffer
  unsigned *map = nullptr;  // of `count` words from `at`
  size_t at = 0, count = 0;
  bool writable = false;
};

// It writes to mapped memory.
class Writer {
 public:
  Writer(const Cl &cl, cl_mem_flags flags) : cl_(cl), own_(kWords) {
    bool host = flags & CL_MEM_USE_HOST_PTR;
    mem_ = cl.buffer(kWords * 4, flags, host ? own_.data() : nullptr);
    cl_int status;
    auto *words = static_cast<unsigned *>(
        clEnqueueMapBuffer(cl.queue, mem_, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, kWords * 4,
                           0, nullptr, nullptr, &status));
    CL(status);
    writes_.begin(words);
  }
  void end() {
    writes_.end();
    unsigned *words = writes_.words();
    std::vector<unsigned> all(words, words + kWords), there(kWords);
    CL(clEnqueueUnmapMemObject(cl_.queue, mem_, words, 0, nullptr, nullptr));
    CL(clEnqueueReadBuffer(cl_.queue, mem_, CL_TRUE, 0, kWords * 4, there.data(), 0, nullptr,
                           nullptr));
    EXPECT(all == there);
    CL(clReleaseMemObject(mem_));
  }

 private:
  static constexpr size_t kWords = RoundsOfWrites::kWords;

  const Cl &cl_;
  std::vector<unsigned> own_;
  cl_mem mem_;
  RoundsOfWrites writes_;
};

static bool maps_buffer_files() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("opencl-memory") != std::string::npos) return true;
  return false;
}

class History : public RandomHistory {
 public:
  History(unsigned seed, bool direct)
      : RandomHistory(seed), direct_(direct), kernel_(kernel(build(kSource), "add")) {
    for (int i = 0; i < 5; i++) make();
    for (cl_mem_flags flags : {CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR})
      writers_.push_back(std::make_unique<Writer>(*this, flags));
  }

  void step() {
    using Action = void (History::*)();
    static constexpr Action kActions[] = {
        &History::launch, &History::launch, &History::map,   &History::map,
        &History::touch,  &History::unmap,  &History::unmap, &History::read,
        &History::write,  &History::copy,   &History::fill,  &History::look,
        &History::part,   &History::renew,  &History::child, &History::later};
    (this->*kActions[pick(std::size(kActions))])();
  }

  int end() {
    CL(clFinish(queue));
    for (Buffer &b : buffers_) {
      unmap(b);
      check(b, read_words(b, 0, b.model.size()), 0);
      release(b);
    }
    for (auto &w : writers_) w->end();
    CL(clFinish(queue));
    EXPECT(!maps_buffer_files());
    return finish();
  }

 private:
  Buffer &any() { return buffers_[pick(buffers_.size())]; }
  // One that a command may use.
  Buffer *unmapped() {
    Buffer &b = any();
    return b.map ? nullptr : &b;
  }
  void make() {
    Buffer b;
    static constexpr size_t kWords[] = {300, 5000, 16384, 70001, 1u << 18};
    b.model.resize(kWords[pick(std::size(kWords))]);
    for (unsigned &w : b.model) w = value();
    size_t bytes = b.model.size() * 4;
    if (pick(2) == 0) {
      b.skip = 4 * (1 + pick(2000));
      b.block.assign(b.skip + bytes + 8192, 0x5a);
      b.host = reinterpret_cast<unsigned *>(b.block.data() + b.skip);
      std::memcpy(b.host, b.model.data(), bytes);
      b.mem = buffer(bytes, CL_MEM_USE_HOST_PTR, b.host);
    } else {
      b.mem = buffer(bytes, CL_MEM_COPY_HOST_PTR, b.model.data());
    }
    buffers_.push_back(std::move(b));
  }
  // The neighbours of the program's own memory are as they were.
  void release(Buffer &b) {
    CL(clReleaseMemObject(b.mem));
    if (!b.host) return;
    CL(clFinish(queue));
    if (direct_) EXPECT(std::memcmp(b.host, b.model.data(), b.model.size() * 4) == 0);
    for (size_t i = 0; i < b.skip; i++) EXPECT(b.block[i] == 0x5a);
    for (size_t i = b.skip + b.model.size() * 4; i < b.block.size(); i++)
      EXPECT(b.block[i] == 0x5a);
  }
  void renew() {
    size_t i = pick(buffers_.size());
    if (buffers_[i].map) return;
    release(buffers_[i]);
    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(i));
    make();
  }

  using RandomHistory::check;
  void check(const Buffer &b, const std::vector<unsigned> &words, size_t at) {
    check(b, words.data(), at, words.size());
  }
  std::vector<unsigned> read_words(Buffer &b, size_t at, size_t count, bool blocking = true) {
    std::vector<unsigned> words(count);
    CL(clEnqueueReadBuffer(queue, b.mem, blocking, at * 4, count * 4, words.data(), 0, nullptr,
                           nullptr));
    if (!blocking) CL(clFinish(queue));
    return words;
  }

  void run(cl_mem mem, size_t count, unsigned v) {
    CL(clSetKernelArg(kernel_, 0, sizeof mem, &mem));
    CL(clSetKernelArg(kernel_, 1, sizeof v, &v));
    CL(clEnqueueNDRangeKernel(queue, kernel_, 1, nullptr, &count, nullptr, 0, nullptr, nullptr));
  }
  void launch() {
    Buffer *b = unmapped();
    if (!b) return;
    size_t count = b->model.size();
    unsigned v = value();
    // Where the device works on it, the program may write to its memory without a map.
    if (direct_ && b->host && pick(2) == 0) {
      CL(clFinish(queue));
      size_t i = pick(count);
      b->host[i] = b->model[i] = value();
      b->host[count - 1] = b->model[count - 1] = value();
    }
    run(b->mem, count, v);
    for (size_t i = 0; i < count; i++) b->model[i] += v;
  }
  void part() {
    Buffer *b = unmapped();
    if (!b || b->model.size() < 2048) return;
    cl_int status;
    cl_buffer_region r{4096, 4 * (1 + pick(b->model.size() - 1024))};
    cl_mem sub = clCreateSubBuffer(b->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &r, &status);
    CL(status);
    unsigned v = value();
    run(sub, r.size / 4, v);
    for (size_t i = 0; i < r.size / 4; i++) b->model[1024 + i] += v;
    CL(clReleaseMemObject(sub));
  }
  void fill() {
    Buffer *b = unmapped();
    if (!b) return;
    size_t at, count;
    region(*b, at, count);
    unsigned v = value();
    CL(clEnqueueFillBuffer(queue, b->mem, &v, 4, at * 4, count * 4, 0, nullptr, nullptr));
    std::fill_n(b->model.begin() + static_cast<std::ptrdiff_t>(at), count, v);
  }
  void copy() {
    Buffer *from = unmapped(), *to = unmapped();
    if (!from || !to || from == to) return;
    size_t count = 1 + pick(std::min(from->model.size(), to->model.size()));
    CL(clEnqueueCopyBuffer(queue, from->mem, to->mem, 0, 0, count * 4, 0, nullptr, nullptr));
    std::copy_n(from->model.begin(), count, to->model.begin());
  }
  void read() {
    Buffer *b = unmapped();
    if (!b) return;
    size_t at, count;
    region(*b, at, count);
    check(*b, read_words(*b, at, count, pick(2) == 0), at);
  }
  void write() {
    Buffer *b = unmapped();
    if (!b) return;
    size_t at, count;
    region(*b, at, count);
    std::vector<unsigned> words(count);
    for (unsigned &w : words) w = value();
    bool blocking = pick(2) == 0;
    CL(clEnqueueWriteBuffer(queue, b->mem, blocking, at * 4, count * 4, words.data(), 0, nullptr,
                            nullptr));
    if (!blocking) CL(clFinish(queue));
    std::copy(words.begin(), words.end(), b->model.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void map() {
    Buffer *b = unmapped();
    if (!b) return;
    region(*b, b->at, b->count);
    static constexpr cl_map_flags kFlags[] = {CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE,
                                              CL_MAP_WRITE_INVALIDATE_REGION};
    cl_map_flags flags = kFlags[pick(std::size(kFlags))];
    bool blocking = pick(2) == 0;
    cl_int status;
    cl_event mapped;
    b->map = static_cast<unsigned *>(clEnqueueMapBuffer(
        queue, b->mem, blocking, flags, b->at * 4, b->count * 4, 0, nullptr, &mapped, &status));
    CL(status);
    CL(clWaitForEvents(1, &mapped));
    CL(clReleaseEvent(mapped));
    if (b->host) EXPECT(b->map == b->host + b->at);
    b->writable = flags != CL_MAP_READ;
    if (flags == CL_MAP_WRITE_INVALIDATE_REGION)
      for (size_t i = 0; i < b->count; i++) b->map[i] = b->model[b->at + i] = value();
    check(*b, b->map, b->at, b->count);
  }
  // A kernel and a map that wait for the program itself.
  void later() {
    Buffer *b = unmapped();
    if (!b) return;
    cl_int status;
    cl_event go = clCreateUserEvent(context, &status), mapped;
    CL(status);
    size_t count = b->model.size();
    unsigned v = value();
    CL(clSetKernelArg(kernel_, 0, sizeof b->mem, &b->mem));
    CL(clSetKernelArg(kernel_, 1, sizeof v, &v));
    CL(clEnqueueNDRangeKernel(queue, kernel_, 1, nullptr, &count, nullptr, 1, &go, nullptr));
    auto *words = static_cast<unsigned *>(clEnqueueMapBuffer(
        queue, b->mem, CL_FALSE, CL_MAP_READ, 0, count * 4, 0, nullptr, &mapped, &status));
    CL(status);
    for (unsigned &w : b->model) w += v;
    if (pick(3) == 0) ::usleep(30'000);
    CL(clSetUserEventStatus(go, CL_COMPLETE));
    CL(clWaitForEvents(1, &mapped));
    check(*b, words, 0, count);
    CL(clEnqueueUnmapMemObject(queue, b->mem, words, 0, nullptr, nullptr));
    CL(clReleaseEvent(go));
    CL(clReleaseEvent(mapped));
  }
  void touch() {
    Buffer &b = any();
    if (!b.map) return;
    check(b, b.map, b.at, b.count);
    size_t i = pick(b.count);
    if (b.writable) b.map[i] = b.model[b.at + i] = value();
  }
  void unmap() { unmap(any()); }
  void unmap(Buffer &b) {
    if (!b.map) return;
    check(b, b.map, b.at, b.count);
    CL(clEnqueueUnmapMemObject(queue, b.mem, b.map, 0, nullptr, nullptr));
    b.map = nullptr;
  }
  void look() {
    CL(clFinish(queue));
    for (Buffer &b : buffers_)
      if (direct_ && b.host) check(b, b.host, 0, b.model.size());
  }

  // A forked child has copies: it sees what was there, and nothing that it writes reaches the
  // parent.
  void child() {
    in_child([&] {
      for (Buffer &b : buffers_) {
        if (b.map) check(b, b.map, b.at, b.count);
        if (b.map && b.writable) std::fill_n(b.map, b.count, 1u);
        if (direct_ && b.host && !b.map) check(b, b.host, 0, b.model.size());
        if (b.host) std::fill(b.block.begin(), b.block.end(), static_cast<unsigned char>(1));
      }
    });
    look();
  }

  bool direct_;
  cl_kernel kernel_;
  std::vector<Buffer> buffers_;
  std::vector<std::unique_ptr<Writer>> writers_;
};

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  bool direct = argc > 3 && std::string(argv[3]) == "direct";
  History history(static_cast<unsigned>(std::atoi(argv[1])), direct);
  return play(history, std::atol(argv[2]));
}

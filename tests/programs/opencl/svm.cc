// SPDX-License-Identifier: Apache-2.0
//
// Shared virtual memory: a random history of allocations, kernels, copies, fills, maps, forks and
// accesses by the program itself, against a model. A test dumps and moves the program meanwhile,
// with whatever is under way there. A list of nodes, each in an allocation of its own, has pointers
// that kernels follow.
//
//   ocl-svm SEED STEPS      STEPS 0: until the file $CKPT_TEST_GO exists
#define CL_TARGET_OPENCL_VERSION 300
#include <memory>

#include "random_history.h"

static const char *const kSource =
    "typedef struct { ulong next; uint value; uint check; } node;"
    "__kernel void add(__global uint *d, uint v) { d[get_global_id(0)] += v; }"
    "__kernel void walk(__global node *n, uint v) {"
    "  for (; n; n = (__global node *)n->next) { n->value += v; n->check = n->value ^ 0x5a5a; }"
    "}";

struct Node {
  Node *next;
  unsigned value, check;
};

static cl_device_svm_capabilities capabilities(const Cl &cl) {
  cl_device_svm_capabilities c = 0;
  CL(clGetDeviceInfo(cl.device, CL_DEVICE_SVM_CAPABILITIES, sizeof c, &c, nullptr));
  return c;
}

struct Area {
  unsigned *at = nullptr;
  std::vector<unsigned> model;
  bool fine = false;
};

// It writes to fine-grained memory.
class Writer {
 public:
  explicit Writer(const Cl &cl) : cl_(cl) {
    auto *words = static_cast<unsigned *>(
        clSVMAlloc(cl.context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                   RoundsOfWrites::kWords * 4, 0));
    EXPECT(words != nullptr);
    writes_.begin(words);
  }
  void end() {
    writes_.end();
    clSVMFree(cl_.context, writes_.words());
  }

 private:
  const Cl &cl_;
  RoundsOfWrites writes_;
};

class History : public RandomHistory {
 public:
  explicit History(unsigned seed) : RandomHistory(seed), program_(build(kSource)) {
    add_ = kernel(program_, "add");
    walk_ = kernel(program_, "walk");
    for (int i = 0; i < 6; i++) make();
    for (int i = 0; i < 20; i++) append();
    if (capabilities(*this) & CL_DEVICE_SVM_FINE_GRAIN_BUFFER)
      writer_ = std::make_unique<Writer>(*this);
  }

  void step() {
    using Action = void (History::*)();
    static constexpr Action kActions[] = {
        &History::launch, &History::launch, &History::visit, &History::visit,  &History::map,
        &History::touch,  &History::copy,   &History::read,  &History::write,  &History::around,
        &History::fill,   &History::buffer, &History::renew, &History::append, &History::remove,
        &History::later,  &History::child,  &History::look};
    (this->*kActions[pick(std::size(kActions))])();
  }

  int end() {
    look();
    for (Area &a : areas_) clSVMFree(context, a.at);
    while (!nodes_.empty()) remove();
    if (writer_) writer_->end();
    CL(clFinish(queue));
    EXPECT(freed_ == to_free_);
    return finish();
  }

 private:
  Area &any() { return areas_[pick(areas_.size())]; }
  template <class F>
  void mapped(const Area &a, size_t at, size_t count, cl_map_flags flags, F use) {
    bool blocking = pick(2) == 0;
    cl_event ready;
    CL(clEnqueueSVMMap(queue, blocking, flags, a.at + at, count * 4, 0, nullptr, &ready));
    CL(clWaitForEvents(1, &ready));
    CL(clReleaseEvent(ready));
    use(a.at + at);
    CL(clEnqueueSVMUnmap(queue, a.at + at, 0, nullptr, nullptr));
  }

  void make() {
    static constexpr size_t kWords[] = {3, 300, 5000, 70001, 1u << 18, 1u << 20};
    Area a;
    a.fine = pick(2) == 0 && (capabilities(*this) & CL_DEVICE_SVM_FINE_GRAIN_BUFFER);
    a.model.resize(kWords[pick(std::size(kWords))]);
    for (unsigned &w : a.model) w = value();
    cl_svm_mem_flags flags = a.fine ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0;
    cl_uint alignment = pick(2) ? 0 : 1u << pick(8);  // natively PoCL has no more
    a.at = static_cast<unsigned *>(
        clSVMAlloc(context, CL_MEM_READ_WRITE | flags, a.model.size() * 4, alignment));
    EXPECT(a.at != nullptr && (!alignment || reinterpret_cast<size_t>(a.at) % alignment == 0));
    if (a.fine)
      std::copy(a.model.begin(), a.model.end(), a.at);
    else
      mapped(a, 0, a.model.size(), CL_MAP_WRITE_INVALIDATE_REGION,
             [&](unsigned *at) { std::copy(a.model.begin(), a.model.end(), at); });
    areas_.push_back(std::move(a));
  }

  static void CL_CALLBACK free_it(cl_command_queue queue, cl_uint n, void *pointers[], void *self) {
    auto *h = static_cast<History *>(self);
    EXPECT(queue == h->queue);
    for (cl_uint i = 0; i < n; i++) clSVMFree(h->context, pointers[i]);
    h->freed_++;
  }
  // Frees behind what is under way, or at once when nothing is.
  void free_later(void *at) {
    size_t how = pick(3);
    cl_event freed;
    if (how == 0) {
      CL(clFinish(queue));
      return clSVMFree(context, at);
    }
    CL(clEnqueueSVMFree(queue, 1, &at, how == 1 ? free_it : nullptr, this, 0, nullptr, &freed));
    to_free_ += how == 1;
    CL(clWaitForEvents(1, &freed));
    CL(clReleaseEvent(freed));
    for (int i = 0; i < 1000 && freed_ != to_free_; i++) ::usleep(10'000);
  }
  void renew() {
    size_t i = pick(areas_.size());
    void *at = areas_[i].at;
    areas_.erase(areas_.begin() + static_cast<std::ptrdiff_t>(i));
    free_later(at);
    make();
  }

  void launch() {
    Area &a = any();
    size_t at, count;
    region(a, at, count);
    run(a, at, count, 0, nullptr);
  }
  void run(Area &a, size_t at, size_t count, cl_uint n, const cl_event *list) {
    unsigned v = value();
    CL(clSetKernelArgSVMPointer(add_, 0, a.at + at));
    CL(clSetKernelArg(add_, 1, sizeof v, &v));
    CL(clEnqueueNDRangeKernel(queue, add_, 1, nullptr, &count, nullptr, n, list, nullptr));
    for (size_t i = 0; i < count; i++) a.model[at + i] += v;
  }
  void copy() {
    Area &from = any(), &to = any();
    if (&from == &to) return;
    size_t at, count;
    region(from, at, count);
    count = std::min(count, to.model.size());
    size_t there = pick(to.model.size() - count + 1);
    CL(clEnqueueSVMMemcpy(queue, pick(2) == 0, to.at + there, from.at + at, count * 4, 0, nullptr,
                          nullptr));
    std::copy_n(from.model.begin() + static_cast<std::ptrdiff_t>(at), count,
                to.model.begin() + static_cast<std::ptrdiff_t>(there));
  }
  void read() {
    Area &a = any();
    size_t at, count;
    region(a, at, count);
    std::vector<unsigned> words(count);
    bool blocking = pick(2) == 0;
    CL(clEnqueueSVMMemcpy(queue, blocking, words.data(), a.at + at, count * 4, 0, nullptr,
                          nullptr));
    if (!blocking) CL(clFinish(queue));
    check(a, words.data(), at, count);
  }
  void write() {
    Area &a = any();
    size_t at, count;
    region(a, at, count);
    std::vector<unsigned> words(count);
    for (unsigned &w : words) w = value();
    bool blocking = pick(2) == 0;
    CL(clEnqueueSVMMemcpy(queue, blocking, a.at + at, words.data(), count * 4, 0, nullptr,
                          nullptr));
    if (!blocking) CL(clFinish(queue));
    std::copy(words.begin(), words.end(), a.model.begin() + static_cast<std::ptrdiff_t>(at));
    if (a.fine) check(a, a.at + at, at, count);
  }
  // Between two places of the program's own memory.
  void around() {
    std::vector<unsigned> from(1 + pick(3000)), to(from.size());
    for (unsigned &w : from) w = value();
    CL(clEnqueueSVMMemcpy(queue, CL_TRUE, to.data(), from.data(), from.size() * 4, 0, nullptr,
                          nullptr));
    EXPECT(from == to);
  }
  void fill() {
    Area &a = any();
    size_t at, count;
    region(a, at, count);
    unsigned v = value();
    CL(clEnqueueSVMMemFill(queue, a.at + at, &v, 4, count * 4, 0, nullptr, nullptr));
    std::fill_n(a.model.begin() + static_cast<std::ptrdiff_t>(at), count, v);
  }
  void map() {
    Area &a = any();
    size_t at, count;
    region(a, at, count);
    bool writes = pick(2) == 0;
    mapped(a, at, count, writes ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ, [&](unsigned *words) {
      check(a, words, at, count);
      size_t i = pick(count);
      if (writes) words[i] = a.model[at + i] = value();
    });
  }
  // Without a map; the program may do that where the memory is fine-grained.
  void touch() {
    Area &a = any();
    if (!a.fine) return;
    CL(clFinish(queue));
    check(a, a.at, 0, a.model.size());
    size_t i = pick(a.model.size());
    a.at[i] = a.model[i] = value();
  }
  // A buffer over shared virtual memory has the same contents.
  void buffer() {
    Area &a = any();
    size_t count = 1 + pick(a.model.size());
    cl_mem m = Cl::buffer(count * 4, CL_MEM_USE_HOST_PTR, a.at);
    cl_bool uses = CL_FALSE;
    CL(clGetMemObjectInfo(m, CL_MEM_USES_SVM_POINTER, sizeof uses, &uses, nullptr));
    EXPECT(uses == CL_TRUE);
    unsigned v = value();
    CL(clSetKernelArg(add_, 0, sizeof m, &m));
    CL(clSetKernelArg(add_, 1, sizeof v, &v));
    CL(clEnqueueNDRangeKernel(queue, add_, 1, nullptr, &count, nullptr, 0, nullptr, nullptr));
    for (size_t i = 0; i < count; i++) a.model[i] += v;
    std::vector<unsigned> words(count);
    CL(clEnqueueReadBuffer(queue, m, CL_TRUE, 0, count * 4, words.data(), 0, nullptr, nullptr));
    check(a, words.data(), 0, count);
    CL(clReleaseMemObject(m));
  }

  // The list: `nodes_` are in its order.
  void append() {
    auto *n = static_cast<Node *>(clSVMAlloc(context, CL_MEM_READ_WRITE, sizeof(Node), 0));
    EXPECT(n != nullptr);
    unsigned v = value();
    host_access(n, [&] { *n = {nullptr, v, v ^ 0x5a5a}; });
    if (!nodes_.empty()) host_access(nodes_.back().first, [&] { nodes_.back().first->next = n; });
    nodes_.emplace_back(n, v);
  }
  template <class F>
  void host_access(Node *n, F use) {
    CL(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, n, sizeof *n, 0, nullptr,
                       nullptr));
    use();
    CL(clEnqueueSVMUnmap(queue, n, 0, nullptr, nullptr));
  }
  void remove() {
    if (nodes_.empty()) return;
    size_t i = pick(nodes_.size());
    Node *n = nodes_[i].first, *next = nullptr;
    host_access(n, [&] { next = n->next; });
    EXPECT(next == (i + 1 < nodes_.size() ? nodes_[i + 1].first : nullptr));
    if (i > 0) host_access(nodes_[i - 1].first, [&] { nodes_[i - 1].first->next = next; });
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(i));
    free_later(n);
  }
  void visit() {
    if (nodes_.empty()) return;
    unsigned v = value();
    size_t one = 1;
    std::vector<void *> others;
    for (auto &[n, sum] : nodes_) others.push_back(n);
    CL(clSetKernelExecInfo(walk_, CL_KERNEL_EXEC_INFO_SVM_PTRS, others.size() * sizeof(void *),
                           others.data()));
    CL(clSetKernelArgSVMPointer(walk_, 0, nodes_.front().first));
    CL(clSetKernelArg(walk_, 1, sizeof v, &v));
    CL(clEnqueueNDRangeKernel(queue, walk_, 1, nullptr, &one, nullptr, 0, nullptr, nullptr));
    for (auto &[n, sum] : nodes_) sum += v;
  }

  // A kernel and a map that wait for the program itself.
  void later() {
    Area &a = any();
    cl_event go = clCreateUserEvent(context, nullptr), ready;
    run(a, 0, a.model.size(), 1, &go);
    CL(clEnqueueSVMMap(queue, CL_FALSE, CL_MAP_READ, a.at, a.model.size() * 4, 0, nullptr, &ready));
    if (pick(3) == 0) ::usleep(30'000);
    CL(clSetUserEventStatus(go, CL_COMPLETE));
    CL(clWaitForEvents(1, &ready));
    check(a, a.at, 0, a.model.size());
    CL(clEnqueueSVMUnmap(queue, a.at, 0, nullptr, nullptr));
    CL(clReleaseEvent(go));
    CL(clReleaseEvent(ready));
  }

  void look() {
    CL(clFinish(queue));
    for (Area &a : areas_)
      mapped(a, 0, a.model.size(), CL_MAP_READ,
             [&](unsigned *words) { check(a, words, 0, a.model.size()); });
    look_at_nodes();
  }
  void look_at_nodes() {
    size_t wrong = 0;
    for (size_t i = 0; i < nodes_.size(); i++) {
      const Node *n = nodes_[i].first;
      wrong += n->value != nodes_[i].second || n->check != (n->value ^ 0x5a5a);
      wrong += n->next != (i + 1 < nodes_.size() ? nodes_[i + 1].first : nullptr);
    }
    EXPECT(wrong == 0);
  }

  // A forked child has copies: it sees what was there, and nothing that it writes reaches the
  // parent.
  void child() {
    in_child([&] {
      look_at_nodes();
      for (Area &a : areas_) {
        check(a, a.at, 0, a.model.size());
        std::fill_n(a.at, a.model.size(), 1u);
      }
    });
    look();
  }

  cl_program program_;
  cl_kernel add_, walk_;
  std::vector<Area> areas_;
  std::vector<std::pair<Node *, unsigned>> nodes_;  // and the value that each must have
  std::unique_ptr<Writer> writer_;
  std::atomic<int> freed_{0};
  int to_free_ = 0;
};

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  History history(static_cast<unsigned>(std::atoi(argv[1])));
  return play(history, argc > 2 ? std::atol(argv[2]) : 0);
}

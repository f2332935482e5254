// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/shared_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/ipc/shared_memory.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/svm/block.h"
#include "libckpt-ocl/client/transfer/host_memory.h"
#include "libckpt-ocl/client/transfer/map.h"
#include "libckpt-ocl/client/transfer/transfer.h"
#include "libckpt-ocl/reserve.h"

namespace ckpt::ocl {
namespace {

// Making the file costs more than the copies of a small buffer do.
constexpr size_t kShareFrom = 64u << 10;
// Each file is a descriptor of the proxy, and during a checkpoint perhaps of the application; both
// may have the usual limit of 1024.
constexpr int kMostFiles = 256;
// CRIU may see a mapping of this name; those that begin with ckpt- it may not (residue.h).
constexpr const char *kName = "opencl-memory";

std::atomic<int> g_files{0};

size_t in_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// The addresses at which the program would see a map of the buffer.
bool reserve_shadow(Mem &m) {
  if (m.shadow.data) return true;
  m.shadow.data = reserve(m.size);
  if (!m.shadow.data) return false;
  m.shadow.bytes = in_pages(m.size);
  return true;
}

// Whether the proxy has made the driver's buffer over the file.
bool give_to_proxy(const Mem &m, int file, size_t offset) {
  Writer w;
  w.put(m.number).put(u64{offset}).put(u64{m.size});
  cl_int r = link().round_trip(Op::ShareMemory, w.bytes(), file);
  if (r == CL_INVALID_OPERATION) m.context->copies = true;
  return r == CL_SUCCESS;
}

// A larger file would end the program (SIGXFSZ, setrlimit(2)).
bool within_file_limit(size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes + kHugePageBytes <= limit.rlim_cur;
}

bool may_share(const Mem &m) {
  return within_file_limit(m.size) && (m.size >= kShareFrom || m.host_ptr) && !m.image &&
         !m.parent && !m.context->copies && !link().compiles_elsewhere() &&
         g_files.load() < kMostFiles;
}

// A new buffer, or one whose contents are only in the image.
void share_empty(Mem &m) {
  m.shared.reset();
  if (m.host_ptr || !may_share(m) || !reserve_shadow(m)) return;
  size_t bytes = in_pages(m.size);
  Result<UniqueFd> file = make_memfd(kName, bytes);
  if (!file || !give_to_proxy(m, file->get(), 0)) return;
  SharedRange *range = SharedRange::add(m.shadow.data, bytes);
  if (!range || !map_over(*range, file->get())) {
    if (range) range->remove();
    return;
  }
  m.shared = std::make_shared<SharedMemory>(range, 0);
  m.shared->in_proxy = true;
}

// Where the program's own memory lies in pages.
struct Layout {
  std::byte *begin, *end;   // the buffer
  std::byte *first, *last;  // the pages that lie wholly in it; equal if there are none
  size_t offset;            // of the buffer in its file
  size_t in_file(const std::byte *at) const { return offset + static_cast<size_t>(at - begin); }
};

Layout layout_of(const Mem &m) {
  Layout l{m.host_ptr, m.host_ptr + m.size, nullptr, nullptr, 0};
  // So huge pages of the file can be huge pages here, too; what lies before is never allocated.
  l.offset = reinterpret_cast<uintptr_t>(l.begin) % kHugePageBytes;
  l.first = l.begin + (kPageBytes - l.offset % kPageBytes) % kPageBytes;
  l.last = l.end - reinterpret_cast<uintptr_t>(l.end) % kPageBytes;
  if (l.first > l.last) l.first = l.last = l.end;  // all of it lies in one page
  return l;
}

bool add_edge(std::vector<std::unique_ptr<Edge>> &edges, const Layout &l, std::byte *from,
              const std::byte *to, int file) {
  if (from == to) return true;
  edges.push_back(
      std::make_unique<Edge>(from, static_cast<size_t>(to - from), file, l.in_file(from)));
  return edges.back()->mapped();
}

Result<UniqueFd> file_of(const Layout &l) {
  size_t bytes = in_pages(l.in_file(l.end));
  CKPT_TRY(UniqueFd file, make_memfd(kName, bytes));
  CKPT_CHECK(write_all_at(file.get(), {l.begin, l.end}, static_cast<off_t>(l.offset)));
  return file;
}

// The program's own memory.
void share_own(Mem &m) {
  Layout l = layout_of(m);
  if (!may_share(m) || (l.first < l.last && !may_replace_pages(l.first, l.last))) return;
  wait_for_pending_reads(m.host_ptr, m.size);
  Result<UniqueFd> file = file_of(l);
  if (!file) return;
  std::vector<std::unique_ptr<Edge>> edges;
  if (!add_edge(edges, l, l.begin, l.first, file->get()) ||
      !add_edge(edges, l, l.last, l.end, file->get()) || !give_to_proxy(m, file->get(), l.offset))
    return;
  SharedRange *range = SharedRange::add(l.first, static_cast<size_t>(l.last - l.first), 1);
  if (!range) return;
  auto shared = std::make_shared<SharedMemory>(range, l.offset);
  if (!map_over(*range, file->get(), l.in_file(l.first))) return;
  shared->own = shared->in_proxy = true;
  shared->edges = std::move(edges);
  m.shared = std::move(shared);
}

// The driver's buffer is a copy from now on.
void stop_sharing(SharedMemory &s) {
  s.edges.clear();
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true))
    log::warn(
        "the new device has memory of its own: what kernels write to the program's memory "
        "(CL_MEM_USE_HOST_PTR) appears there only when it is mapped");
}

std::vector<Mem *> sharing() {
  std::vector<Mem *> all = registry().all<Mem>();
  std::erase_if(all, [](Mem *m) { return !m->shared; });
  return all;
}

}  // namespace

Result<UniqueFd> make_buffer_file(size_t bytes) {
  if (!within_file_limit(bytes) || g_files.load() >= kMostFiles)
    return fail(
        "the program has {} buffer files of at most {}, or its limit for the size of a file "
        "is below {} bytes",
        g_files.load(), kMostFiles, bytes);
  return make_memfd(kName, bytes);
}

bool map_over(const SharedRange &range, int file, size_t offset) {
  return range.bytes() == 0 ||
         ::mmap(range.begin(), range.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                static_cast<off_t>(offset)) == range.begin();
}

SharedMemory::SharedMemory(SharedRange *r, size_t at) : range(r), offset(at) {
  g_files.fetch_add(1);
}

SharedMemory::~SharedMemory() {
  edges.clear();
  if (own && range->bytes() > 0 && !make_private(range->begin(), range->bytes(), true))
    log::warn("memory of a released OpenCL buffer stays shared with forked children: {}",
              std::strerror(errno));
  range->remove();
  g_files.fetch_sub(1);
}

cl_int share_memory(Mem &m) {
  // The program has been to another device since the buffer was made.
  if (m.shared) return CL_SUCCESS;
  if (m.block) return share_in_block(m);
  if (m.host_ptr)
    share_own(m);
  else
    share_empty(m);
  return CL_SUCCESS;
}

void use_pages(Mem &m) {
  if (SharedMemory *s = m.root()->shared.get()) s->range->use();
}

void stop_using_pages(Mem &m) {
  if (SharedMemory *s = m.root()->shared.get()) s->range->stop_use();
}

bool saved_with_pages(Mem &m) {
  SharedMemory *s = m.shared.get();
  if (s) s->only_copy = s->in_proxy && s->range->in_use();
  return s && s->only_copy;
}

// Without its file, the buffer is copied from the pages at the next attach(). Shared virtual memory
// cannot be.
Result<> take_buffer_files() {
  for (Mem *m : sharing()) {
    bool needed = m->svm || m->shared->only_copy;
    if (!needed || m->shared->range->file() >= 0) continue;
    Result<UniqueFd> file = link().buffer_file(m->number);
    if (file)
      m->shared->range->keep_file(file->release());
    else if (m->svm)
      return Failure(file.error());
    else
      log::warn("{}", file.error().text());
  }
  return {};
}

void leave_buffer_files() {
  for (Mem *m : sharing()) {
    SharedMemory &s = *m->shared;
    if (s.range->in_use() || s.away) continue;
    s.away = make_private(s.range->begin(), s.range->bytes(), false);
    if (!s.in_proxy) m->shared.reset();
  }
}

Result<> map_buffer_files() {
  for (Mem *m : sharing()) {
    SharedMemory &s = *m->shared;
    if (!s.in_proxy || !s.away) continue;
    CKPT_TRY(UniqueFd file, link().buffer_file(m->number));
    if (!map_over(*s.range, file.get()))
      return fail_errno("cannot map the memory of OpenCL buffer {} again", m->number);
    s.away = false;
  }
  return {};
}

// Only here is it certain that the program does not go back to devices that share its pages.
void close_buffer_files() {
  for (Mem *m : sharing()) {
    m->shared->range->close_file();
    if (m->shared->own && !m->shared->in_proxy) stop_sharing(*m->shared);
  }
}

std::unordered_set<const Mem *> mapped_roots() {
  std::unordered_set<const Mem *> roots;
  for (Mem *m : registry().all<Mem>())
    if (!m->maps.empty()) roots.insert(m->root());
  return roots;
}

Result<> share_memory_again(Mem &m, const std::unordered_set<const Mem *> &mapped) {
  if (m.svm) return share_block_again(m);
  if (m.block) return share_in_block_again(m);
  if (m.parent || m.image) return {};
  if (!m.shared || !m.shared->range->in_use()) {
    if (m.shared || !m.shadow.data || !mapped.contains(&m)) share_empty(m);
    return {};
  }
  SharedMemory &s = *m.shared;
  bool given = s.range->file() >= 0 && !m.context->copies && !link().compiles_elsewhere() &&
               give_to_proxy(m, s.range->file(), s.offset);
  s.in_proxy = given;
  if (given || !s.only_copy) return {};
  const std::byte *from = host_side(m);
  auto copy = [from](size_t at, size_t bytes, std::byte *to) { std::memcpy(to, from + at, bytes); };
  if (write_initial_contents(m, copy) != CL_SUCCESS)
    return fail("cannot write the contents of OpenCL buffer {} to the new device", m.number);
  return {};
}

}  // namespace ckpt::ocl

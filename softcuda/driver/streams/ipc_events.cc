// SPDX-License-Identifier: Apache-2.0
//
// cuIpc*EventHandle.
#include "softcuda/driver/state/ipc.h"
#include "softcuda/driver/state/process.h"
#include "softcuda/driver/state/shared_event.h"

namespace ckpt::softcuda::driver {
namespace {

constexpr unsigned kShareable = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

// What was recorded before the event was shared counts as its first recording.
void take_over(const std::shared_ptr<SharedEvent> &shared, const std::shared_ptr<Record> &record) {
  if (!record || record->point.reached()) return;
  u64 ticket = shared->begin();
  auto queue = std::make_shared<WorkQueue>();
  queue->submit([shared, ticket] { shared->finish(ticket); }, {record->point});
  queue->close();
}

CUresult share(Event &e) {
  std::lock_guard lock(e.mutex);
  if (e.shared) return CUDA_SUCCESS;
  auto failed = [](const Error &error) {
    warn(error.text());
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  Result<std::shared_ptr<SharedEvent>> shared = SharedEvent::make(client());
  if (!shared) return failed(shared.error());
  Result<broker::ShareId> id = client().share({}, (*shared)->fd());
  if (!id) return failed(id.error());
  (*shared)->close_fd();
  take_over(*shared, e.record);
  e.shared = *shared;
  e.share_id = *id;
  return CUDA_SUCCESS;
}

}  // namespace

void withdraw_event(const Event &e) {
  if (e.share_id) client().withdraw(*e.share_id);
}

std::optional<std::string> shared_events() {
  for (Event *e : process().events.all()) {
    std::lock_guard lock(e->mutex);
    if (e->shared) return "an event is shared with other processes (cuIpc*EventHandle)";
  }
  return {};
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event) {
  CALL_WITH_CONTEXT();
  Event *e = process().events.get(event);
  REQUIRE(e != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(out != nullptr && (e->flags & kShareable) == kShareable, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(share(*e));
  *out = handle_of<CUipcEventHandle>(HandleKind::Event, *e->share_id);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::optional<broker::ShareId> id = id_in(handle, HandleKind::Event);
  REQUIRE(id, CUDA_ERROR_INVALID_HANDLE);
  Result<std::optional<broker::Share>> s = client().open(*id);
  REQUIRE(s && *s, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE((*s)->owner != client().identity(), CUDA_ERROR_INVALID_CONTEXT);
  Result<std::shared_ptr<SharedEvent>> shared = SharedEvent::open(client(), std::move((*s)->fd));
  REQUIRE(shared, CUDA_ERROR_MAP_FAILED);
  (*shared)->close_fd();
  auto *e = new Event;
  e->context = call.context;
  e->flags = CU_EVENT_DISABLE_TIMING;
  e->shared = *shared;
  *out = reinterpret_cast<CUevent>(process().events.add(e));
  return CUDA_SUCCESS;
}

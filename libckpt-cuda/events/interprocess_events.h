// SPDX-License-Identifier: Apache-2.0
//
// Events that processes of one session share (CU_EVENT_INTERPROCESS, cuIpcGetEventHandle,
// cuIpcOpenEventHandle).
//
// The problem. A driver keeps the state of such events outside of the process, and a checkpoint of
// the process cannot take it along. NVIDIA's does not support IPC.
//
// How it works. The driver never sees that an event is shared: it makes an ordinary one, without
// CU_EVENT_INTERPROCESS, for the exporter and for each importer. What they share is on the board of
// the session (common/ipc/event_board.h), in host memory that all of them have registered with the
// driver:
//
//   cuEventRecord        the driver's, then cuStreamWriteValue64 to a counter of the board, in the
//                        same stream. Counter and value are the event's last recording then
//   cuStreamWaitEvent    of a recording of this process: the driver's. Of another process:
//                        cuStreamWaitValue64, if the recording is not complete yet
//   cuEventQuery, cuEventSynchronize: likewise; of another process a look at the counter
//
// A program may wait for a recording only after it was submitted, and whatever a stream runs was
// submitted before. So no two waits hold each other up, also where streams share a queue of the
// device; host functions instead of these operations could (they share a thread).
//
// Every recording of an event with the flag goes to the board, also before its handle is taken:
// PyTorch records first.
//
// A checkpoint. All processes are quiesced before the first of them leaves, so all recordings are
// complete, and complete is what an event looks like that was never recorded. So nothing is saved
// but the names of the events, in this process's heap. leave() unmaps the board, and arrive() maps
// it, or the board of the restored program's keeper, and puts the names into the same slots. In a
// restore all processes do this before the program runs in any.
//
// Not supported, and refused by name: shared events as nodes of graphs, and recordings of a whole
// context (cuCtxRecordEvent). An event that was used so before its handle is taken is private.
//
// Source. CUDA driver API, cuEventCreate, cuEventRecord, cuIpcGetEventHandle, cuIpcOpenEventHandle,
// and "Stream Memory Operations".
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "common/ipc/event_board.h"
#include "libckpt-cuda/events/stream_forms.h"
#include "libckpt-cuda/memory/contexts.h"

namespace ckpt::cuda {

struct InterprocessEvent {
  using Recording = EventBoard::Recording;
  enum class Origin : u8 { Made, Exported, Opened };

  CUcontext context = nullptr;
  std::mutex mutex;  // of a recording
  std::atomic<Origin> origin{Origin::Made};
  std::atomic<bool> is_private{false};  // no other process can use it
  u64 name = 0;                         // on the board, unless it is only Made
  u32 slot = 0;
  std::atomic<Recording> own{0};  // the last one by this event of this process
};

// Null: events of this device can be shared.
const char *reason_against_events(CUdevice device);

// Thread-safe. The functions that are named like parts of entries behave like them; `real` calls
// the driver for the same event.
class InterprocessEvents {
 public:
  using Event = std::shared_ptr<InterprocessEvent>;
  using Recording = EventBoard::Recording;

  // Null: the driver answers for the event alone.
  Event find(CUevent event) const;
  void add(CUevent handle, Event e);
  // The event is destroyed.
  void forget(CUevent handle);
  void release_context(CUcontext context);
  // The event, or that of the node, is used in a way that other processes would not see. False:
  // they may use it. Otherwise it can be shared no more.
  bool make_private(CUevent event);
  bool make_private(const CUgraphNodeParams *node);

  CUresult get_handle(InterprocessEvent &e, CUipcEventHandle &out);
  CUresult open_handle(const CUipcEventHandle &handle, const ContextInfo &context, CUevent &out);

  template <class Real>
  CUresult record(InterprocessEvent &e, const StreamForms &stream, Real real);
  template <class Real>
  CUresult wait(const InterprocessEvent &e, const StreamForms &stream, Real real);
  template <class Real>
  CUresult query(const InterprocessEvent &e, Real real) const;
  template <class Real>
  CUresult synchronize(CUevent handle, const InterprocessEvent &e, Real real) const;

  // For a checkpoint. Only while no call is inside any gate.
  Result<> leave();
  Result<> arrive();

 private:
  // Maps the board, where it is not mapped, and gives devices access to it.
  CUresult reach_board();
  Result<> map_board();
  CUresult register_board();
  CUdeviceptr address_of(Recording r) const { return base_ + EventBoard::offset_of(r); }
  std::optional<Recording> begin();
  Recording last(const InterprocessEvent &e) const;
  bool is_complete(Recording r) const { return !board_ || board_->is_complete(r); }
  void wait_for(Recording r) const;
  CUresult put_on_board(InterprocessEvent &e);
  void retire(const InterprocessEvent &e);

  mutable std::shared_mutex table_mutex_;
  std::map<CUevent, Event> table_;
  std::atomic<size_t> count_{0};

  std::mutex mutex_;                 // of what follows
  std::optional<EventBoard> board_;  // stays, but for checkpoints
  bool had_board_ = false;
  std::atomic<CUcontext> registered_in_{nullptr};
  CUdeviceptr base_ = 0;      // the board, for the devices
  std::deque<u32> counters_;  // ours; the one that was used longest ago is first
};

// Lives as long as the process.
InterprocessEvents &interprocess_events();

// ---- the calls

template <class Real>
CUresult InterprocessEvents::record(InterprocessEvent &e, const StreamForms &stream, Real real) {
  std::lock_guard lock(e.mutex);
  if (e.is_private) return real();
  if (CUresult r = reach_board(); r != CUDA_SUCCESS) return r;
  std::optional<Recording> recording = begin();
  if (!recording) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult r = real();
  if (r == CUDA_SUCCESS) r = stream.write(address_of(*recording), EventBoard::value_of(*recording));
  if (r != CUDA_SUCCESS) {
    board_->complete(*recording);
    return r;
  }
  e.own = *recording;
  if (e.origin != InterprocessEvent::Origin::Made) board_->set_last(e.slot, e.name, *recording);
  return r;
}

template <class Real>
CUresult InterprocessEvents::wait(const InterprocessEvent &e, const StreamForms &stream,
                                  Real real) {
  Recording r = last(e);
  if (r == e.own) return real();
  if (is_complete(r)) return CUDA_SUCCESS;
  if (CUresult reached = reach_board(); reached != CUDA_SUCCESS) return reached;
  return stream.wait(address_of(r), EventBoard::value_of(r));
}

template <class Real>
CUresult InterprocessEvents::query(const InterprocessEvent &e, Real real) const {
  Recording r = last(e);
  CUresult local = real();
  if (r == e.own || (local != CUDA_SUCCESS && local != CUDA_ERROR_NOT_READY)) return local;
  return is_complete(r) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

template <class Real>
CUresult InterprocessEvents::synchronize(CUevent handle, const InterprocessEvent &e,
                                         Real real) const {
  Recording r = last(e);
  if (r == e.own) return real();
  CUresult local = driver().cuEventQuery(handle);
  if (local != CUDA_SUCCESS && local != CUDA_ERROR_NOT_READY) return local;
  wait_for(r);
  return CUDA_SUCCESS;
}

}  // namespace ckpt::cuda

// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/server.h"

#include "common/base/fields.h"
#include "common/base/shortage.h"

namespace ckpt::remote::cuda {

Result<> Server::run() {
  for (;;) {
    Result<Connection::Received> frame = connection_->receive();
    if (malformed_) return fail("the program sent a malformed call");
    if (!frame && connection_->ended()) return {};
    if (!frame) return Failure(frame.error());
    CKPT_CHECK(guarded([&] { return take(*frame); }));
  }
}

Result<> Server::take(const Connection::Received &frame) {
  if (frame.type == Frame::CudaCall) return hand_over(frame.body);
  Reader r(frame.body);
  u64 token = r.get<u64>();
  if (frame.type != Frame::CudaHostDone || !r.done() || !host_calls.done(token))
    return fail("the program sent a frame of type {}, which is none of this protocol",
                static_cast<u16>(frame.type));
  return {};
}

Lane *Server::lane(u32 number) {
  auto found = lanes_.find(number);
  if (found != lanes_.end()) return found->second.get();
  if (lanes_.size() >= kMaxLanes) return nullptr;
  auto execute = [this](ByteView call) { this->execute(call); };
  return lanes_.emplace(number, std::make_unique<Lane>(execute)).first->second.get();
}

// Before a call of one lane, the one-way calls of another one are executed: what the program's
// threads have ordered stays ordered.
Result<> Server::hand_over(ByteView body) {
  CallHeader h{};
  if (body.size() < sizeof h) return fail("the program sent a call without a header");
  std::memcpy(&h, body.data(), sizeof h);
  if (static_cast<Op>(h.op) == Op::Devices) return take_devices(body.subspan(sizeof h));
  Lane *to = lane(h.lane);
  if (!to) return fail("the program has more than {} threads that use CUDA", kMaxLanes);
  if (last_one_way_ && last_one_way_ != to) last_one_way_->wait_for_one_way();
  last_one_way_ = h.one_way ? to : last_one_way_ == to ? to : nullptr;
  if (static_cast<Op>(h.op) != Op::LaneEnded) {
    to->push(Bytes(body.begin(), body.end()), h.one_way != 0);
    return {};
  }
  last_one_way_ = nullptr;
  lanes_.erase(h.lane);
  return {};
}

// Lanes read the numbers, so there must be none yet.
Result<> Server::take_devices(ByteView arguments) {
  Reader r(arguments);
  std::vector<CUdevice> real;
  for (u32 n = read_count(r, sizeof(i32)); n > 0; n--) real.push_back(r.get<i32>());
  if (!r.done() || real.empty() || !lanes_.empty() || devices.translates())
    return fail("the program sent a malformed list of its devices");
  devices = DeviceNumbers(std::move(real));
  return {};
}

void Server::keep_late_error(CUresult e) {
  CUresult none = CUDA_SUCCESS;
  late_error_.compare_exchange_strong(none, e);
}

void Call::put_number(u64 wanted, void *real, u64 owner) {
  u64 number = server.objects.number(wanted, real, owner, makes, header.context);
  if (number == 0 && real) (void)reject();
  out.put(number);
}

void Call::give(ByteView bytes) { take ? (*take)(bytes) : server.send_data(header, bytes); }

u64 Server::new_id() {
  static std::atomic<u64> last{0};
  return ++last;
}

// A thread of the program may have a context of an earlier server, whose address a new one has now.
CUresult Server::enter(u64 number) {
  CUcontext context = nullptr, now = nullptr;
  if (number != 0) {
    context = static_cast<CUcontext>(objects.real(Kind::Context, number));
    if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  thread_local u64 last_server = 0;
  bool another = std::exchange(last_server, id_) != id_;
  driver().cuCtxGetCurrent(&now);  // a call before this one may have changed it
  return another || now != context ? driver().cuCtxSetCurrent(context) : CUDA_SUCCESS;
}

CUresult Server::carry_out(Call &call) {
  u16 op = call.header.op;
  Handler handler = op < static_cast<u16>(Op::First) ? line_handler(op) : op_handler(op);
  if (!handler) return call.reject();
  if (CUresult e = enter(call.header.context); e != CUDA_SUCCESS) return e;
  if (!may_end_context(op)) return handler(call);
  return streams.end_context([&] { return handler(call); });
}

void Server::forget(const std::vector<u64> &ended) {
  for (u64 number : ended) {
    memory.forget_of(number);
    arrays.forget(number);
    layouts.forget(number);
  }
}

CUresult Server::perform(Call &call) {
  CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
  Result<> r = guarded([&]() -> Result<> {
    status = carry_out(call);
    return {};
  });
  call.malformed = call.malformed || !call.in.ok();
  if (call.malformed) return CUDA_ERROR_INVALID_VALUE;
  if (!r) status = CUDA_ERROR_OUT_OF_MEMORY;
  if (call.ended && status == CUDA_SUCCESS) forget(objects.end(call.ended));
  if (call.emptied) forget(objects.end_owned_by(call.emptied));
  if (call.header.one_way && status != CUDA_SUCCESS) keep_late_error(status);
  if (call.waits && !call.header.one_way && status == CUDA_SUCCESS)
    status = late_error_.exchange(CUDA_SUCCESS);
  return status;
}

void Server::execute(ByteView frame) {
  Call call(*this);
  std::memcpy(&call.header, frame.data(), sizeof call.header);
  call.in = Reader(frame.subspan(sizeof call.header));
  CUresult status = perform(call);
  if (call.malformed) {
    malformed_ = true;
    connection_->stream().shut_down();
  } else if (!call.header.one_way) {
    reply(call, status);
  }
}

void Server::tell_host_call(u64 token) {
  if (host_call_) return host_call_(token);
  output.forward(*connection_);
  (void)connection_->send(Frame::CudaHost, view(&token, sizeof token));
}

void Server::reply(const Call &call, CUresult status) {
  output.forward(*connection_);
  ReplyHeader h{call.header.lane, status};
  Connection::Batch batch;
  batch.add(Frame::CudaReply, {view(&h, sizeof h), call.out.bytes()});
  (void)connection_->send(batch);
}

void Server::send_data(const CallHeader &call, ByteView bytes) {
  ReplyHeader h{call.lane, CUDA_SUCCESS};
  Connection::Batch batch;
  batch.add(Frame::CudaData, {view(&h, sizeof h), bytes});
  (void)connection_->send(batch);
}

}  // namespace ckpt::remote::cuda

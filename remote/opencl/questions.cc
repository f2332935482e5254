// SPDX-License-Identifier: Apache-2.0
#include "remote/opencl/questions.h"

namespace ckpt::remote {
namespace {

using ocl::Op;

constexpr size_t kMaxPayload = 8u << 10;
// Answers to the queries of extensions may change, such as the free memory of a device.
constexpr u32 kFirstOfExtensions = 0x4000;

bool of_the_node(ByteView info) {
  Reader r(info);
  ocl::InfoOf of = r.get<ocl::InfoOf>();
  r.get<u64>();
  r.get<u64>();
  u32 param = r.get<u32>();
  bool fixed = of == ocl::InfoOf::Platform || of == ocl::InfoOf::Device;
  return r.done() && fixed && param < kFirstOfExtensions;
}

}  // namespace

std::optional<Bytes> Questions::key(const ocl::CommandHeader &h, ByteView payload) {
  Op op = static_cast<Op>(h.op);
  bool maps = op == Op::MapDevices && !mapped_;
  bool asks = op == Op::Info && mapped_ && of_the_node(payload);
  bool answered = (h.flags & ocl::kSync) != 0 && h.made == 0;
  over_ = over_ || !answered || payload.size() > kMaxPayload || !(maps || asks);
  if (over_) return {};
  Writer key;
  key.put(op).blob(payload).blob(maps ? ByteView() : *mapped_);
  if (maps) mapped_.emplace(payload.begin(), payload.end());
  return key.take();
}

Question question_of(ByteView key) {
  Reader r(key);
  Op op = r.get<Op>();
  return {op, r.blob()};
}

}  // namespace ckpt::remote

// SPDX-License-Identifier: Apache-2.0
//
// Attributes of streams. Apart from the priority they only affect speed, so they are stored and
// have no effect. Compiled twice, as copy_api.cc is.
#include <cstring>

#include "softcuda/driver/state/process.h"

using namespace ckpt::softcuda::driver;

namespace {

bool of_streams(CUstreamAttrID id) {
  return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
         id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

CUstreamAttrValue initial(const Stream &s, CUstreamAttrID id) {
  CUstreamAttrValue v{};
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) v.syncPolicy = CU_SYNC_POLICY_AUTO;
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) v.priority = s.priority;
  if (id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) v.memSyncDomainMap.remote = 1;
  return v;
}

}  // namespace

SOFTCUDA_API CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID id,
                                           const CUstreamAttrValue *value) {
  CALL_WITH_STREAM(stream);
  REQUIRE(value != nullptr && of_streams(id), CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(s.context->mutex);
  s.attributes[id] = *value;
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) s.priority = value->priority;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID id,
                                           CUstreamAttrValue *value) {
  CALL_WITH_STREAM(stream);
  REQUIRE(value != nullptr && of_streams(id), CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(s.context->mutex);
  auto it = s.attributes.find(id);
  *value = it == s.attributes.end() ? initial(s, id) : it->second;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  CALL_WITH_STREAM(from);
  Stream *target = stream_of(call.context, effective(to));
  REQUIRE(target != nullptr && target->context == s.context, CUDA_ERROR_INVALID_HANDLE);
  std::lock_guard lock(s.context->mutex);
  target->attributes = s.attributes;
  return CUDA_SUCCESS;
}

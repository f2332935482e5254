// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

// Reads a list of pairs with its final 0. Properties of mip-mapped images belong to an extension
// that no device here advertises.
cl_int read_list(const cl_sampler_properties *list, Sampler &s) {
  for (const cl_sampler_properties *p = list; p && *p; p += 2) {
    for (size_t i = 0; i < s.properties.size(); i += 2)
      if (s.properties[i] == p[0]) return CL_INVALID_VALUE;
    s.properties.insert(s.properties.end(), {p[0], p[1]});
    switch (p[0]) {
      case CL_SAMPLER_NORMALIZED_COORDS: s.normalized = static_cast<cl_bool>(p[1]); break;
      case CL_SAMPLER_ADDRESSING_MODE: s.addressing = static_cast<cl_uint>(p[1]); break;
      case CL_SAMPLER_FILTER_MODE: s.filter = static_cast<cl_uint>(p[1]); break;
      default: return CL_INVALID_VALUE;
    }
  }
  if (list) s.properties.push_back(0);
  return CL_SUCCESS;
}

cl_sampler make(Sampler *s, cl_int status, cl_int *errcode) {
  if (status == CL_SUCCESS && s->normalized > CL_TRUE) status = CL_INVALID_VALUE;
  if (status == CL_SUCCESS)
    status = create<&::clCreateSampler>(s, handle<cl_context>(s->context.get()), s->normalized,
                                        s->addressing, s->filter, nullptr);
  return created<cl_sampler>(s, status, errcode);
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_sampler clCreateSampler(cl_context context, cl_bool normalized, cl_addressing_mode addressing,
                           cl_filter_mode filter, cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_sampler>(CL_INVALID_CONTEXT, errcode);
  auto *s = new Sampler;
  s->context = Ref<Context>(c);
  s->normalized = normalized;
  s->addressing = addressing;
  s->filter = filter;
  return make(s, CL_SUCCESS, errcode);
}

cl_sampler clCreateSamplerWithProperties(cl_context context, const cl_sampler_properties *list,
                                         cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_sampler>(CL_INVALID_CONTEXT, errcode);
  auto *s = new Sampler;
  s->context = Ref<Context>(c);
  return make(s, read_list(list, *s), errcode);
}

cl_int clRetainSampler(cl_sampler sampler) { return retain<Sampler>(sampler, CL_INVALID_SAMPLER); }

cl_int clReleaseSampler(cl_sampler sampler) {
  return release_call<Sampler>(sampler, CL_INVALID_SAMPLER);
}

cl_int clGetSamplerInfo(cl_sampler sampler, cl_sampler_info param, size_t room, void *value,
                        size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *s = object<Sampler>(sampler);
  if (!s) return CL_INVALID_SAMPLER;
  switch (param) {
    case CL_SAMPLER_REFERENCE_COUNT: return out.scalar(cl_uint{s->app_count.load()});
    case CL_SAMPLER_CONTEXT: return out.scalar(handle<cl_context>(s->context.get()));
    case CL_SAMPLER_NORMALIZED_COORDS: return out.scalar(s->normalized);
    case CL_SAMPLER_ADDRESSING_MODE: return out.scalar(s->addressing);
    case CL_SAMPLER_FILTER_MODE: return out.scalar(s->filter);
    case CL_SAMPLER_PROPERTIES: return out.list(s->properties);
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace ckpt::ocl::entry

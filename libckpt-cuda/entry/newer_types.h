// SPDX-License-Identifier: Apache-2.0
//
// Types of the entries in cuda.api that are newer than CUDA 13.0, the oldest toolkit that this
// library is built with. With a newer toolkit its cudaTypedefs.h is used, and checks cuda.api.
// Structures that 13.0 does not declare are only passed on, so a forward declaration suffices.
#pragma once

#include <cuda.h>

#if CUDA_VERSION < 13010
using CUstreamCigCaptureParams = struct CUstreamCigCaptureParams_st;
using PFN_cuLaunchHostFunc_v13010 = CUresult (*)(CUstream, CUhostFn, void *, unsigned int);
using PFN_cuLaunchHostFunc_v13010_ptsz = PFN_cuLaunchHostFunc_v13010;
using PFN_cuMulticastBindAddr_v13010 = CUresult (*)(CUmemGenericAllocationHandle, CUdevice, size_t,
                                                    CUdeviceptr, size_t, unsigned long long);
using PFN_cuMulticastBindMem_v13010 = CUresult (*)(CUmemGenericAllocationHandle, CUdevice, size_t,
                                                   CUmemGenericAllocationHandle, size_t, size_t,
                                                   unsigned long long);
using PFN_cuStreamBeginCaptureToCig_v13010 = CUresult (*)(CUstream, CUstreamCigCaptureParams *);
using PFN_cuStreamBeginCaptureToCig_v13010_ptsz = PFN_cuStreamBeginCaptureToCig_v13010;
#endif

#if CUDA_VERSION < 13020
using PFN_cuFuncGetParamCount_v13020 = CUresult (*)(CUfunction, size_t *);
using PFN_cuGraphNodeGetParams_v13020 = CUresult (*)(CUgraphNode, CUgraphNodeParams *);
using PFN_cuKernelGetParamCount_v13020 = CUresult (*)(CUkernel, size_t *);
using PFN_cuMemcpyWithAttributesAsync_v13020 = CUresult (*)(CUdeviceptr, CUdeviceptr, size_t,
                                                            CUmemcpyAttributes *, CUstream);
using PFN_cuMemcpyWithAttributesAsync_v13020_ptsz = PFN_cuMemcpyWithAttributesAsync_v13020;
using PFN_cuMemcpy3DWithAttributesAsync_v13020 = CUresult (*)(CUDA_MEMCPY3D_BATCH_OP *,
                                                              unsigned long long, CUstream);
using PFN_cuMemcpy3DWithAttributesAsync_v13020_ptsz = PFN_cuMemcpy3DWithAttributesAsync_v13020;
#endif

#if CUDA_VERSION < 13030
using CUlogicalEndpointId = cuuint32_t;
using CUlogicalEndpointIpcHandleType = unsigned int;  // an enum
using CUlogicalEndpointProp = struct CUlogicalEndpointProp_st;
using CUgraphRecaptureCallback = void (*)();
using PFN_cuLogicalEndpointBindMem_v13030 = CUresult (*)(CUlogicalEndpointId, CUdevice, cuuint64_t,
                                                         CUmemGenericAllocationHandle, cuuint64_t,
                                                         cuuint64_t, unsigned long long);
using PFN_cuLogicalEndpointCreate_v13030 = CUresult (*)(CUlogicalEndpointId,
                                                        const CUlogicalEndpointProp *);
using PFN_cuLogicalEndpointImport_v13030 = CUresult (*)(CUlogicalEndpointId, const void *,
                                                        CUlogicalEndpointIpcHandleType);
using PFN_cuStreamBeginRecaptureToGraph_v13030 = CUresult (*)(CUstream, CUstreamCaptureMode,
                                                              CUgraph, CUgraphRecaptureCallback,
                                                              void *);
using PFN_cuStreamBeginRecaptureToGraph_v13030_ptsz = PFN_cuStreamBeginRecaptureToGraph_v13030;
#endif

#if CUDA_VERSION < 13040
using PFN_cuGraphAddNode_v13040 = CUresult (*)(CUgraphNode *, CUgraph, const CUgraphNode *,
                                               const CUgraphEdgeData *, size_t,
                                               CUgraphNodeParams *);
using PFN_cuGraphNodeSetParams_v13040 = CUresult (*)(CUgraphNode, CUgraphNodeParams *);
using PFN_cuMemGetLocationInfo_v13040 = CUresult (*)(CUdeviceptr, size_t, size_t, size_t,
                                                     CUmemLocation *);
#endif

#if CUDA_VERSION < 13050
using CUDA_FABRIC_COPY_BATCH_OP_v1 = struct CUDA_FABRIC_COPY_BATCH_OP_st;
using PFN_cuFabricCpyBatchAsync_v13050 = CUresult (*)(size_t, CUDA_FABRIC_COPY_BATCH_OP_v1 *,
                                                      unsigned long long, CUstream);
using PFN_cuFabricCpyBatchAsync_v13050_ptsz = PFN_cuFabricCpyBatchAsync_v13050;
#endif

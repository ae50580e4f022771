// What headers of NVIDIA's libraries need of the runtime's, which need not be installed.
#pragma once
#include <stddef.h>
#include <stdint.h>
#define CUDARTAPI
#define __host__
#define __device__
#define __align__(n) __attribute__((aligned(n)))
typedef struct CUstream_st* cudaStream_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct float2 { float x, y; } float2;
typedef struct double2 { double x, y; } double2;
typedef float2 cuComplex;
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef int cudaError_t;
typedef enum cudaDataType_t {
  CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_C_32F = 4, CUDA_C_64F = 5, CUDA_C_16F = 6,
  CUDA_C_8I = 7, CUDA_R_8U = 8, CUDA_C_8U = 9, CUDA_R_32I = 10, CUDA_C_32I = 11, CUDA_R_32U = 12, CUDA_C_32U = 13,
  CUDA_R_16BF = 14, CUDA_C_16BF = 15
} cudaDataType;
typedef enum libraryPropertyType_t { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
typedef int cudaEmulationStrategy, cudaEmulationMantissaControl, cudaEmulationSpecialValuesSupport;
typedef int cudaEmulationStrategy_t, cudaEmulationMantissaControl_t, cudaEmulationSpecialValuesSupport_t;
#ifdef __cplusplus
struct __half;
struct __nv_bfloat16;
#endif

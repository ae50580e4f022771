// What each library can be asked for; the constants and operands of a call stand beside its function.
#pragma once
#include "../library.h"

namespace flambeau::cuda {

std::unique_ptr<LibraryCall> make_cublaslt_matmul(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cudnn_attention(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cudnn_convolution(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cudnn_recurrent(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cufft_transform(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cusolver_decomposition(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cusolver_factors(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cusolver_batch(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cublas_batched(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cublas_grouped(int device, const Constants& constants);
std::unique_ptr<LibraryCall> make_cublas_triangular(int device, const Constants& constants);

}  // namespace flambeau::cuda

"""Our declarations of NVIDIA's libraries beside their own headers, where a wheel with headers is installed.

A compiler is shown both: each function must take as many parameters as we say, of the same sizes and kinds, and each
number must be that of its name there.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from flambeau._libraries import in_packages

from . import fake

HERE = Path(__file__).parent
LIBRARIES = HERE.parents[1] / "native/cuda/libraries"
ALIKE = """
#include <tuple>
#include <type_traits>
template <class A, class B> constexpr bool one = sizeof(A) == sizeof(B) &&
    std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <class A, class B> constexpr bool alike = false;
template <class R, class... P, class S, class... Q>
constexpr bool alike<R (*)(P...), S (*)(Q...)> = [] {
  if constexpr (sizeof...(P) == sizeof...(Q)) return one<R, S> && (one<P, Q> && ...);
  else return false;
}();
"""
CUSOLVER = "nvidia-cusolver nvidia-cusolver-cu12 nvidia-cublas nvidia-cublas-cu12"
#: source file -> (packages, headers, namespace inside flambeau::cuda, {our name or number: theirs})
SOURCES = {
    "cublaslt.cpp": ("nvidia-cublas nvidia-cublas-cu12", ["cublasLt.h"], "", """
        kNotSupported=CUBLAS_STATUS_NOT_SUPPORTED kLayoutBatch=CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT
        kLayoutStep=CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET kDescTransposeA=CUBLASLT_MATMUL_DESC_TRANSA
        kDescTransposeB=CUBLASLT_MATMUL_DESC_TRANSB kDescEpilogue=CUBLASLT_MATMUL_DESC_EPILOGUE
        kDescBias=CUBLASLT_MATMUL_DESC_BIAS_POINTER kPreferWorkspace=CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
        kPreferReduction=CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
        kPreferAlignment=CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
        kPreferAlignment+3=CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES kEpilogueNone=CUBLASLT_EPILOGUE_DEFAULT
        kEpilogueRelu=CUBLASLT_EPILOGUE_RELU kEpilogueBias=CUBLASLT_EPILOGUE_BIAS kEpilogueGelu=CUBLASLT_EPILOGUE_GELU
        kEpilogueBiasGradient=CUBLASLT_EPILOGUE_BGRADB kDescScaleA=CUBLASLT_MATMUL_DESC_A_SCALE_POINTER
        kDescScaleB=CUBLASLT_MATMUL_DESC_B_SCALE_POINTER kDescScaleD=CUBLASLT_MATMUL_DESC_D_SCALE_POINTER
        kDescFastSums=CUBLASLT_MATMUL_DESC_FAST_ACCUM kDescBiasType=CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
        kDescScaleModeA=CUBLASLT_MATMUL_DESC_A_SCALE_MODE kDescScaleModeB=CUBLASLT_MATMUL_DESC_B_SCALE_MODE
        kScaleByRow=CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F kScaleOne=CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F
        kScaleBy16=CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 kScaleBy32=CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0
        kScaleBy128=CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F kScaleSquare=CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
        sizeof(Heuristic)=sizeof(cublasLtMatmulHeuristicResult_t) sizeof(Algorithm)=sizeof(cublasLtMatmulAlgo_t)
        2=CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE 68=CUBLAS_COMPUTE_32F 77=CUBLAS_COMPUTE_32F_FAST_TF32
        70=CUBLAS_COMPUTE_64F 64=CUBLAS_COMPUTE_16F 72=CUBLAS_COMPUTE_32I"""),
    "cudnn_graph.cpp": ("nvidia-cudnn-cu13 nvidia-cudnn-cu12", ["cudnn.h"], "cudnn", """
        kPointwiseMode=CUDNN_BACKEND_POINTWISE_DESCRIPTOR kConvolution=CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
        kEngine=CUDNN_BACKEND_ENGINE_DESCRIPTOR kConfig=CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
        kHeuristics=CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR kPlan=CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
        kForward=CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        kFilter=CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
        kData=CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
        kPointwise=CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR kGraph=CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
        kPack=CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR kTensor=CUDNN_BACKEND_TENSOR_DESCRIPTOR
        kProductMode=CUDNN_BACKEND_MATMUL_DESCRIPTOR kProduct=CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
        kReductionMode=CUDNN_BACKEND_REDUCTION_DESCRIPTOR kReduction=CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
        kReshape=CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR kTypeHandle=CUDNN_TYPE_HANDLE
        kTypeDType=CUDNN_TYPE_DATA_TYPE kTypeBool=CUDNN_TYPE_BOOLEAN kTypeInt64=CUDNN_TYPE_INT64
        kTypeFloat=CUDNN_TYPE_FLOAT kTypeDouble=CUDNN_TYPE_DOUBLE kTypePointer=CUDNN_TYPE_VOID_PTR
        kTypeMode=CUDNN_TYPE_CONVOLUTION_MODE kTypeHeuristic=CUDNN_TYPE_HEUR_MODE
        kTypeNote=CUDNN_TYPE_NUMERICAL_NOTE kTypePointwise=CUDNN_TYPE_POINTWISE_MODE
        kTypeDescriptor=CUDNN_TYPE_BACKEND_DESCRIPTOR kTypeReduction=CUDNN_TYPE_REDUCTION_OPERATOR_TYPE
        kTensorCores=CUDNN_NUMERICAL_NOTE_TENSOR_CORE kDownConverts=CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS
        kNondeterministic=CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC kFloat=CUDNN_DATA_FLOAT kInt32=CUDNN_DATA_INT32
        kBoolean=CUDNN_DATA_BOOLEAN kHeuristicModes[0]=CUDNN_HEUR_MODE_A kHeuristicModes[1]=CUDNN_HEUR_MODE_FALLBACK
        Operations::Add=CUDNN_POINTWISE_ADD Operations::Multiply=CUDNN_POINTWISE_MUL
        Operations::Divide=CUDNN_POINTWISE_DIV Operations::Subtract=CUDNN_POINTWISE_SUB
        Operations::Exp=CUDNN_POINTWISE_EXP Operations::Log=CUDNN_POINTWISE_LOG
        Operations::Identity=CUDNN_POINTWISE_IDENTITY Operations::AtLeast=CUDNN_POINTWISE_CMP_GE
        Operations::Position=CUDNN_POINTWISE_GEN_INDEX Operations::Select=CUDNN_POINTWISE_BINARY_SELECT
        Operations::Sum=CUDNN_REDUCE_TENSOR_ADD Operations::Largest=CUDNN_REDUCE_TENSOR_MAX
        0=CUDNN_ATTR_POINTWISE_MODE 1=CUDNN_ATTR_POINTWISE_MATH_PREC 9=CUDNN_ATTR_POINTWISE_AXIS
        200=CUDNN_ATTR_ENGINEHEUR_MODE 201=CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH 202=CUDNN_ATTR_ENGINEHEUR_RESULTS
        300=CUDNN_ATTR_ENGINECFG_ENGINE 400=CUDNN_ATTR_EXECUTION_PLAN_HANDLE
        401=CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG 402=CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE
        750=CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR 751=CUDNN_ATTR_OPERATION_POINTWISE_XDESC
        752=CUDNN_ATTR_OPERATION_POINTWISE_BDESC 753=CUDNN_ATTR_OPERATION_POINTWISE_YDESC
        758=CUDNN_ATTR_OPERATION_POINTWISE_TDESC 800=CUDNN_ATTR_OPERATIONGRAPH_HANDLE
        801=CUDNN_ATTR_OPERATIONGRAPH_OPS 900=CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT 901=CUDNN_ATTR_TENSOR_DATA_TYPE
        902=CUDNN_ATTR_TENSOR_DIMENSIONS 903=CUDNN_ATTR_TENSOR_STRIDES 906=CUDNN_ATTR_TENSOR_UNIQUE_ID
        907=CUDNN_ATTR_TENSOR_IS_VIRTUAL 908=CUDNN_ATTR_TENSOR_IS_BY_VALUE
        1000=CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS 1001=CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS
        1003=CUDNN_ATTR_VARIANT_PACK_WORKSPACE 1303=CUDNN_ATTR_ENGINE_NUMERICAL_NOTE
        1500=CUDNN_ATTR_MATMUL_COMP_TYPE 1520=CUDNN_ATTR_OPERATION_MATMUL_ADESC
        1521=CUDNN_ATTR_OPERATION_MATMUL_BDESC 1522=CUDNN_ATTR_OPERATION_MATMUL_CDESC
        1523=CUDNN_ATTR_OPERATION_MATMUL_DESC 1600=CUDNN_ATTR_REDUCTION_OPERATOR
        1601=CUDNN_ATTR_REDUCTION_COMP_TYPE 1610=CUDNN_ATTR_OPERATION_REDUCTION_XDESC
        1611=CUDNN_ATTR_OPERATION_REDUCTION_YDESC 1612=CUDNN_ATTR_OPERATION_REDUCTION_DESC
        2200=CUDNN_ATTR_OPERATION_RESHAPE_XDESC 2201=CUDNN_ATTR_OPERATION_RESHAPE_YDESC"""),
    "convolution.cpp": ("nvidia-cudnn-cu13 nvidia-cudnn-cu12", ["cudnn.h"], "cudnn", """
        100=CUDNN_ATTR_CONVOLUTION_COMP_TYPE 101=CUDNN_ATTR_CONVOLUTION_CONV_MODE
        102=CUDNN_ATTR_CONVOLUTION_DILATIONS 103=CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES
        104=CUDNN_ATTR_CONVOLUTION_POST_PADDINGS 105=CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS
        106=CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS 700=CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
        701=CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA 702=CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
        703=CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W 704=CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X
        705=CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y 706=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
        708=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC 709=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
        710=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX 711=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
        712=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA
        714=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC
        715=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW 716=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X
        717=CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY 0=CUDNN_DATA_FLOAT 1=CUDNN_DATA_DOUBLE 2=CUDNN_DATA_HALF
        9=CUDNN_DATA_BFLOAT16 1=CUDNN_CROSS_CORRELATION 3000=CUDNN_STATUS_NOT_SUPPORTED
        4000=CUDNN_STATUS_INTERNAL_ERROR"""),
    "rnn.cpp": ("nvidia-cudnn-cu13 nvidia-cudnn-cu12", ["cudnn.h"], "cudnn", """
        kRelu=CUDNN_RNN_RELU kTanh=CUDNN_RNN_TANH kLSTM=CUDNN_LSTM kGRU=CUDNN_GRU kStandard=CUDNN_RNN_ALGO_STANDARD
        kNoBias=CUDNN_RNN_NO_BIAS kTwoBiases=CUDNN_RNN_DOUBLE_BIAS kLinearInput=CUDNN_LINEAR_INPUT
        kPacked=CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED kInference=CUDNN_FWD_MODE_INFERENCE
        kTraining=CUDNN_FWD_MODE_TRAINING kAddGradients=CUDNN_WGRAD_MODE_ADD kDefaultMath=CUDNN_DEFAULT_MATH
        kTensorMath=CUDNN_TENSOR_OP_MATH kExactMath=CUDNN_FMA_MATH 0=CUDNN_UNIDIRECTIONAL 1=CUDNN_BIDIRECTIONAL"""),
    "cufft.cpp": ("nvidia-cufft nvidia-cufft-cu12", ["cufft.h"], "", """
        kReal=CUFFT_R2C kToReal=CUFFT_C2R kComplex=CUFFT_C2C kReal+kWide=CUFFT_D2Z kToReal+kWide=CUFFT_Z2D
        kComplex+kWide=CUFFT_Z2Z -1=CUFFT_FORWARD 1=CUFFT_INVERSE 2=CUFFT_ALLOC_FAILED 8=CUFFT_INVALID_SIZE
        16=CUFFT_NOT_SUPPORTED"""),
    "cublas.cpp": ("nvidia-cublas nvidia-cublas-cu12", ["cublas_v2.h"], "", """
        0=CUBLAS_SIDE_LEFT 1=CUBLAS_SIDE_RIGHT 0=CUBLAS_FILL_MODE_LOWER 1=CUBLAS_FILL_MODE_UPPER 0=CUBLAS_OP_N
        0=CUBLAS_DIAG_NON_UNIT 1=CUBLAS_DIAG_UNIT"""),
    "cublas_grouped.cpp": ("nvidia-cublas nvidia-cublas-cu12", ["cublas_v2.h"], "", """
        kNotSupported=CUBLAS_STATUS_NOT_SUPPORTED 68=CUBLAS_COMPUTE_32F 77=CUBLAS_COMPUTE_32F_FAST_TF32
        70=CUBLAS_COMPUTE_64F 0=CUBLAS_OP_N 1=CUBLAS_OP_T"""),
    "cusolver.cpp": (CUSOLVER, ["cusolverDn.h", "cublas_v2.h"], "cusolver", """
        0=CUSOLVER_EIG_MODE_NOVECTOR 1=CUSOLVER_EIG_MODE_VECTOR 1=CUSOLVER_STATUS_NOT_INITIALIZED
        2=CUSOLVER_STATUS_ALLOC_FAILED 3=CUSOLVER_STATUS_INVALID_VALUE 4=CUSOLVER_STATUS_ARCH_MISMATCH
        5=CUSOLVER_STATUS_MAPPING_ERROR 6=CUSOLVER_STATUS_EXECUTION_FAILED 7=CUSOLVER_STATUS_INTERNAL_ERROR
        8=CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED 9=CUSOLVER_STATUS_NOT_SUPPORTED 0=CUBLAS_FILL_MODE_LOWER
        1=CUBLAS_FILL_MODE_UPPER 0=CUBLAS_SIDE_LEFT 1=CUBLAS_SIDE_RIGHT 1=CUBLAS_OP_T 2=CUBLAS_OP_C"""),
    "cusolver_batches.cpp": (CUSOLVER, ["cusolverDn.h", "cublas_v2.h"], "", """
        0=CUSOLVER_EIG_MODE_NOVECTOR 1=CUSOLVER_EIG_MODE_VECTOR 0=CUBLAS_FILL_MODE_LOWER
        1=CUBLAS_FILL_MODE_UPPER"""),
    "cusolver_factors.cpp": (CUSOLVER, ["cusolverDn.h", "cublas_v2.h"], "", """
        0=CUSOLVER_EIG_MODE_NOVECTOR 1=CUSOLVER_EIG_MODE_VECTOR 4=CUDA_C_32F 5=CUDA_C_64F"""),
}


def program(name):
    """What the compiler is shown; skips where the package is not installed."""
    packages, headers, space, numbers = SOURCES[name]
    found = [next(in_packages(packages.split(), re.escape(header)), None) for header in headers]
    if None in found or fake.COMPILER is None:
        pytest.skip(f"needs a compiler and the headers of {packages}")
    lines = [f"#include <{header}>" for header in headers] + [f'#include "{LIBRARIES / name}"', ALIKE]
    lines.append(f"namespace flambeau::cuda{'::' + space if space else ''} {{ namespace {{")
    text = (LIBRARIES / name).read_text()
    if space:
        text = (LIBRARIES / f"{space}.h").read_text()
    functions = re.findall(r'X\((\w+), ([^"]+), "(\w+)",\s*\\?\s*(\([^()]*\))\)', text)
    assert len(functions) == text.count("  X("), "a function in a form that this test does not read"
    for _, result, symbol, parameters in functions:
        declared = parameters.replace("\\", " ").replace("\n", " ")
        lines.append(f'static_assert(alike<decltype(&::{symbol}), {result}(*) {declared}>, "{symbol}");')
    for pair in numbers.split():
        ours, theirs = pair.split("=")
        lines.append(f'static_assert(int64_t({ours}) == int64_t({theirs}), "{pair}");')
    return "\n".join([*lines, "}}"]), [Path(path).parent for path in found]


def compiled(source, folders):
    """What a compiler says about it; nothing where all is well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "headers.cpp")
        path.write_text(source)
        done = subprocess.run([fake.COMPILER, "-std=c++20", "-fsyntax-only", "-w", "-mf16c", f"-I{HERE / 'headers'}",
                               *(f"-I{folder}" for folder in folders), str(path)], capture_output=True, text=True)
    return done.stderr


@pytest.mark.parametrize("name", SOURCES)
def test_declarations_are_the_library_s(name):
    assert compiled(*program(name)) == ""


@pytest.mark.parametrize("name", SOURCES)
def test_a_wrong_declaration_is_seen(name):
    source, folders = program(name)
    wrong = source.replace("(*) (", "(*) (double, ", 1)
    assert "static assertion failed" in compiled(wrong, folders)

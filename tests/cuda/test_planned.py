"""The real cuDNN, told what a GPU would be, makes plans of the graphs we give it: no GPU is needed, and nothing runs.

Skipped where the packages nvidia-cudnn-cu12 and nvidia-cublas-cu12 are not installed (or on PYTHONPATH).
"""

import json
import subprocess
from pathlib import Path

import pytest

from flambeau._libraries import NVIDIA, in_packages

from . import fake

ROOT = Path(__file__).parents[2]
#: what cuDNN wants to know of a GPU; the numbers of an H100
GPU = {"cudaDeviceId": 0, "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 12090, "isTccDriver": 0,
       "l2CacheSize": 52428800, "maxBlockSize": [1024, 1024, 64], "maxCtasPerSM": 32,
       "maxGridSize": [2147483647, 65535, 65535], "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
       "maxSharedMemoryPerBlockOptin": 232448, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
       "memClockRateKHz": 2619000, "memoryBusWidth": 5120, "multiProcessorCount": 132,
       "oversizedSharedMemoryPerBlock": 0, "pciDeviceId": 0, "regsPerBlock": 65536,
       "reservedSharedMemoryPerBlock": 1024, "smClockRateKHz": 1980000, "smCountOrigin": 0, "supportCoopLaunch": 1,
       "totalGlobalMem": 85000000000, "warpSize": 32}
#: functions of the driver that cuDNN looks for, and those of them that hand out a handle
NAMES = """cuCtxGetCurrent cuCtxGetDevice cuCtxGetLimit cuCtxPopCurrent cuCtxPushCurrent cuDeviceGet
    cuDeviceGetAttribute cuDeviceGetCount cuDriverGetVersion cuFuncGetAttribute cuFuncSetAttribute cuGetErrorName
    cuGetErrorString cuGetProcAddress cuGetProcAddress_v2 cuInit cuKernelGetAttribute cuKernelGetFunction
    cuKernelSetAttribute cuLaunchCooperativeKernel cuLaunchKernel cuLaunchKernelEx cuLibraryGetKernel
    cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload cuLinkAddData cuLinkComplete cuLinkCreate
    cuLinkDestroy cuModuleGetFunction cuModuleLoadData cuModuleLoadDataEx cuModuleUnload
    cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialClusterSize cuStreamGetCtx cuTensorMapEncodeIm2col
    cuTensorMapEncodeTiled"""
HANDED = ("cuKernelGetFunction", "cuLibraryGetKernel", "cuLibraryLoadData", "cuModuleGetFunction", "cuModuleLoadData",
          "cuModuleLoadDataEx")
NONE = ("cuDeviceGet", "cuDeviceGetCount", "cuInit")


def driver(folder):
    """A libcuda.so.1 without a device, which takes every kernel."""
    lines = []
    for name in NAMES.split():
        body = "*p = (void*)4096;" if name in HANDED else "*(int*)p = 12090;" if name == "cuDriverGetVersion" else ""
        lines.append(f'extern "C" int {name}(void** p) {{ {body} return {100 if name in NONE else 0}; }}')
    source = folder / "driver.cpp"
    source.write_text("\n".join(lines))
    subprocess.run([fake.COMPILER, "-w", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", str(source), "-o",
                    str(folder / "libcuda.so.1")], check=True)


@pytest.mark.skipif(fake.COMPILER is None, reason="no C++ compiler")
@pytest.mark.parametrize("arch", (900, *(pytest.param(a, marks=pytest.mark.exhaustive) for a in (800, 1000))))
def test_cudnn_makes_plans(arch, tmp_path):
    real = next(in_packages(NVIDIA["cudnn"][0], r"libcudnn\.so\.9"), None)
    lt = next(in_packages(NVIDIA["cublaslt"][0], r"libcublasLt\.so\.1[23]"), None)
    if real is None or lt is None:
        pytest.skip("needs the packages nvidia-cudnn-cu12 and nvidia-cublas-cu12")
    for path in fake.build_libraries().iterdir():
        if path.name != fake.LIBRARIES["cudnn"]:
            (tmp_path / path.name).symlink_to(path.resolve())
    planner = fake.build("libraries/planner", "-O1", "-fvisibility=hidden")
    (tmp_path / fake.LIBRARIES["cudnn"]).symlink_to(planner)
    described = tmp_path / "gpu.json"
    described.write_text(json.dumps(GPU | {"deviceVer": arch}))
    beside = tmp_path / "beside"
    beside.mkdir()
    driver(beside)
    search = ":".join([str(Path(real).parent), str(Path(lt).parent), str(beside)])
    fake.pytest_with_driver("tests/cuda/fake/planned_cudnn.py", timeout=500, FLAMBEAU_REAL_CUDNN=real,
                            FLAMBEAU_DESCRIBED_GPU=str(described), LD_LIBRARY_PATH=search,
                            **{fake.LIBRARY_FOLDER: str(tmp_path)})

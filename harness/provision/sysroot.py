"""The user land of another architecture, unpacked from Debian packages. Nothing of it is installed or booted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from harness.provision.build import Built, Workshop, first_on_path
from harness.provision.errors import ProvisionError
from harness.provision.recipes import Sysroot


class Architecture(msgspec.Struct, frozen=True):
    """What is particular to one emulated architecture."""

    debian: str
    emulator: str
    binutils: str  # prefix of the cross tools
    apt: tuple[str, ...]  # packages that bring the host tools
    cpu: str  # argument of the emulator
    cpuinfo: str  # one processor's entry in /proc/cpuinfo
    midr: str


# 512-bit vectors (the emulator's "max") break NumPy's float32 product, and older cores lack bfloat16.
CPU: Final = "max,sve=off,sme=off"
FEATURES: Final = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 sm3 sm4"
    " asimddp sha512 asimdfhm dit uscat ilrcpc flagm ssbs sb dcpodp flagm2 frint i8mm bf16"
)
ARCHITECTURES: Final = {
    "aarch64": Architecture(
        debian="arm64",
        emulator="qemu-aarch64-static",
        binutils="aarch64-linux-gnu-",
        apt=("qemu-user-static", "debootstrap", "binutils-aarch64-linux-gnu"),
        cpu=CPU,
        cpuinfo=f"BogoMIPS\t: 50.00\nFeatures\t: {FEATURES}\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
        "CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
        midr="0x00000000413fd0c1\n",
    ),
}

# A Python of that Debian release, and every library that it or an extension module of the usual wheels links to.
PYTHON: Final = {"bookworm": "3.11"}
LIBRARIES: Final = (
    *("libbz2-1.0", "libc6", "libcom-err2", "libcrypt1", "libdb5.3", "libexpat1", "libffi8", "libgcc-s1", "libgomp1"),
    *("libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0", "liblzma5", "libncursesw6"),
    *("libnsl2", "libnuma1", "libreadline8", "libsqlite3-0", "libssl3", "libstdc++6", "libtinfo6", "libtirpc3"),
    *("libuuid1", "media-types", "zlib1g"),
)
PYTHON_PACKAGES: Final = ("python{}", "python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib")


def missing_tools(architecture: str) -> list[str]:
    """Return the host programs that emulation needs and that are not installed."""
    a = ARCHITECTURES[architecture]
    wanted = [a.emulator, "debootstrap", "dpkg-deb", *(a.binutils + tool for tool in ("as", "ld", "readelf"))]
    if os.geteuid() != 0:
        wanted.append("fakeroot")  # debootstrap insists on root, though it only downloads here
    return [tool for tool in wanted if first_on_path(tool) is None]


def require_tools(name: str, architecture: str) -> None:
    """Raise, naming each missing program and the line that installs them.

    :raises ProvisionError: at least one is missing
    """
    if missing := missing_tools(architecture):
        apt = [*ARCHITECTURES[architecture].apt, *(["fakeroot"] if "fakeroot" in missing else [])]
        raise ProvisionError(
            f"{name} runs under emulation and needs {', '.join(missing)}, not found on this machine; on Debian or"
            f" Ubuntu: apt-get install --no-install-recommends {' '.join(apt)}"
        )


def build(recipe: Sysroot, shop: Workshop) -> Built:
    """Let debootstrap fetch and verify packages, unpack those that are needed, add a view of the processor."""
    require_tools(shop.name, recipe.architecture)
    a = ARCHITECTURES[recipe.architecture]
    python = PYTHON[recipe.release]
    packages = [*LIBRARIES, *(name.format(python) for name in PYTHON_PACKAGES)]
    shop.say(f"fetching a Debian {recipe.release} user land for {a.debian}")
    downloads = shop.scratch / "debian"
    argv = [
        first_on_path("debootstrap") or "debootstrap",
        f"--arch={a.debian}",
        "--variant=minbase",
        "--download-only",
        f"--include={','.join(packages)}",
        recipe.release,
        str(downloads),
    ]
    if mirror := os.environ.get("AFERE_DEBIAN_MIRROR"):
        argv.append(mirror)
    if os.geteuid() != 0:
        argv = ["fakeroot", *argv]
    shop.run(argv, doing="fetching Debian packages (set AFERE_DEBIAN_MIRROR for another mirror)")
    root = shop.path / "root"
    root.mkdir()
    archives = downloads / "var/cache/apt/archives"
    shop.say(f"unpacking {len(packages)} packages")
    for package in packages:
        found = sorted(archives.glob(f"{package}_*.deb"))
        if not found:
            raise ProvisionError(f"{shop.name}: debootstrap fetched no package {package}")
        shop.run(["dpkg-deb", "-x", str(found[0]), str(root)], doing=f"unpacking {package}")
    _processor(root, a)
    return Built(
        python=str(root / "usr/bin" / f"python{python}"), versions={"debian": recipe.release, "python": python}
    )


def _processor(root: Path, a: Architecture) -> None:
    """Write files that the emulator shows in place of the host's, which belong to another kind of processor.

    torch reads them, and crashes on the host's own.
    """
    entries = []
    for number in range(os.cpu_count() or 1):
        entries.append(f"processor\t: {number}\n{a.cpuinfo}\n")
        identification = root / f"sys/devices/system/cpu/cpu{number}/regs/identification"
        identification.mkdir(parents=True)
        (identification / "midr_el1").write_text(a.midr, encoding="ascii")
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text("".join(entries), encoding="ascii")

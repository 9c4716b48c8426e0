"""Stand-in shared libraries: the names that a loader asks for, with functions that trap if they are ever called."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from harness.provision.build import Workshop
from harness.provision.recipes import Stubs
from harness.provision.sysroot import ARCHITECTURES

TRAP: Final = {"aarch64": "brk #1"}
BOUND: Final = ("GLOBAL", "WEAK", "UNIQUE")


def make(stubs: Stubs, architecture: str, site: Path, root: Path, into: Path, shop: Workshop) -> None:
    """Write all stub libraries of a recipe into ``into``, and replace the files it names.

    Weak references are left alone: a program tests them for null to see whether a feature is there, and a stub for one
    would be called.
    """
    tools = ARCHITECTURES[architecture].binutils
    into.mkdir()
    replaced = {site / name for name in stubs.replace}
    provided = [p for pattern in stubs.provided_by for p in sorted(site.glob(pattern)) if p not in replaced]
    system = [p for folder in ("lib", "usr/lib") for p in (root / folder).rglob("*.so*") if p.is_file()]
    interpreter = [p for p in (root / "usr/bin").glob("python3*") if p.is_file() and not p.is_symlink()]
    defined: set[str] = set()
    for path in {p.resolve() for p in (*provided, *system, *interpreter)}:
        defined |= {name for name, _, undefined in symbols(path, tools, shop) if not undefined}
    wanted = {
        name
        for member in stubs.unresolved_in
        for name, binding, undefined in symbols(site / member, tools, shop)
        if undefined and binding != "WEAK"
    }
    missing = wanted - defined
    shop.say(f"making stand-ins for {len(stubs.empty) + 1} libraries, {len(missing)} functions")
    write(into / stubs.holder, stubs.holder, missing, architecture, shop)
    for soname in stubs.empty:
        write(into / soname, soname, (), architecture, shop)
    for soname, names in stubs.preload.items():
        write(into / soname, soname, names, architecture, shop)
    for path in replaced:
        write(path, path.name, (), architecture, shop)


def symbols(path: Path, tools: str, shop: Workshop) -> list[tuple[str, str, bool]]:
    """Return the dynamic symbols of a file: (name without version, binding, whether it is undefined)."""
    lines = shop.run([f"{tools}readelf", "--dyn-syms", "-W", str(path)], doing=f"reading the symbols of {path.name}")
    rows = [line.split() for line in lines]
    return [
        (row[7].split("@")[0], row[4], row[6] == "UND")
        for row in rows
        if len(row) >= 8 and row[0].rstrip(":").isdigit() and row[4] in BOUND
    ]


def write(path: Path, soname: str, functions: Iterable[str], architecture: str, shop: Workshop) -> None:
    """Assemble and link one library in which each function traps."""
    tools = ARCHITECTURES[architecture].binutils
    lines = ['.section .note.GNU-stack,"",%progbits', ".text", ".p2align 2"]
    for name in sorted(functions):
        lines += [
            f".globl {name}",
            f".type {name},%function",
            f"{name}: {TRAP[architecture]}",
            f".size {name},.-{name}",
        ]
    source, unlinked = shop.scratch / "stub.s", shop.scratch / "stub.o"
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    path.unlink(missing_ok=True)
    shop.run([f"{tools}as", str(source), "-o", str(unlinked)], doing=f"assembling {soname}")
    shop.run(
        [
            f"{tools}ld",
            "-shared",
            "-soname",
            soname,
            "-z",
            "noexecstack",
            "-z",
            "max-page-size=4096",
            str(unlinked),
            "-o",
            str(path),
        ],
        doing=f"linking {soname}",
    )

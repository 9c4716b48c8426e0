"""Who can be asked: the four grammar compilers, each in an environment of its own, and two matchers that come along.

A case holds a program (see :mod:`reference.grammar.program`); a compiler gets the pattern text, the strings, and an
ordinary expression for afterwards. What is right is not in the case and never sent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.outcome import Outcome
from harness.provision import Venv, find
from harness.records import Case, Json
from harness.suite import Needed, Session, TargetKind, TargetName
from harness.targets.base import Answer, Blobs, Hello, InProcess, Target, TargetUnavailable
from reference.grammar.text import to_text
from suites.grammar import nfa
from suites.grammar.features import parsed

if TYPE_CHECKING:
    # What starts programs is imported where a target is made: listing targets must answer at once.
    from harness.sandbox import Limits

OPS: Final = Path(__file__).with_name("ops")
MIB: Final = 1 << 20

OP: Final = "regex"
RE_VARIANTS: Final = {"guarded": "for_guarded_re.py", "plain": "for_re.py"}
AFTER_PATTERN: Final = "x[0-9]{2}y?"
AFTER_PROBES: Final = ("x12", "x1", "x12y", "y12", "x123")

CPU_S: Final = 3.0  # vLLM stops a compilation after 5 s of wall clock
WALL_S: Final = 30.0  # for a compiler that waits; one that computes meets the other limit on a busy machine too
MEMORY_MIB: Final = 1024  # above what the compiler's process needs at rest

Operation = Callable[[dict[str, Any]], dict[str, Any]]
"""From pattern, probes, twice and after to decision, accepts, again and after (see ``ops/matching.py``)."""


def wire(input_: dict[str, Json]) -> dict[str, Json]:
    """What a compiler is sent for a case's input.

    :raises ValueError: the input holds no program
    """
    node = parsed(input_)
    if node is None:
        raise ValueError(f"the case holds no program: {str(input_)[:200]}")
    return {
        "pattern": to_text(node),
        "probes": input_["probes"],
        "twice": input_["twice"],
        "after": {"pattern": AFTER_PATTERN, "probes": list(AFTER_PROBES)},
    }


def settle(answer: Answer) -> Answer:
    """Turn the decision in a payload into the outcome class."""
    if answer.outcome is not Outcome.ANSWERED or not isinstance(answer.payload, dict):
        return answer
    outcome = {"refused": Outcome.REFUSED, "failed": Outcome.FAILED}.get(answer.payload.get("decision", ""))
    if outcome is None:
        return answer
    return msgspec.structs.replace(answer, outcome=outcome, detail=str(answer.payload.get("reason", ""))[:500])


class Compiler:
    """A compiler behind another target: sends it the text of a case's program, reads the decision from its payload."""

    def __init__(self, inner: Target, send: Callable[[dict[str, Json]], dict[str, Json]] = wire) -> None:
        self._inner, self._send = inner, send
        self.name = inner.name
        self.transport = inner.transport

    def open(self) -> Hello:
        """Open the target behind it."""
        return self._inner.open()

    def run(self, case: Case, blobs: Blobs) -> Answer:
        """Put one case to it."""
        sent = msgspec.structs.replace(case, input=self._send(case.input))
        return settle(self._inner.run(sent, blobs))

    def close(self) -> None:
        """Close the target behind it."""
        self._inner.close()


def limits(session: Session, rest_mib: int) -> Limits:
    """The limits of one compiler: the session's, else this suite's. ``rest_mib``: what its process needs at rest."""
    from harness.sandbox import Limits

    given = session.limits
    memory = given.get("memory_mb", MEMORY_MIB + rest_mib)
    return Limits(
        wall_s=given.get("wall_s", WALL_S),
        cpu_s=given.get("cpu_s", CPU_S),
        memory_bytes=int(memory * MIB),
        output_bytes=int(given.get("output_mb", 64) * MIB),
    )


class _Row(msgspec.Struct, frozen=True):
    """One compiler: its distribution, what else its environment needs, its operations, its memory at rest (MiB)."""

    summary: str
    operations: str
    imports: tuple[str, ...]
    version: str
    beside: tuple[str, ...] = ()
    rest_mib: int = 64
    disk_bytes: int = 1 << 28


# xgrammar names torch and transformers among its dependencies, several GB, and the byte-wise matcher calls neither, so
# its environment is written out without them; ``ops/for_xgrammar.py`` puts stand-ins in their place.
_XGRAMMAR_BESIDE: Final = (
    "--no-deps",
    "apache-tvm-ffi==0.1.15.post2",
    "typing_extensions>=4.9",
    "pydantic==2.14.4",
    "pydantic-core==2.50.5",
    "annotated-types",
    "typing-inspection",
    "numpy",
)
COMPILERS: Final[dict[str, _Row]] = {
    "xgrammar": _Row("xgrammar, byte by byte", "for_xgrammar.py", ("tvm_ffi", "numpy"), "0.2.8", _XGRAMMAR_BESIDE, 160),
    "llguidance": _Row("llguidance, byte by byte", "for_llguidance.py", ("llguidance",), "1.7.6"),
    "outlines-core": _Row("outlines-core, byte by byte", "for_outlines_core.py", ("outlines_core",), "0.2.14"),
    "lm-format-enforcer": _Row(
        "lm-format-enforcer, character by character", "for_lmfe.py", ("lmformatenforcer",), "0.11.3"
    ),
}


def _needed(name: TargetName) -> Needed:
    row = COMPILERS[name.kind]
    recipe = Venv((f"{name.kind}=={name.version}", *row.beside), imports=row.imports, disk_bytes=row.disk_bytes)
    return Needed(f"{name.kind}@{name.version}", recipe)


def _build(name: TargetName, session: Session) -> Target:
    row = COMPILERS[name.kind]
    environment = find(str(name))
    if environment is None or environment.python is None:
        raise TargetUnavailable(f"{name} is not provisioned; run: afere targets add {name}")
    from harness.targets.stdio import WorkerTarget, python_worker

    command = python_worker(environment.python, OPS / row.operations)
    variables = {**environment.env, "HF_HUB_OFFLINE": "1"}
    return Compiler(
        WorkerTarget(
            str(name), command, logs=session.logs, limits=limits(session, row.rest_mib), env=variables, ready_s=120.0
        )
    )


def python_re(name: str, session: Session, operations: str = "for_re.py") -> Target:
    """Python's ``re`` in a worker of the interpreter that runs Afere."""
    from harness.targets.stdio import WorkerTarget, python_worker

    command = python_worker(sys.executable, OPS / operations)
    return Compiler(WorkerTarget(name, command, logs=session.logs, limits=limits(session, 64), ready_s=60.0))


def in_process(name: str, operation: Operation, reports: dict[str, Json] | None = None) -> Target:
    """A matcher in this process."""
    return Compiler(InProcess(name, {OP: lambda input_, _arrays: operation(input_)}, reports))


def kinds() -> dict[str, TargetKind]:
    """Every target of this suite, by kind."""
    table = {
        kind: TargetKind(kind, row.summary, _build, needs=_needed, versions=(row.version,))
        for kind, row in COMPILERS.items()
    }
    table["python-re"] = TargetKind(
        "python-re",
        "Python's own re in a worker, with a guard against its backtracking or without",
        lambda name, session: python_re(str(name), session, RE_VARIANTS[name.variant or "guarded"]),
        variants=tuple(RE_VARIANTS),
        embedded=True,
    )
    table["nfa"] = TargetKind(
        "nfa",
        "a small automaton without backtracking, in process: refuses what it cannot bound",
        lambda name, _session: in_process(str(name), nfa.operation, {"limits": nfa.LIMITS}),
        embedded=True,
    )
    return table

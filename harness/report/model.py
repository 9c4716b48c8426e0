"""What every report is made from: one typed view of a judged run. Listeners read it and decide nothing.

The one thing that this module adds is distrust: :attr:`RunReport.problems` looks for contradictions in what it was
given, so that no format can show a broken run as a good one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Final

import msgspec

from harness.outcome import Exit, Status
from harness.records import Clause, Finding, Footer, Header, SelfCheck, Summary, Verdict

LEVELS: Final = ("MUST", "SHOULD", "MAY", "AGREE")
"""Levels of a clause, strongest first. A level that a contract invents sorts behind these."""

EXIT_WORDS: Final[dict[int, str]] = {
    Exit.OK: "nothing unexpected",
    Exit.UNEXPECTED: "unexpected findings",
    Exit.INVALID: "the run is invalid or incomplete, so it vouches for nothing",
    Exit.USAGE: "wrong use",
}


def family(clause: str) -> str:
    """The part of a clause id that names its contract: ``R`` of ``R-JOIN-1``."""
    return re.split(r"[^A-Za-z0-9]", clause, maxsplit=1)[0].upper()


class Cell(msgspec.Struct, frozen=True):
    """One clause put to one target.

    ``status`` is None where the matrix has no such cell. The findings behind a blocked cell are all those on its target
    under the same contract: one of them is what blocks it.
    """

    clause: str
    target: str
    status: Status | None
    counts: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def total(self) -> int:
        """Number of verdicts behind this cell."""
        return sum(self.counts.values())

    @property
    def untouched(self) -> bool:
        """Whether no case of the run speaks of the pair. That is no pass, and no fault of anybody either."""
        return self.status is None or (self.status is Status.UNKNOWN and not self.total)

    @property
    def known(self) -> str:
        """The reasons, where the cell fails or is blocked and every finding behind it is expected; else empty.

        A failing cell without any finding is not known: nothing explains it.
        """
        if (
            self.status not in {Status.FAIL, Status.BLOCKED}
            or not self.findings
            or any(not f.known for f in self.findings)
        ):
            return ""
        return "; ".join(dict.fromkeys(f.known for f in self.findings))


class Standing(msgspec.Struct, frozen=True):
    """How one target stands: level -> status -> number of clauses, and what could not be asked."""

    target: str
    levels: dict[str, dict[str, int]]
    known: dict[str, int]  # level -> failing clauses that expectations cover
    untouched: dict[str, int]  # level -> clauses that no case speaks of
    absent: str  # why it was not asked

    def count(self, level: str, status: str) -> int:
        """Clauses of ``level`` with ``status``."""
        return self.levels.get(level, {}).get(status, 0)

    def judged(self, level: str) -> int:
        """Clauses of ``level`` that passed or failed."""
        return self.count(level, Status.PASS) + self.count(level, Status.FAIL)

    @property
    def sentence(self) -> str:
        """One short sentence: does it conform, as far as it was judged."""
        if self.absent:
            return f"not asked: {self.absent}"
        failed, known = self.count("MUST", Status.FAIL), self.known.get("MUST", 0)
        broken = (
            self.count("MUST", Status.ERROR) + self.count("MUST", Status.UNKNOWN) + self.count("MUST", Status.BLOCKED)
        )
        if failed:
            covered = ", all of them known" if failed == known else f", {known} of them known" if known else ""
            return f"fails {plural(failed, 'MUST clause')}{covered}"
        if broken:
            return f"{plural(broken, 'MUST clause')} could not be judged"
        if not self.judged("MUST"):
            others = sum(self.judged(level) for level in self.levels)
            return "no MUST clause was judged" if others else "nothing was judged"
        judged = self.judged("MUST")
        silent = sum(self.levels.get("MUST", {}).values()) - judged + self.untouched.get("MUST", 0)
        if silent:
            return f"conforms to the {plural(judged, 'MUST clause')} judged; {silent:,} not judged"
        return f"conforms to all {plural(judged, 'MUST clause')}"


class RunReport(msgspec.Struct, frozen=True):
    """A judged run.

    ``ratios`` holds, for each target and numeric clause, a capped sample of error over bound (dimensionless; above 1
    fails). ``verdicts`` is called for a fresh iterable of the verdicts that are not passes: there can be more of them
    than memory holds, so no listener may collect them. ``selfcheck`` is empty where it was not measured.
    """

    header: Header
    footer: Footer | None
    clauses: tuple[Clause, ...]
    summary: Summary
    findings: tuple[Finding, ...] = ()
    selfcheck: tuple[SelfCheck, ...] = ()
    ratios: dict[str, dict[str, tuple[float, ...]]] = {}
    verdicts: Callable[[], Iterable[Verdict]] = tuple

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the run vouches for nothing; empty for a valid run."""
        found = list(self.summary.problems)
        if not self.summary.valid and not found:
            found.append("the summary calls the run invalid and gives no reason")
        if self.footer is None:
            found.append("the run has no footer: it ended before its last record was written")
        elif self.footer.run != self.header.run:
            found.append(f"the footer belongs to run {self.footer.run}, the header to {self.header.run}")
        if self.summary.run != self.header.run:
            found.append(f"the summary belongs to run {self.summary.run}, the header to {self.header.run}")
        missing = [t for t in self.header.targets if t.unavailable and not any(t.name in p for p in found)]
        found += [f"{t.name} should have taken part and did not: {t.unavailable}" for t in missing]
        if self.header.planned == 0:
            found.append("no case was planned")
        if self.summary.observations == 0:
            found.append("nothing was observed")
        if not self.summary.matrix:
            found.append("no clause was judged")
        held = {f.signature for f in self.findings}
        lost = [s for s in (*self.summary.new, *self.summary.known) if s not in held]
        if lost:
            found.append(f"the summary names {plural(len(lost), 'finding')} that the report does not hold: {lost[0]}")
        failing = [c for c, row in self.summary.matrix.items() if Status.FAIL in row.values()]
        if failing and not self.findings:
            found.append(f"clause {failing[0]} fails and the report holds no finding at all")
        unread = sorted({t for row in self.summary.matrix.values() for t in row} - set(self.targets))
        if unread:
            found.append(f"the matrix names a target that the header does not: {unread[0]}")
        return tuple(dict.fromkeys(found))

    @property
    def valid(self) -> bool:
        """Whether the run vouches for what it says."""
        return not self.problems

    @property
    def exit(self) -> Exit:
        """The exit status; a run with problems is invalid whatever its summary says."""
        if self.problems:
            return Exit.INVALID
        return Exit(self.summary.exit)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets, in the order in which they were asked for."""
        return tuple(dict.fromkeys(t.name for t in self.header.targets))

    def absent(self, target: str) -> str:
        """Why a target was not asked, empty where it was: this machine cannot run it, or it should have been there.

        A target that takes part in several suites counts as absent only where it is absent from all of them.
        """
        reasons = [t.unavailable or t.unsupported for t in self.header.targets if t.name == target]
        return "" if not all(reasons) else "; ".join(dict.fromkeys(reasons))

    @property
    def new(self) -> tuple[Finding, ...]:
        """Findings that no expectation covers."""
        return tuple(f for f in self.findings if not f.known)

    @property
    def known(self) -> tuple[Finding, ...]:
        """Findings that an expectation covers."""
        return tuple(f for f in self.findings if f.known)

    def all_clauses(self) -> tuple[Clause, ...]:
        """The clauses, and one made up for each id that only the matrix names, so that no row is lost."""
        named = {c.id for c in self.clauses}
        return (*self.clauses, *(_nameless(i) for i in self.summary.matrix if i not in named))

    def cells(self) -> dict[tuple[str, str], Cell]:
        """Every pair of clause and target that was asked for.

        A pair is left out only where the target belongs to another subject: the matrix has no such cell, and where it
        lacks the whole clause, the target has no cell under any clause of that contract.
        """
        by_pair: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            for pair in product(finding.clauses, finding.targets):
                by_pair.setdefault(pair, []).append(finding)
        matrix = self.summary.matrix
        asked = {(family(name), target) for name, row in matrix.items() for target in row}
        cells = {}
        for clause in self.all_clauses():
            for target in self.targets:
                row = matrix.get(clause.id)
                if target not in row if row is not None else (family(clause.id), target) not in asked:
                    continue
                pair = (clause.id, target)
                status = (row or {}).get(target)
                counts = self.summary.counts.get(clause.id, {}).get(target, {})
                behind = by_pair.get(pair, ())
                if status == Status.BLOCKED:
                    behind = [
                        f for f in self.findings if target in f.targets and family(clause.id) in map(family, f.clauses)
                    ]
                cells[pair] = Cell(*pair, Status(status) if status else None, counts, tuple(behind))
        return cells

    def standings(self) -> tuple[Standing, ...]:
        """How each target stands, in the order of :attr:`targets`."""
        level = {c.id: c.level for c in self.all_clauses()}
        levels: dict[str, dict[str, dict[str, int]]] = {t: {} for t in self.targets}
        known: dict[str, dict[str, int]] = {t: {} for t in self.targets}
        untouched: dict[str, dict[str, int]] = {t: {} for t in self.targets}
        for (clause, target), cell in self.cells().items():
            if cell.status is None or cell.untouched:
                untouched[target][level[clause]] = untouched[target].get(level[clause], 0) + 1
                continue
            row = levels[target].setdefault(level[clause], {})
            row[cell.status] = row.get(cell.status, 0) + 1
            if cell.known and cell.status is Status.FAIL:
                known[target][level[clause]] = known[target].get(level[clause], 0) + 1
        return tuple(Standing(t, levels[t], known[t], untouched[t], self.absent(t)) for t in self.targets)

    def headline(self) -> str:
        """The verdict on the whole run in one sentence."""
        if self.problems:
            return f"The run is invalid: {self.problems[0]}" + (
                f" (and {plural(len(self.problems) - 1, 'more problem')})" if len(self.problems) > 1 else ""
            )
        known = f"{plural(len(self.known), 'known finding')}" if self.known else "no known ones"
        if self.new:
            return f"{plural(len(self.new), 'new finding')}, {known}"
        if self.exit is not Exit.OK:
            return f"No new finding, {known}; but {EXIT_WORDS[self.exit]}"
        return f"Nothing unexpected: no new finding, {known}"


def _nameless(clause: str) -> Clause:
    # The judge files what is its own fault under a name in parentheses.
    if clause.startswith("("):
        return Clause(clause, "HARNESS", "Verdicts here are faults of the harness or a suite, never of a target.", "")
    return Clause(clause, "MUST", "(the contract holds no such clause)", "")


def plural(count: int, noun: str) -> str:
    """``3 clauses``, ``1 clause``: the number with its noun, in the right form."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def rate(part: int, whole: int) -> str:
    """``34 of 36 (94.4 %)``; ``none tried`` where the whole is zero, never a rate that nobody measured."""
    return f"{part:,} of {whole:,} ({100 * part / whole:.1f} %)" if whole else "none tried"

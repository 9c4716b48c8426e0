"""The sheet on which the verdicts of one case are collected: one per clause and target, failures in full."""

from __future__ import annotations

from harness.outcome import SEVERITY, Status
from harness.records import Json, Verdict

Shape = tuple[str, str, str]


class Sheet:
    """Collects verdicts. A pass is kept once per clause and target, and only where nothing worse is said."""

    def __init__(self, case: str, targets: tuple[str, ...]) -> None:
        self.case = case
        self.targets = targets
        self._plain: dict[tuple[str, str], Verdict] = {}
        self._failed: list[Verdict] = []

    def passed(self, clause: str, target: str, *, decision: bool = False) -> None:
        """Note a pass; ``decision``: it is a refusal that the contract asks for."""
        if (clause, target) not in self._plain:
            self._plain[clause, target] = Verdict(clause, self.case, target, Status.PASS, decision=decision)

    def add(self, clause: str, target: str, status: Status, note: str = "") -> None:
        """Note unsupported, skipped or blocked."""
        before = self._plain.get((clause, target))
        if before is None or SEVERITY[status] > SEVERITY[before.status]:
            self._plain[clause, target] = Verdict(clause, self.case, target, status, note=note)

    def fail(
        self, clause: str, target: str, shape: Shape, expected: Json, got: Json, note: str = "",
        peers: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Note a failure with the shape of the difference (stage, field, change)."""
        stage, field, change = shape
        self._failed.append(
            Verdict(
                clause,
                self.case,
                target,
                Status.FAIL,
                stage=stage,
                field=field,
                change=change,
                expected=expected,
                got=got,
                note=note,
                peers=peers,
            )
        )

    def disagree(self, clause: str, shape: Shape, says: dict[str, Json], note: str = "") -> None:
        """Note that targets differ where nothing but agreement is asked for: each fails, with the others as peers."""
        for target, got in says.items():
            peers = tuple(peer for peer in says if says[peer] != got)
            if peers:
                self.fail(clause, target, shape, {peer: says[peer] for peer in peers}, got, note, peers)

    def verdicts(self) -> list[Verdict]:
        """All of them; a clause that failed on a target is not said to pass there as well."""
        failed = {(v.clause, v.target) for v in self._failed}
        return self._failed + [v for key, v in self._plain.items() if key not in failed]

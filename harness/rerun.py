"""Ask live targets again about single cases: to minimise a finding, and to replay one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.findings import Example, Key, Reduced
from harness.judge import judge_case
from harness.minimise import Budget, culprit, minimise, size
from harness.outcome import Status
from harness.record import Opened, ask
from harness.records import Case, Verdict
from harness.suite import Suite
from harness.targets.base import Blobs


def verdicts_on(suite: Suite, case: Case, targets: Sequence[Opened], blobs: Blobs, attempt: int = 1) -> list[Verdict]:
    """Put one case to these targets now and judge their answers together."""
    observations = {t.name: ask(t, case, blobs, attempt) for t in targets}
    return judge_case(suite, frozenset(c.id for c in suite.clauses()), case, observations, blobs)


def show(verdicts: Sequence[Verdict], key: Key) -> Verdict | None:
    """The verdict that fails with this shape on this target, if there is one."""
    return next(
        (v for v in verdicts if v.status is Status.FAIL and v.target == key.target and v.shape == key.shape), None
    )


class Reducer:
    """Minimises examples on live targets, with a budget for each and one note a finding on progress."""

    def __init__(
        self,
        suites: Mapping[str, Suite],
        targets: Sequence[Opened],
        blobs: Blobs,
        budget: Budget,
        notify: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._suites = suites
        self._targets = targets
        self._blobs = blobs
        self._budget = budget
        self._notify = notify
        self._minimal: dict[tuple[str, tuple[str, str, str]], list[Case]] = {}

    def __call__(self, key: Key, example: Example, explained: Callable[[Case], bool]) -> Reduced:
        """Shrink one example; it is asked once more first, and kept as it is where it does not show again."""
        suite = self._suites[key.suite]
        involved = {key.target, *example.verdict.peers}
        asked = [t for t in self._targets if t.suite.name == key.suite and t.name in involved]
        shown: dict[str, Verdict] = {}

        def shows(case: Case) -> bool:
            if explained(case):
                return False
            verdict = show(verdicts_on(suite, case, asked, self._blobs), key)
            if verdict is not None:
                shown[case.id] = verdict
            return verdict is not None

        self._notify(f"{key.suite}: {' '.join(key.shape)} on {key.target}")
        place = self._minimal.setdefault((key.suite, key.shape), [])
        for (
            case
        ) in place:  # what another target ended with often shows it here too, and then there is nothing to search
            fits = culprit(suite, case) <= culprit(suite, example.case) and size(suite, case) <= example.size
            if fits and shows(case):
                return Reduced(Example(case, shown[case.id], size(suite, case)), minimised=True)
        if not shows(example.case):
            return Reduced(example, minimised=False, note="it did not show again when the case was asked once more")
        case, exhausted = minimise(suite, example.case, shows, self._blobs, self._budget)
        place.append(case)
        note = "" if exhausted else "the search for a smaller case ran out of its budget"
        return Reduced(Example(case, shown[case.id], size(suite, case)), exhausted, note)

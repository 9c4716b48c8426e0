"""Planning: names, defaults, and the planned set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.blobs import BlobStore
from harness.journal import RunFolder
from harness.plan import PlanError, cases, complete, plan, select_suites, select_targets
from harness.records import Case
from harness.suite import Session, TargetKind, TargetName
from harness.targets.base import Blobs, InProcess, Target
from suites.selfcheck.conftest import Install
from suites.selfcheck.toy import Toy


def build(name: TargetName, _session: Session) -> Target:
    return InProcess(str(name), {})


PLAIN = TargetKind("plain", "", build, embedded=True)
MANY = TargetKind("many", "", build, versions=("1.0", "2.0"), variants=("fast", "slow"))
URL = TargetKind("url", "", build, address="http://HOST:PORT")


class Other(Toy):
    name = "other"
    default_targets: tuple[str, ...] = ("plain",)

    def kinds(self) -> Mapping[str, TargetKind]:
        return {kind.name: kind for kind in (PLAIN, MANY, URL)}


# --- names


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("vllm-rs", ("vllm-rs", "", "")),
        ("vllm-rs@0.33.0", ("vllm-rs", "0.33.0", "")),
        ("vllm-kernel@0.32.0:avx512bf16", ("vllm-kernel", "0.32.0", "avx512bf16")),
        ("url:http://127.0.0.1:8000/a@b", ("url", "", "http://127.0.0.1:8000/a@b")),
    ],
)
def test_a_target_name_has_three_parts(text: str, parts: tuple[str, str, str]) -> None:
    name = TargetName.parse(text)
    assert (name.kind, name.version, name.variant) == parts
    assert str(name) == text


@given(st.from_regex(r"[a-z][a-z0-9-]*(@[0-9][0-9a-z.+-]*)?(:[a-z0-9/#.-]+)?", fullmatch=True))
def test_a_name_is_read_back_as_it_was_written(text: str) -> None:
    assert str(TargetName.parse(text)) == text


@pytest.mark.parametrize("text", ["", "@1", "Kind", "a b", "a@", "a:", "-a", "a@1 2", "a\n", "a@1@2"])
def test_what_is_no_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form kind\[@version\]\[:variant\], e\.g\. vllm-rs@0\.33\.0"):
        TargetName.parse(text)


# --- defaults


@pytest.mark.parametrize(
    ("kind", "text", "full"),
    [
        (MANY, "many", "many@2.0:fast"),
        (MANY, "many@1.0", "many@1.0:fast"),
        (MANY, "many@3.0:slow", "many@3.0:slow"),  # a version that we do not know may still be there
        (PLAIN, "plain", "plain"),
        (URL, "url:http://h:1", "url:http://h:1"),
    ],
)
def test_the_last_version_and_the_first_variant_are_the_default(kind: TargetKind, text: str, full: str) -> None:
    assert str(complete(kind, TargetName.parse(text))) == full


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (MANY, "many@1.0:fats", r"target many@1\.0:fats: no variant 'fats'; did you mean 'fast'\?"),
        (PLAIN, "plain:fast", "target plain:fast: plain has no variants"),
        (PLAIN, "plain@1.0", r"target plain@1\.0: plain takes no version"),
        (URL, "url@1.0:http://h:1", "url takes no version"),
    ],
)
def test_a_part_that_a_kind_does_not_have_is_refused(kind: TargetKind, text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        complete(kind, TargetName.parse(text))


# --- selection


def test_without_a_name_the_embedded_targets_are_asked() -> None:
    asks = select_targets([Toy(), Other()], [])
    assert [(a.suite.name, str(a.name)) for a in asks] == [
        ("toy", "toy-honest"), ("toy", "toy-folded"), ("other", "plain"),
    ]  # fmt: skip


def test_a_target_is_asked_by_every_suite_that_can() -> None:
    class Second(Other):
        name = "second"

    asks = select_targets([Toy(), Other(), Second()], ["plain", "toy-honest"])
    assert [(a.suite.name, str(a.name)) for a in asks] == [
        ("other", "plain"), ("second", "plain"), ("toy", "toy-honest"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["toy-honesty"], "no target kind 'toy-honesty' in the chosen suites; did you mean 'toy-honest'"),
        (["zzz"], "no target kind 'zzz' in the chosen suites; known are: many, plain"),
        (["many", "many@2.0:fast"], "target many@2.0:fast is named twice"),
        (["plain", "plain"], "target plain is named twice"),
        (["pl ain"], "is not of the form"),
    ],
)
def test_a_target_that_cannot_be_asked_is_one_sentence(names: list[str], says: str) -> None:
    with pytest.raises(PlanError) as error:
        select_targets([Toy(), Other()], names)
    assert says in str(error.value)


def test_an_unknown_suite_has_a_suggestion(install: Install) -> None:
    install(Toy(), Other())
    with pytest.raises(PlanError, match="no suite 'toi'; did you mean 'toy'"):
        select_suites({"toy": Toy(), "other": Other()}, ["toi"])


def test_a_broken_suite_is_named_and_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.suite._load", lambda: ({"toy": Toy()}, {"other": "cannot be loaded: ImportError"}))
    for names in ([], ["other"]):
        with pytest.raises(PlanError, match="suite 'other' is installed but broken: cannot be loaded: ImportError"):
            select_suites({"toy": Toy()}, names)
    assert [s.name for s in select_suites({"toy": Toy()}, ["toy"])] == ["toy"]


# --- the planned set


def test_no_case_is_planned_twice_and_witnesses_come_first(blobs: BlobStore) -> None:
    own = list(Toy().cases(10, 0, blobs))
    witness = Case.make("toy", "add", {"numbers": [7] * 9})
    planned = list(cases([Toy()], 10, 0, blobs, [witness, own[4], witness]))
    assert planned[:2] == [witness, own[4]]
    assert len({case.id for case in planned}) == len(planned) == 11


@given(st.integers(1, 30), st.integers(0, 2**31))
def test_a_plan_depends_on_its_arguments_alone(count: int, seed: int) -> None:
    blobs = BlobStore(Path("unused"))
    once, twice = (list(cases([Toy()], count, seed, blobs)) for _ in range(2))
    assert once == twice
    assert len(once) == count


def test_what_was_planned_is_read_back(blobs: BlobStore, tmp_path: Path) -> None:
    round_ = RunFolder(tmp_path).round()
    assert plan([Toy()], 12, 3, blobs, round_) == 12
    assert list(round_.plan()) == list(Toy().cases(12, 3, blobs))


def test_an_empty_plan_is_refused(blobs: BlobStore, tmp_path: Path) -> None:
    class Empty(Toy):
        def cases(self, count: int, seed: int, blobs: Blobs) -> Iterator[Case]:
            return iter(())

    with pytest.raises(PlanError, match="no case was planned"):
        plan([Empty()], 12, 0, blobs, RunFolder(tmp_path).round())

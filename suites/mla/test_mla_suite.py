"""The suite itself: cases, arrays, what the judge says, shapes of differences, targets and their planted faults."""

from __future__ import annotations

import contextlib
import io
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from harness.blobs import BlobStore
from harness.judge import judge_case
from harness.minimise import culprit
from harness.outcome import Outcome, Status
from harness.plan import select_targets
from harness.record import ask, open_one
from harness.records import Case, Observation, Verdict, from_line, to_line
from harness.suite import Session, TargetName
from harness.targets.base import InProcess, TargetUnavailable, Unsupported
from reference.mla.bound import BLOCKED
from reference.mla.cache import PagedCache
from reference.mla.exact import GAP
from reference.mla.floats import FORMATS, decode
from suites.mla import SUITE, build, kernel_ops, shape, targets, torch_mla
from suites.mla.cases import edges, planned, specs
from suites.mla.faults import CAPABILITIES, HONEST, WRONG, kernel
from suites.mla.judge import clauses_of, value_clauses
from suites.mla.oracle import expected
from suites.mla.shape import Result
from suites.mla.spec import LAYOUTS, PLAIN, SCALES, Spec, features, read, write

replace = msgspec.structs.replace
KNOWN = frozenset(c.id for c in SUITE.clauses())


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def make(spec: Spec, blobs: BlobStore) -> Case:
    assert not spec.problem(), spec.problem()
    case = SUITE.rebuild("decode", write(spec), blobs)
    assert case is not None
    return case


def target(function: kernel_ops.Attend, name: str = "t", arithmetic: str = "blocked-float32") -> InProcess:
    return InProcess(
        name, {"decode": lambda c, a: torch_mla.run(c, a, function, arithmetic)}, capabilities=CAPABILITIES
    )


def observe(case: Case, blobs: BlobStore, function: kernel_ops.Attend) -> Observation:
    return ask(open_one(SUITE, "t", target(function)), case, blobs)


def judged(case: Case, blobs: BlobStore, observation: Observation) -> dict[str, Verdict]:
    verdicts = judge_case(SUITE, KNOWN, case, {"t": observation}, blobs)
    return {v.clause: v for v in verdicts}


# --- cases and arrays


def test_cases_are_counted_different_and_repeatable(blobs: BlobStore) -> None:
    cases = list(planned(75, 3))
    assert len({str(c) for c in cases}) == 75
    assert list(planned(75, 3)) == cases
    assert list(planned(10, 3)) == cases[:10]
    assert len([c for c in planned(75, 4) if c in cases]) < 70
    stored = list(SUITE.cases(3, 3, blobs))
    assert [read(c.input) for c in stored] == cases[:3]
    assert from_line(to_line(stored[1]), Case) == stored[1]


def test_the_default_number_of_cases_reaches_every_clause_that_has_no_lse() -> None:
    reached = {clause for spec in planned(SUITE.default_cases, 0) for clause in clauses_of(spec)}
    assert reached == KNOWN - {"M-LSE-1"}
    assert len(list(edges())) <= SUITE.default_cases


def test_unusual_layouts_are_a_minority() -> None:
    specs_ = list(planned(120, 0))
    assert 10 < sum(bool(s.layout) for s in specs_) < 40


def test_a_case_is_the_same_on_every_machine(blobs: BlobStore) -> None:
    assert make(PLAIN, blobs).id == "b99fd82746e2972b3c15"
    odd = replace(PLAIN, dtype="bfloat16", heads=3, lengths=(20, 5), pages="shuffled", poison="nan", seed=9)
    assert make(odd, blobs).id == "c9956af17f0559b6ad22"


@given(specs())
@settings(max_examples=40)
def test_what_is_drawn_makes_sense_and_is_read_back(spec: Spec) -> None:
    assert spec.problem() == ""
    assert read(write(spec)) == spec
    made = build.arrays(spec)
    assert sum(t.data.nbytes for t in made.values()) < 4 << 20
    cache = PagedCache(decode(FORMATS[spec.dtype], made["cache"].data), made["tables"].data, made["lengths"].data)
    for b, n in enumerate(spec.lengths):
        rows = cache.rows(b)
        assert rows.shape == (n, 576)
        if not spec.nonfinite.startswith("cache"):
            assert np.isfinite(rows).all()
            assert np.abs(rows).max(initial=0.0) < 64.0  # no poison among them


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "float8"},
        {"heads": 0},
        {"lengths": []},
        {"lengths": [-1]},
        {"lengths": [513]},
        {"layout": {"query": "int64"}},
        {"scale": [0, 0]},
        {"relation": "keys", "pages": "shared"},
        {"values": "one-hot"},
        {"nonfinite": "cache-nan", "lengths": [0]},
        {"unknown": 1},
        {"heads": "many"},
    ],
)
def test_nonsense_is_no_case(change: dict[str, Any], blobs: BlobStore) -> None:
    assert SUITE.rebuild("decode", {**write(PLAIN), **change}, blobs) is None


def test_the_plainest_case_has_no_culprit(blobs: BlobStore) -> None:
    assert culprit(SUITE, make(PLAIN, blobs)) == frozenset()
    for spec in edges():
        if spec != PLAIN:
            assert features(spec) != features(PLAIN)


def test_moved_pages_hold_the_same_rows() -> None:
    spec = replace(PLAIN, lengths=(40, 23), relation="pages", seed=5)
    made = build.arrays(spec)
    one = PagedCache(made["cache"].data, made["tables"].data, made["lengths"].data)
    two = PagedCache(made["2.cache"].data, made["2.tables"].data, made["lengths"].data)
    assert (made["tables"].data != made["2.tables"].data).any()
    for b in range(2):
        assert (one.rows(b) == two.rows(b)).all()


def test_one_hot_scores_lead_by_the_gap() -> None:
    for values in ("one-hot", "one-hot-latent"):
        spec = replace(PLAIN, values=values, scale=SCALES["one"], heads=4, lengths=(300,), seed=2)
        made = build.arrays(spec)
        rows = PagedCache(made["cache"].data, made["tables"].data, made["lengths"].data).rows(0)
        scores = np.sort(made["query"].data[0].astype(np.float64) @ rows.T, axis=1)
        assert (scores[:, -1] - scores[:, -2] >= GAP).all()
        assert build.targets_of(spec)[0, :2].tolist() == [299, 0]


# --- layouts


@pytest.mark.parametrize(("operand", "layout"), [(o, k) for o, kinds in LAYOUTS.items() for k in kinds])
def test_a_layout_changes_where_elements_lie_and_not_what_they_are(operand: str, layout: str) -> None:
    dtype = {"tables": torch.int32, "lengths": torch.int32}.get(operand, torch.float32)
    shape_ = {"query": (2, 3, 576), "cache": (4, 16, 576), "out": (2, 3, 512), "tables": (2, 2), "lengths": (2,)}[
        operand
    ]
    values = torch.arange(torch.Size(shape_).numel()).reshape(shape_).to(dtype)
    storage, view = kernel_ops.place(shape_, dtype, layout, 0)
    view.copy_(values)
    assert (view == values).all()
    plain = view.is_contiguous() and view.data_ptr() % 32 == 0 and view.dtype == dtype
    assert not plain
    assert storage.numel() >= view.numel()


def test_writes_beside_the_result_are_counted() -> None:
    case = {"layout": {"out": "head-gap"}, "scale": [1, 0], "threads": 1, "factor": 1.0}
    given_ = build.arrays(replace(PLAIN, heads=2))
    arrays = {name: torch_mla.to_torch(t) for name, t in given_.items()}

    def contiguous(out: Any, *_rest: Any) -> None:
        torch.as_strided(out, out.shape, (1024, 512, 1), 0).fill_(0.0)

    report, _ = kernel_ops.one_call(case, arrays, "", contiguous)
    assert report["outside"] == 512
    assert report["unwritten"] == 512
    honest, _ = kernel_ops.one_call(case, arrays, "", lambda out, *_rest: out.fill_(0.0))
    assert (honest["outside"], honest["unwritten"], honest["modified"]) == (0, 0, [])


# --- judging


def test_an_honest_answer_passes_everything(blobs: BlobStore) -> None:
    spec = replace(PLAIN, heads=3, lengths=(20, 0, 33), pages="shuffled", poison="nan", spare=1, relation="alone")
    case = make(spec, blobs)
    verdicts = judged(case, blobs, observe(case, blobs, kernel()))
    assert set(clauses_of(spec)) <= set(verdicts)
    assert {v.status for v in verdicts.values()} == {Status.PASS}


def _without_out(o: Observation) -> Observation:
    return replace(o, arrays={k: v for k, v in o.arrays.items() if k != "out"})


@pytest.mark.parametrize(
    "spoil",
    [
        _without_out,
        lambda o: replace(o, payload=None),
        lambda o: replace(o, payload={**o.payload, "calls": []}),
        lambda o: replace(o, payload={**o.payload, "arithmetic": "generous"}),
        lambda o: replace(o, arrays={**o.arrays, "out": replace(o.arrays["out"], shape=(1, 1, 511))}),
        lambda o: replace(o, arrays={**o.arrays, "out": replace(o.arrays["out"], dtype="float16")}),
    ],
)
def test_what_is_missing_never_passes(spoil: Callable[[Observation], Observation], blobs: BlobStore) -> None:
    case = make(PLAIN, blobs)
    verdicts = judged(case, blobs, spoil(observe(case, blobs, kernel())))
    assert verdicts["M-VALUE-1"].status is Status.FAIL
    assert verdicts["M-VALUE-1"].change == "malformed"
    assert not [v for v in verdicts.values() if v.status is Status.PASS]


@pytest.mark.parametrize(
    "outcome", [Outcome.CRASHED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY, Outcome.REFUSED]
)
def test_no_answer_fails_once_and_blocks_the_rest(outcome: Outcome, blobs: BlobStore) -> None:
    case = make(PLAIN, blobs)
    verdicts = judged(case, blobs, Observation(case.id, "t", outcome))
    assert [v.clause for v in verdicts.values() if v.status is Status.FAIL] == ["M-VALUE-1"]
    assert verdicts["M-VALUE-1"].change == outcome.value
    assert {v.status for c, v in verdicts.items() if c != "M-VALUE-1"} == {Status.BLOCKED}


def test_an_odd_layout_may_be_refused_and_not_crash(blobs: BlobStore) -> None:
    case = make(replace(PLAIN, heads=2, layout={"query": "head-gap"}), blobs)
    refused = judged(case, blobs, Observation(case.id, "t", Outcome.REFUSED, detail="contiguous only"))
    assert refused["M-LAYOUT-1"].status is Status.PASS
    assert refused["M-LAYOUT-1"].decision
    crashed = judged(case, blobs, Observation(case.id, "t", Outcome.CRASHED))
    assert crashed["M-LAYOUT-1"].status is Status.FAIL


def test_unsupported_is_said_under_every_clause(blobs: BlobStore) -> None:
    case = make(PLAIN, blobs)
    verdicts = judged(case, blobs, Observation(case.id, "t", Outcome.UNSUPPORTED, detail="no"))
    assert {v.status for v in verdicts.values()} == {Status.UNSUPPORTED}
    assert set(verdicts) == set(clauses_of(PLAIN))


def test_the_bound_is_where_the_verdict_turns(blobs: BlobStore) -> None:
    case = make(replace(PLAIN, lengths=(20,), seed=3), blobs)
    truth = expected(case, blobs)
    allowed = truth.bounds(BLOCKED).faithful

    def off_by(factor: float) -> kernel_ops.Attend:
        wanted = torch.from_numpy(truth.call().out + factor * allowed).float()

        def call(out: Any, *_rest: Any) -> None:
            out.copy_(wanted)

        return call

    assert judged(case, blobs, observe(case, blobs, off_by(0.9)))["M-VALUE-1"].status is Status.PASS
    assert judged(case, blobs, observe(case, blobs, off_by(1.1)))["M-VALUE-1"].status is Status.FAIL


def _result(got: Callable[[np.ndarray], np.ndarray], blobs: BlobStore, **changes: Any) -> Result:
    case = make(replace(PLAIN, heads=3, lengths=(20, 9), seed=4, **changes), blobs)
    truth = expected(case, blobs)
    made = got(truth.call().out.copy())
    return Result(made, np.zeros(made.shape, dtype=bool), truth.bounds(BLOCKED).faithful, truth.call())


@pytest.mark.parametrize(
    ("change", "spoil"),
    [
        ("zero", lambda x: 0.0 * x),
        ("nan", lambda x: np.where(np.arange(512) == 7, np.nan, x)),
        ("heads-permuted", lambda x: np.roll(x, 1, axis=1)),
        ("sequences-permuted", lambda x: np.roll(x, 1, axis=0)),
        ("scaled", lambda x: 1.5 * x),
        ("value", lambda x: x + 0.1),
    ],
)
def test_a_difference_is_named_by_its_shape(change: str, spoil: Callable[[Any], Any], blobs: BlobStore) -> None:
    found = shape.difference(_result(spoil, blobs))
    assert found is not None
    assert found.change == change
    assert shape.difference(_result(lambda x: x, blobs)) is None


def test_what_was_not_written_or_should_be_nan(blobs: BlobStore) -> None:
    written = _result(lambda x: x, blobs)
    unwritten = np.zeros(written.got.shape, dtype=bool)
    unwritten[0, 1] = True
    found = shape.difference(Result(written.got, unwritten, written.tolerance, written.call))
    assert found is not None
    assert found.change == "unwritten"
    hidden = shape.difference(_result(lambda x: np.nan_to_num(x, nan=1.0), blobs, nonfinite="cache-nan"))
    assert hidden is not None
    assert hidden.change == "hidden-nan"


def test_a_hint_names_missing_tokens(blobs: BlobStore) -> None:
    case = make(replace(PLAIN, heads=2, lengths=(40,), seed=4), blobs)

    def short(out: Any, query: Any, cache: Any, scale: float, tables: Any, lengths: Any) -> Any:
        return kernel()(out, query, cache, scale, tables, lengths - 1)

    verdict = judged(case, blobs, observe(case, blobs, short))["M-VALUE-1"]
    assert "the last token is missing" in verdict.note


# --- faults


def test_every_clause_has_a_planted_fault() -> None:
    assert {clause for row in WRONG for clause in row.breaks} == KNOWN
    assert not any(row.breaks for row in HONEST)


@pytest.mark.parametrize("row", [*HONEST, *WRONG], ids=lambda row: row.name)
def test_a_planted_target_answers(row: Any, blobs: BlobStore) -> None:
    """A fault that raises would be caught for the wrong reason."""
    spec = replace(PLAIN, heads=3, lengths=(0, 17, 4), poison="nan", pages="shared", threads=2, relation="alone")
    observation = observe(make(spec, blobs), blobs, row.function())
    assert observation.outcome is Outcome.ANSWERED, observation.detail


@pytest.mark.parametrize("name", ["fma-dropped", "tail-times-zero", "truncated", "strides-ignored", "lse-base-2"])
def test_a_planted_fault_is_caught(name: str, blobs: BlobStore) -> None:
    row = next(r for r in WRONG if r.name == name)
    caught: set[str] = set()
    for case in SUITE.cases(SUITE.default_cases, 0, blobs):
        caught |= {
            c for c, v in judged(case, blobs, observe(case, blobs, row.function())).items() if v.status is Status.FAIL
        }
        if set(row.breaks) <= caught:
            return
    pytest.fail(f"{set(row.breaks) - caught} did not catch {name}")


# --- targets


def test_the_flags_of_each_build_are_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"avx2", "f16c", "fma", "avx512f", "avx512bw"}))
    name = TargetName("vllm-kernel", "0.32.0", "avx2")
    assert targets.impossible(name) == ""
    assert targets.impossible(replace(name, variant="avx512")) == "this processor lacks avx512vl, avx512dq"
    assert "avx512_bf16" in targets.impossible(replace(name, variant="avx512bf16"))
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "qemu-aarch64-static is not installed" in targets.impossible(replace(name, variant="arm64"))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert targets.impossible(replace(name, variant="arm64")) == ""
    assert "for x86_64" in targets.impossible(name)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert "this is Darwin" in targets.impossible(name)


def test_the_default_targets_exist() -> None:
    assert [str(a.name) for a in select_targets([SUITE], [])] == list(SUITE.default_targets)
    assert set(targets.TORCH_VARIANTS) == set(torch_mla.variants())


def test_a_narrow_way_takes_no_wider_operands(tmp_path: Path, blobs: BlobStore) -> None:
    kind = SUITE.kinds()["torch-mla"]
    opened = open_one(
        SUITE, "t", kind.build(TargetName("torch-mla", "", "absorbed-bfloat16-sdpa"), Session(tmp_path, {}))
    )
    assert ask(opened, make(PLAIN, blobs), blobs).outcome is Outcome.UNSUPPORTED
    assert ask(opened, make(replace(PLAIN, dtype="bfloat16"), blobs), blobs).outcome is Outcome.ANSWERED
    with pytest.raises(Unsupported):
        torch_mla.operation(torch_mla.Way("absorbed", "bfloat16", "sdpa"))(write(PLAIN), {})


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    torch_mla.run(write(replace(PLAIN, threads=before + 1)), build.arrays(PLAIN), kernel(), "blocked-float32")
    assert torch.get_num_threads() == before


def test_tensors_go_to_torch_and_back() -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        tensor = build.arrays(replace(PLAIN, dtype=dtype))["query"]
        back = torch_mla.from_torch(torch_mla.to_torch(tensor))
        assert back.dtype == dtype
        assert (back.data == tensor.data).all()


def test_a_library_is_found_where_the_environment_says(tmp_path: Path) -> None:
    name = TargetName("vllm-kernel", "0.32.0", "avx2")
    site = tmp_path / "lib" / "python3.11" / "site-packages" / "vllm"
    site.mkdir(parents=True)
    python = str(tmp_path / "bin" / "python")
    assert targets.library(name, {}, python) is None
    (site / "_C_AVX2.abi3.so").touch()
    assert targets.library(name, {}, python) == site / "_C_AVX2.abi3.so"
    assert targets.library(name, {"vllm/_C_AVX2.abi3.so": "/elsewhere.so"}, python) == Path("/elsewhere.so")


def test_a_kernel_that_is_not_provisioned_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFERE_CACHE", str(tmp_path))
    name = TargetName("vllm-kernel", "0.32.0", "avx2")
    with pytest.raises(TargetUnavailable, match=r"afere targets add vllm-kernel@0\.32\.0:avx2"):
        SUITE.kinds()["vllm-kernel"].build(name, Session(tmp_path, {}))


def _runs(text: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(text, "script", "exec"), {})
    return said.getvalue()


SCRIPTED = (
    PLAIN,
    *(replace(PLAIN, layout={o: kind}) for o, kinds in LAYOUTS.items() for kind in kinds),
    *(replace(PLAIN, relation=relation) for relation in ("repeat", "pages", "alone", "keys")),
    *(replace(PLAIN, values=values) for values in ("large", "offset", "uniform")),
    *(replace(PLAIN, values=values, scale=SCALES["one"]) for values in ("one-hot", "one-hot-latent")),
)


@pytest.mark.parametrize("spec", SCRIPTED, ids=lambda spec: f"{spec.values}-{spec.layout}-{spec.relation}")
def test_the_script_of_a_case_runs_without_us(spec: Spec, blobs: BlobStore) -> None:
    case = make(replace(spec, heads=2, lengths=(20, 3), pages="shuffled"), blobs)
    text = SUITE.script(case, "torch-mla:absorbed-float32-explicit")
    said = _runs(text)
    assert "NaN: 0" in said
    assert float(said.split()[2]) < 1e-4
    assert "difference" not in said or float(said.split()[-1]) < 1e-4
    assert "afere" not in text.lower()
    compile(SUITE.script(case, "vllm-kernel@0.32.0:avx2"), "script", "exec")


@pytest.mark.parametrize("nonfinite", ["query-nan", "query-inf", "cache-nan"])
def test_the_script_shows_a_nan(nonfinite: str, blobs: BlobStore) -> None:
    case = make(replace(PLAIN, heads=2, lengths=(20, 3), nonfinite=nonfinite), blobs)
    said = _runs(SUITE.script(case, "torch-mla"))
    assert "NaN: 0" not in said


@pytest.mark.real_target
def test_the_released_kernel_conforms_in_its_ordinary_layout(tmp_path: Path, blobs: BlobStore) -> None:
    variant = "avx2" if platform.machine() == "x86_64" else "arm64"
    name = TargetName("vllm-kernel", "0.32.0", variant)
    opened = open_one(SUITE, str(name), SUITE.kinds()["vllm-kernel"].build(name, Session(tmp_path, {})))
    try:
        assert opened.ready, opened.info.unavailable
        for spec in planned(80, 1):
            if not spec.layout:
                case = make(spec, blobs)
                verdicts = judge_case(SUITE, KNOWN, case, {str(name): ask(opened, case, blobs)}, blobs)
                assert [v for v in verdicts if v.status is Status.FAIL and v.clause != "M-ROUND-1"] == []
    finally:
        opened.target.close()


def test_the_main_clause_of_a_case_comes_first() -> None:
    for spec in edges():
        assert clauses_of(spec)[0] == value_clauses(spec)[0]
        assert len(set(clauses_of(spec))) == len(clauses_of(spec))

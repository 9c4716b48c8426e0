"""A small invented run that the tests of the reports show, and that ``reports/samples`` shows to readers.

Its targets, clauses and findings are made up: it says nothing about any real product. Write the samples anew with
``python -m suites.selfcheck.sample_run`` after a deliberate change of a format.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import msgspec
from hypothesis import strategies as st

from harness.outcome import Status
from harness.records import (
    Case,
    Clause,
    Finding,
    Footer,
    Header,
    SelfCheck,
    Summary,
    TargetInfo,
    Verdict,
)
from harness.report import FORMATS, RunReport, write

SAMPLES: Final = Path(__file__).resolve().parents[2] / "reports" / "samples"

ALPHA, BETA, GAMMA, DELTA = (
    "alpha-server@1.4.0",
    "beta-renderer@2.0.1",
    "gamma-kernel@0.9.0:avx2",
    "gamma-kernel@0.9.0:neon",
)

CLAUSES: Final = (
    Clause(
        "R-JOIN-1",
        "MUST",
        "Text parts of one message are joined as the template's content format says.",
        "Sample contract, section 2.1",
        "0.1",
    ),
    Clause(
        "R-BOS-1",
        "MUST",
        "A prompt holds exactly one beginning-of-sequence token.",
        "Sample contract, section 3.4",
        "0.1",
    ),
    Clause(
        "R-LIMIT-2",
        "MUST",
        "A request that asks for more tokens than the context holds is refused with a 400.",
        "Sample contract, section 5.2",
        "0.1",
    ),
    Clause(
        "R-ROLE-3",
        "SHOULD",
        "A role that the template does not know is refused and named.",
        "Sample contract, section 2.6",
        "0.1",
    ),
    Clause(
        "R-DEFAULT-1",
        "AGREE",
        "The renderers of one product fill in the same default for max_tokens.",
        "No source fixes it",
        "0.1",
    ),
    Clause("R-ECHO-1", "MAY", "A renderer may return the text it tokenised.", "Sample contract, section 6.1", "0.1"),
    Clause(
        "M-OUT-1",
        "MUST",
        "Each element of the output lies within the derived bound of the float64 reference.",
        "Sample bounds, (7)",
        "0.1",
    ),
    Clause(
        "M-LSE-1",
        "MUST",
        "The log-sum-exp lies within the derived bound; of an empty row it is minus infinity.",
        "Sample bounds, (9)",
        "0.1",
    ),
    Clause(
        "M-PAGE-2",
        "MUST",
        "The order of pages in the block table does not change the result.",
        "Sample contract, section 8.3",
        "0.1",
    ),
)

_COUNTS: Final[dict[str, dict[str, dict[str, int]]]] = {
    "R-JOIN-1": {ALPHA: {"fail": 17, "pass": 125}, BETA: {"pass": 142}},
    "R-BOS-1": {ALPHA: {"pass": 180}, BETA: {"pass": 180}},
    "R-LIMIT-2": {ALPHA: {"pass": 24}, BETA: {"fail": 9, "pass": 15}},
    "R-ROLE-3": {ALPHA: {"pass": 12}, BETA: {"pass": 12}},
    "R-DEFAULT-1": {ALPHA: {"fail": 6, "pass": 60}, BETA: {"fail": 6, "pass": 60}},
    "R-ECHO-1": {ALPHA: {}, BETA: {"skipped": 180}},
    "M-OUT-1": {GAMMA: {"pass": 96}, DELTA: {"unsupported": 96}},
    "M-LSE-1": {GAMMA: {"fail": 3, "pass": 93}, DELTA: {"unsupported": 96}},
    "M-PAGE-2": {GAMMA: {"blocked": 4, "pass": 20}, DELTA: {"unsupported": 24}},
}

_ORDER: Final = ("error", "fail", "blocked", "unknown", "skipped", "unsupported", "pass")


def _worst(counts: dict[str, int]) -> str:
    return next((status for status in _ORDER if status in counts), "unknown")


def _message(*parts: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": part} for part in parts]}]}


JOIN: Final = Finding(
    signature="template|messages[].content|joined-differently|parts:2",
    title="alpha-server joins the text parts of a message without the newline that the template's format asks for",
    suite="render",
    status=Status.FAIL,
    stage="template",
    field="messages[].content",
    change="joined-differently",
    culprit=("content:two-text-parts",),
    clauses=("R-JOIN-1",),
    targets=(ALPHA,),
    peers=(),
    cases=17,
    witness=Case.make("render", "chat", _message("a", "b")),
    expected={"text": "<user>a\nb</user>", "prompt_token_ids": [1, 17, 97, 10, 98, 18]},
    got={"text": "<user>ab</user>", "prompt_token_ids": [1, 17, 97, 98, 18]},
    note="The first stage that differs is the template's input: the parts arrive as one string.",
    minimised=True,
    script="curl -s http://127.0.0.1:8000/v1/chat/completions/render -H 'content-type: application/json' \\\n"
    """  -d '{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}'""",
    replay="afere replay reports/runs/sample/findings/joined-differently.json",
)

LIMIT: Final = Finding(
    signature="lower|sampling_params.max_tokens|accepted|max_tokens:beyond-context",
    title="beta-renderer accepts max_tokens beyond the context length",
    suite="render",
    status=Status.FAIL,
    stage="lower",
    field="sampling_params.max_tokens",
    change="accepted",
    culprit=("max_tokens:beyond-context",),
    clauses=("R-LIMIT-2",),
    targets=(BETA,),
    peers=(),
    cases=9,
    witness=Case.make("render", "chat", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 513}),
    expected={"refused": 400},
    got={"prompt_token_ids": [1, 17, 97, 18], "sampling_params": {"max_tokens": 513, "temperature": 1.0}},
    note="",
    minimised=True,
    script="curl -s http://127.0.0.1:8001/v1/chat/completions/render \\\n"
    """  -d '{"messages":[{"role":"user","content":"a"}],"max_tokens":513}'""",
    replay="afere replay reports/runs/sample/findings/accepted.json",
)

DEFAULT: Final = Finding(
    signature="lower|sampling_params.max_tokens|missing|max_tokens:absent",
    title="alpha-server and beta-renderer fill in different defaults for max_tokens",
    suite="render",
    status=Status.FAIL,
    stage="lower",
    field="sampling_params.max_tokens",
    change="missing",
    culprit=("max_tokens:absent",),
    clauses=("R-DEFAULT-1",),
    targets=(ALPHA, BETA),
    peers=(ALPHA, BETA),
    cases=6,
    witness=Case.make("render", "chat", {"messages": [{"role": "user", "content": "a"}]}),
    expected={ALPHA: {"max_tokens": None}},
    got={BETA: {"max_tokens": 508}},
    note="",
    minimised=True,
    script="",
    replay="afere replay reports/runs/sample/findings/missing.json",
    known="the two were never specified to agree; invented for the sample",
)

LSE: Final = Finding(
    signature="lse|lse|beyond-bound|length:zero",
    title="gamma-kernel returns 0 as the log-sum-exp of an empty sequence",
    suite="mla",
    status=Status.FAIL,
    stage="lse",
    field="lse",
    change="beyond-bound",
    culprit=("length:zero",),
    clauses=("M-LSE-1",),
    targets=(GAMMA,),
    peers=(),
    cases=3,
    witness=Case.make("mla", "decode", {"heads": 2, "lengths": [0], "page": 16, "dtype": "bfloat16"}),
    expected={"lse": ["-inf", "-inf"]},
    got={"lse": [0.0, 0.0]},
    note="",
    minimised=True,
    script="python show.py  # ten lines, kept with the run",
    replay="afere replay reports/runs/sample/findings/beyond-bound.json",
)

FINDINGS: Final = (JOIN, LIMIT, DEFAULT, LSE)

VERDICTS: Final = (
    *(
        Verdict(
            f.clauses[0],
            f.witness.id,
            target,
            Status.FAIL,
            f.stage,
            f.field,
            f.change,
            f.expected,
            f.got,
            f.note,
            f.peers,
        )
        for f in FINDINGS
        for target in f.targets
    ),
    Verdict("M-OUT-1", LSE.witness.id, DELTA, Status.UNSUPPORTED, note="this processor has no NEON"),
)


ANYTHING: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Any JSON value, with the strings that UTF-8 cannot hold."""


def _ratios(count: int, top: float, exact: int) -> tuple[float, ...]:
    # A cheap spread over three decades below ``top``; integers modulo a prime, so that it is equal everywhere.
    return (0.0,) * exact + tuple(top / (1 + (i * i * 37 + i * 11) % 997) for i in range(count))


def sample() -> RunReport:
    """The invented run: two new causes for renderers, one known one, one for a kernel, one target left out."""
    verdicts: dict[str, int] = {}
    for row in _COUNTS.values():
        for counts in row.values():
            for status, count in counts.items():
                verdicts[status] = verdicts.get(status, 0) + count
    limits = {"wall": "30 s per case, by the harness", "memory": "4,096 MB, resident set sampled every 50 ms"}
    targets = (
        TargetInfo(ALPHA, "render", "http", ("chat", "completion"), {"version": "1.4.0", "model": "gauge"}, limits),
        TargetInfo(
            BETA, "render", "http", ("chat", "completion", "chat:echo"), {"version": "2.0.1", "model": "gauge"}, limits
        ),
        TargetInfo(
            GAMMA,
            "mla",
            "worker",
            ("decode",),
            {"isa": "avx2", "threads": 2},
            {"wall": "60 s per case, by the harness"},
        ),
        TargetInfo(DELTA, "mla", "worker", ("decode",), {}, {}, "this processor has no NEON"),
    )
    environment = {
        "os": "Linux 6.1 (invented)",
        "machine": "x86_64",
        "cpu": {"name": "Example 9000", "cores": 2, "features": ["avx2", "fma", "f16c"]},
        "python": "3.11.7",
        "libraries": {"numpy": "2.4.0", "torch": "2.13.0"},
        "threads": {"OMP_NUM_THREADS": "2"},
    }
    return RunReport(
        header=Header(
            run="sample",
            format=1,
            afere="0.1.0",
            started="2026-01-01T00:00:00Z",
            options={"suites": ["render", "mla"], "cases": 276, "seed": 1},
            environment=environment,
            targets=targets,
            planned=276,
            pairs=552,
        ),
        footer=Footer("sample", "2026-01-01T00:01:30Z", 552, {"answered": 430, "refused": 26, "unsupported": 96}),
        clauses=CLAUSES,
        summary=Summary(
            run="sample",
            valid=True,
            problems=(),
            cases=276,
            observations=552,
            verdicts=verdicts,
            decisions=39,
            outcomes={
                ALPHA: {"answered": 154, "refused": 26},
                BETA: {"answered": 180},
                GAMMA: {"answered": 96},
                DELTA: {"unsupported": 96},
            },
            matrix={clause: {t: _worst(c) for t, c in row.items()} for clause, row in _COUNTS.items()},
            counts=_COUNTS,
            new=tuple(f.signature for f in FINDINGS if not f.known),
            known=tuple(f.signature for f in FINDINGS if f.known),
            stale=(),
            exit=1,
        ),
        findings=FINDINGS,
        selfcheck=(
            SelfCheck(
                "render",
                "0.1.0",
                400,
                1,
                24,
                24,
                6,
                0,
                {"joins-parts-with-a-space": ("R-JOIN-1",), "doubles-bos": ("R-BOS-1",)},
                (),
                (),
                (),
            ),
            SelfCheck(
                "mla",
                "0.1.0",
                200,
                1,
                15,
                14,
                5,
                0,
                {"scale-off": ("M-OUT-1",), "drops-lse": ()},
                (),
                ("drops-lse: M-LSE-1",),
                (),
            ),
        ),
        ratios={
            GAMMA: {"M-OUT-1": _ratios(400, 0.83, 40), "M-LSE-1": (*_ratios(300, 0.4, 0), 3.0, 12.0, 40.0)},
        },
        verdicts=lambda: VERDICTS,
    )


def produce(report: RunReport, name: str) -> bytes:
    """The bytes of one format."""
    out = io.BytesIO()
    FORMATS[name].write(report, out)
    return out.getvalue()


def with_summary(**changes: object) -> RunReport:
    """The sample with another summary."""
    report = sample()
    return msgspec.structs.replace(report, summary=msgspec.structs.replace(report.summary, **changes))


def with_cell(clause: str, target: str, status: str, findings: tuple[Finding, ...]) -> RunReport:
    """The sample with these findings, and with one cell of the matrix set to three verdicts of ``status``."""
    report = sample()
    matrix = {**report.summary.matrix, clause: {**report.summary.matrix[clause], target: status}}
    counts = {**report.summary.counts, clause: {**report.summary.counts[clause], target: {status: 3}}}
    summary = msgspec.structs.replace(report.summary, matrix=matrix, counts=counts, new=(), known=())
    return msgspec.structs.replace(report, summary=summary, findings=findings)


HOSTILE: Final = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)> \x00\x1b[31m\ud800\u202e`````` | ]]> {{ 7*7 }}"
)
"""Breaks out of HTML, XML, Markdown, templates, terminals and encodings, where it is let."""


def hostile() -> RunReport:
    """A run in which every string is an attack, with payloads of megabytes."""
    nasty = msgspec.structs.replace(
        JOIN,
        signature=HOSTILE,
        title=HOSTILE,
        stage=HOSTILE,
        field=HOSTILE,
        change=HOSTILE,
        culprit=(HOSTILE,),
        expected={HOSTILE: [HOSTILE, 10**5000]},
        got="z" * 10_000_000,
        note=HOSTILE,
        script=HOSTILE,
        replay=HOSTILE,
        witness=Case.make("render", "chat", {"prompt": HOSTILE, "long": "q" * 10_000_000}),
        targets=(HOSTILE,),
        clauses=(HOSTILE,),
    )
    report = sample()
    info = msgspec.structs.replace(
        report.header.targets[0], name=HOSTILE, reports={HOSTILE: HOSTILE}, limits={HOSTILE: HOSTILE}
    )
    header = msgspec.structs.replace(
        report.header, targets=(info,), environment={HOSTILE: {HOSTILE: [HOSTILE]}}, options={HOSTILE: HOSTILE}
    )
    summary = msgspec.structs.replace(
        report.summary,
        matrix={HOSTILE: {HOSTILE: "fail"}},
        counts={HOSTILE: {HOSTILE: {"fail": 1}}},
        new=(HOSTILE,),
        known=(),
    )
    ratios = {HOSTILE: {HOSTILE: (0.5, float("nan"), float("inf"), 0.0)}}
    return msgspec.structs.replace(report, header=header, summary=summary, findings=(nasty,), ratios=ratios)


def main() -> None:
    """Write the checked-in samples anew."""
    for path in write(sample(), SAMPLES).values():
        print(path)


if __name__ == "__main__":
    main()

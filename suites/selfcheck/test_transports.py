"""The worker transport: what a target does is what is observed, and a lie costs the liar one case."""

from __future__ import annotations

import json
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.blobs import STORED, BlobStore, to_bytes
from harness.outcome import Outcome
from harness.records import Case, canonical
from harness.sandbox import Limits
from harness.targets.base import Answer, Target, TargetUnavailable, Tensor, Unsupported
from harness.targets.protocol import Reply
from harness.targets.protocol import Request as WorkerRequest
from harness.targets.stdio import WorkerTarget, python_worker
from harness.targets.worker import Array, Worker, save

OPERATIONS = """
import os, signal, subprocess, sys, threading, time
from afere_worker import Refused, Unsupported

class OwnRefused(ValueError):
    afere_outcome = "refused"

def hello():
    return {"version": "1.2", "capabilities": ["echo", "double"]}

def echo(input, arrays):
    print("noise"); subprocess.run(["echo", "more noise"]); os.write(1, b"and more\\n")
    return input

def double(input, arrays):
    return {"names": sorted(arrays)}, {name: array.numpy() * 2 for name, array in arrays.items()}

def same(input, arrays):
    return None, dict(arrays)

def refuse(input, arrays): raise Refused("no such thing", {"why": 1})
def refuse_too(input, arrays): raise OwnRefused("nor this")
def cannot(input, arrays): raise Unsupported("not here")
def divide(input, arrays): return 1 / 0
def greedy(input, arrays): raise MemoryError("too much")
def quits(input, arrays): raise SystemExit(3)
def unsendable(input, arrays): return {1, 2}
def crash(input, arrays): os.kill(os.getpid(), signal.SIGSEGV)
def leave(input, arrays): os._exit(3)
def hang(input, arrays): time.sleep(3600)
def spin(input, arrays):
    while True: pass
def eat(input, arrays):
    kept = bytearray(400 << 20); time.sleep(3600)
def flood(input, arrays):
    while True: print("x" * 4096)
def huge(input, arrays): return "x" * (2 << 20)

OPS = {name: thing for name, thing in list(globals().items()) if callable(thing) and name.islower() and name != "hello"}
"""
LIMITS = Limits(wall_s=60.0, memory_bytes=300 << 20, output_bytes=4 << 20, reply_bytes=1 << 20, grace_s=0.2)


def case(op: str, **given_input: Any) -> Case:
    return Case.make("toy", op, given_input)


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., WorkerTarget]]:
    made: list[WorkerTarget] = []

    def make(
        text: str = OPERATIONS, *, python: str = sys.executable, ready_s: float = 120.0, **limits: Any
    ) -> WorkerTarget:
        path = tmp_path / f"operations{len(made)}.py"
        path.write_text(textwrap.dedent(text))
        changed = msgspec.structs.replace(LIMITS, **limits)
        argv = python_worker(python, path)
        made.append(WorkerTarget("toy@1", argv, logs=tmp_path / "logs", limits=changed, ready_s=ready_s))
        return made[-1]

    yield make
    for target in made:
        target.close()


def test_it_is_a_target(worker: Callable[..., WorkerTarget]) -> None:
    assert isinstance(worker(), Target)


def test_hello_carries_what_the_target_says_and_the_limits(worker: Callable[..., WorkerTarget]) -> None:
    hello = worker().open()
    assert hello.capabilities == ("echo", "double")
    assert hello.reports["version"] == "1.2"
    assert str(hello.reports["worker python"]).startswith("CPython ")
    assert hello.limits["memory"].startswith("300 MiB")


@pytest.mark.parametrize(
    ("op", "limits", "outcome", "said"),
    [
        ("refuse", {}, Outcome.REFUSED, "no such thing"),
        ("refuse_too", {}, Outcome.REFUSED, "nor this"),
        ("cannot", {}, Outcome.UNSUPPORTED, "not here"),
        ("nothing", {}, Outcome.UNSUPPORTED, "no operation 'nothing'"),
        ("divide", {}, Outcome.FAILED, "ZeroDivisionError: division by zero"),
        ("quits", {}, Outcome.FAILED, "SystemExit: 3"),
        ("unsendable", {}, Outcome.FAILED, "cannot be sent"),
        ("greedy", {}, Outcome.OUT_OF_MEMORY, "MemoryError: too much"),
        ("crash", {}, Outcome.CRASHED, "was ended by SIGSEGV"),
        ("leave", {}, Outcome.CRASHED, "exited with status 3"),
        ("hang", {"wall_s": 0.3}, Outcome.TIMED_OUT, "wall limit"),
        ("spin", {"cpu_s": 0.2}, Outcome.TIMED_OUT, "cpu limit"),
        ("eat", {}, Outcome.OUT_OF_MEMORY, "memory limit"),
        ("flood", {}, Outcome.FAILED, "output limit"),
        ("huge", {}, Outcome.FAILED, "a reply longer than 1048576 bytes"),
    ],
)
def test_what_an_operation_does_is_what_is_observed_and_the_next_case_is_untouched(
    op: str,
    limits: dict[str, Any],
    outcome: Outcome,
    said: str,
    worker: Callable[..., WorkerTarget],
    blobs: BlobStore,
) -> None:
    target = worker(**limits)
    target.open()
    answer = target.run(case(op), blobs)
    assert answer.outcome is outcome
    assert said in answer.detail
    after = target.run(case("echo", x=1), blobs)
    assert (after.outcome, after.payload, after.detail) == (Outcome.ANSWERED, {"x": 1}, "")


def test_a_refusal_may_carry_a_payload(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    target = worker()
    target.open()
    assert target.run(case("refuse"), blobs).payload == {"why": 1}


def test_odd_json_survives(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    target = worker()
    target.open()
    odd = {"lone": "\ud800", "large": 10**40, "deep": [[[[]]]], "text": 'é"\\\n\u2028\0', "infinite": float("inf")}
    assert target.run(case("echo", **odd), blobs).payload == odd


def test_an_answer_has_a_cost(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    target = worker()
    target.open()
    cost = target.run(case("echo"), blobs).cost
    assert cost.wall_s is not None
    assert cost.cpu_s is not None
    assert cost.rss_bytes is not None


def test_arrays_go_and_come_in_files(worker: Callable[..., WorkerTarget], blobs: BlobStore, tmp_path: Path) -> None:
    target = worker()
    target.open()
    q = np.arange(6, dtype=np.float32).reshape(2, 3)
    asked = Case.make("toy", "double", {}, {"q": blobs.put(Tensor.of(q)), "n": blobs.put(Tensor.of(np.arange(3)))})
    answer = target.run(asked, blobs)
    assert answer.payload == {"names": ["n", "q"]}
    np.testing.assert_array_equal(answer.arrays["q"].data, q * 2)
    assert answer.arrays["n"].dtype == "int64"


def test_every_dtype_and_shape_comes_back_bit_for_bit(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    target = worker()
    target.open()

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sampled_from(sorted(STORED)), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 2**32))
    def check(dtype: str, shape: list[int], seed: int) -> None:
        size = int(np.prod(shape)) * STORED[dtype].itemsize
        raw = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 256, size, dtype=np.uint8)
        tensor = Tensor(raw.view(STORED[dtype]).reshape(shape), dtype)
        answer = target.run(Case.make("toy", "same", {}, {"a": blobs.put(tensor)}), blobs)
        got = answer.arrays["a"]
        assert (got.dtype, got.shape, to_bytes(got)) == (tensor.dtype, tensor.shape, to_bytes(tensor))

    check()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_the_workers_tensors_are_torchs(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    import torch

    made = torch.ones(shape, dtype=getattr(torch, dtype))
    said = save({"a": made}, str(tmp_path))["a"]
    back = Array(said["dtype"], said["shape"], path=said["path"]).torch()
    assert back.dtype is made.dtype
    assert back.shape == made.shape
    assert torch.equal(back, made)
    assert said["digest"] == BlobStore(tmp_path / "b").put(Tensor(_numpy(made), dtype)).digest


def _numpy(tensor: Any) -> Any:
    import torch

    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype is torch.bfloat16 else tensor.numpy()


# What a worker may send in place of a reply. READ reads a request into `r`, SAY sends an object.
LIAR = """
import json, os, sys
def READ(): return json.loads(sys.stdin.readline())
def SAY(**what): print(json.dumps(what), flush=True)
def ANSWER(r, a): SAY(id=r["id"], type="result", outcome="answered", arrays={"a": a})
r = READ()
SAY(id=r["id"], type="hello", protocol=1, capabilities=["x"])
first = not os.path.exists(sys.argv[1])
open(sys.argv[1], "a").close()
while True:
    r = READ()
    if r["type"] == "bye": break
    out = os.path.join(r["out"], "0.bin")
    open(out, "wb").write(b"1234")
    a = dict(path=out, dtype="float32", shape=[1], digest="")
    if first:
        LIE
    else:
        SAY(id=r["id"], type="result", outcome="answered", payload="honest")
"""


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("print('not json', flush=True)", "not JSON"),
        ("print('[' * 100_000, flush=True)", "not JSON"),
        ("print('1' * 10_000, flush=True)", "not JSON"),
        ("print('[1]', flush=True)", "not a reply"),
        ("sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()", "not JSON"),
        ("SAY(id=r['id'] + 1, type='result', outcome='answered')", "instead of one to"),
        ("SAY(id=r['id'], type='hello', protocol=1, capabilities=[])", "HelloReply"),
        ("SAY(id=r['id'], type='result', outcome='excellent')", "excellent"),
        ("SAY(id='7', type='result', outcome='answered')", "not a reply"),
        ("SAY(id=r['id'], type='error', detail='what?')", "did not understand the request: what?"),
        ("a['path'] = '/etc/hostname'; ANSWER(r, a)", "outside"),
        ("a['path'] += '2'; ANSWER(r, a)", "cannot be read"),
        (
            "a['shape'] = [2]; ANSWER(r, a)",
            "4 bytes for an array",
        ),
        ("a['shape'] = [-1]; ANSWER(r, a)", "shape [-1]"),
        (
            "a['dtype'] = 'object'; ANSWER(r, a)",
            "dtype 'object'",
        ),
        (
            "os.unlink(out); os.symlink('/etc/hostname', out); ANSWER(r, a)",
            "outside",
        ),
        ("sys.stdout.write('x' * (2 << 20)); sys.stdout.flush(); READ()", "a reply longer than"),
    ],
)
def test_a_lie_is_a_failed_observation_and_costs_one_case(
    lie: str, said: str, blobs: BlobStore, tmp_path: Path
) -> None:
    target = _liar(lie, tmp_path)
    try:
        target.open()
        answer = target.run(case("x"), blobs)
        assert answer.outcome is Outcome.FAILED
        assert "broke the protocol" in answer.detail
        assert said in answer.detail
        assert target.run(case("x"), blobs).payload == "honest"
    finally:
        target.close()


def _liar(lie: str, tmp_path: Path) -> WorkerTarget:
    path = tmp_path / "liar.py"
    path.write_text(LIAR.replace("LIE", lie))
    argv = [sys.executable, str(path), str(tmp_path / "told")]
    return WorkerTarget("liar@1", argv, logs=tmp_path / "logs", limits=LIMITS)


def test_a_worker_that_closes_its_output_and_lives_on_is_stopped(blobs: BlobStore, tmp_path: Path) -> None:
    target = _liar("os.close(1); READ()", tmp_path)
    target.open()
    answer = target.run(case("x"), blobs)
    assert answer.outcome is Outcome.FAILED
    assert target.run(case("x"), blobs).payload == "honest"
    target.close()


def test_a_second_reply_to_an_earlier_case_is_not_taken_for_one_to_the_next(blobs: BlobStore, tmp_path: Path) -> None:
    twice = "[SAY(id=r['id'], type='result', outcome='answered', payload=n) for n in (1, 2)]"
    target = _liar(twice, tmp_path)
    target.open()
    assert target.run(case("x"), blobs).payload == 1
    answer = target.run(case("x"), blobs)
    assert answer.payload == "honest"
    assert "asked again" in answer.detail
    target.close()


def test_a_death_between_two_cases_is_not_blamed_on_the_second(blobs: BlobStore, tmp_path: Path) -> None:
    target = _liar("SAY(id=r['id'], type='result', outcome='answered', payload=1); os._exit(9)", tmp_path)
    target.open()
    assert target.run(case("x"), blobs).payload == 1
    program = target._program
    assert program is not None
    program.wait()
    answer = target.run(case("x"), blobs)
    assert answer.payload == "honest"
    assert "exited with status 9 after it had answered the case before" in answer.detail
    target.close()


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("raise RuntimeError('no kernel here')", TargetUnavailable, "no kernel here"),
        ("import nothing_of_that_name", TargetUnavailable, "nothing_of_that_name"),
        ("import os; os._exit(4)", TargetUnavailable, "exited with status 4 before it was ready"),
        (
            "from afere_worker import Unsupported\nOPS = {}\ndef hello(): raise Unsupported('no AVX512')",
            Unsupported,
            "no AVX512",
        ),
        ("while True: pass", TargetUnavailable, "wall limit .no answer within 1 s."),
    ],
)
def test_a_worker_that_does_not_come_up_says_why(
    text: str, error: type[Exception], said: str, worker: Callable[..., WorkerTarget]
) -> None:
    target = worker(text, ready_s=1.0 if "while" in text else 120.0)
    with pytest.raises(error, match=said):
        target.open()


def test_a_costly_start_is_not_charged_to_the_cpu_limit(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    slow = "import time\nwhile time.process_time() < 1: pass\nOPS = {'one': lambda input, arrays: 1}"
    target = worker(slow, cpu_s=0.3)
    target.open()
    assert target.run(case("one"), blobs).payload == 1


def test_an_interpreter_that_is_not_there_is_named(worker: Callable[..., WorkerTarget]) -> None:
    with pytest.raises(TargetUnavailable, match="cannot start /no/python"):
        worker(python="/no/python").open()


def test_after_close_nothing_is_started(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    target = worker()
    target.open()
    target.close()
    target.close()
    assert target.run(case("echo"), blobs).outcome is Outcome.FAILED
    assert target._program is None


def test_closing_ends_the_case_in_flight(worker: Callable[..., WorkerTarget], blobs: BlobStore) -> None:
    target = worker()
    target.open()
    program = target._program
    assert program is not None
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(target.run(case("hang"), blobs)))
    thread.start()
    while not program.busy:
        assert thread.is_alive()
    target.close()
    thread.join()
    assert answers[0].outcome is Outcome.FAILED
    assert not program.running


def test_messages_validate_against_their_schemas(tmp_path: Path) -> None:
    path = tmp_path / "operations.py"
    path.write_text(OPERATIONS)
    inside = Worker(str(path))
    requests: list[dict[str, Any]] = [
        {"id": 1, "type": "hello", "protocol": 1},
        {"id": 2, "type": "hello", "protocol": 99},
        *(
            {"id": 3, "type": "run", "op": op, "input": {}, "arrays": {}, "out": str(tmp_path)}
            for op in ("refuse", "divide")
        ),
        {"id": 4, "type": "dance"},
        {"id": 5, "type": "bye"},
    ]
    replies, requested = msgspec.json.schema(Reply), msgspec.json.schema(WorkerRequest)
    kinds = []
    for request in requests:
        reply, go_on = inside.answer(canonical(request))
        jsonschema.validate(json.loads(json.dumps(reply)), replies)
        if request["type"] != "dance":
            jsonschema.validate(request, requested)
            assert msgspec.to_builtins(msgspec.convert(request, WorkerRequest)) == request
        kinds.append(reply["type"])
        assert go_on == (request["type"] != "bye")
    assert kinds == ["hello", "error", "result", "result", "error", "bye"]
    assert inside.answer(b"{")[0]["id"] is None

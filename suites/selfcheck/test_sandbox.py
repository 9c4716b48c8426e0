"""Foreign programs that hang, crash, eat, flood and fork: each is ended, named for what it did, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sandbox import (
    Completed,
    Limits,
    NotReady,
    Program,
    StartFailed,
    free_port,
    limits_in_force,
    process,
    run_once,
    tree,
    wait_ready,
)
from harness.sandbox.guard import GUARD

ROOT = Path(__file__).parents[2]
FOREVER = "import time\nwhile True: time.sleep(60)\n"
# A grandchild that leaves the group, loses its parent, and says who it is.
DETACH = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1] + ".part", "w") as file: file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        while True: time.sleep(60)
    os._exit(0)
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that must come; the deadline only keeps a broken test from hanging."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def run(code: str, tmp_path: Path, *arguments: str, **limits: object) -> Completed:
    settings = {"wall_s": 60.0, "grace_s": 0.2, **limits}
    argv = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return run_once(argv, name="probe", logs=tmp_path / "logs", limits=Limits(**settings))  # type: ignore[arg-type]


def start(code: str, tmp_path: Path, *arguments: str, pipes: bool = False, **limits: object) -> Program:
    settings = {"wall_s": 60.0, "grace_s": 0.2, **limits}
    argv = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return Program(argv, name="probe", logs=tmp_path / "logs", limits=Limits(**settings), pipes=pipes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "limits", "cause", "said"),
    [
        ("print('done')", {}, "exited", "exited with status 0"),
        ("raise SystemExit(7)", {}, "exited", "exited with status 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", {}, "signalled", "was ended by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", {}, "signalled", "was ended by SIGKILL"),
        (FOREVER, {"wall_s": 0.2}, "wall", "at its wall limit (no answer within 0.2 s)"),
        ("while True: pass", {"cpu_s": 0.1}, "cpu", "at its cpu limit"),
        ("kept = bytearray(200 << 20)\n" + FOREVER, {"memory_bytes": 100 << 20}, "memory", "100 allowed"),
        ("while True: print('x' * 4096)", {"output_bytes": 1 << 20}, "output", "more than 1 MiB printed"),
    ],
)
def test_every_end_is_named(
    code: str, limits: dict[str, object], cause: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "oom_kills", lambda: 0)  # another program on this machine may run out of memory
    done = run(code, tmp_path, **limits)
    assert done.ending.cause == cause
    assert said in str(done.ending)
    assert done.ok == (said == "exited with status 0")


def test_memory_and_cpu_of_children_count(tmp_path: Path) -> None:
    child = "kept = bytearray(200 << 20)\nwhile True: pass"
    eater = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    assert run(eater, tmp_path, memory_bytes=100 << 20).ending.cause == "memory"
    assert run(eater, tmp_path, cpu_s=0.2).ending.cause == "cpu"


def test_a_kill_by_the_system_for_want_of_memory_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((3, 4))
    monkeypatch.setattr(tree, "oom_kills", lambda: next(counts))
    done = run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert done.ending.cause == "system_memory"


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    done = run_once(["/no/such/program"], name="probe", logs=tmp_path, limits=Limits())
    assert not done.ok
    assert "cannot start /no/such/program: No such file" in done.ending.detail


def test_the_log_keeps_the_beginning_and_the_end_and_counts_the_rest(tmp_path: Path) -> None:
    run("print('first'); print('x' * 100_000); print('last')", tmp_path, log_bytes=1000)
    log = (tmp_path / "logs" / "probe.stdout.log").read_text()
    assert log.startswith("first\n")
    assert log.endswith("last\n")
    assert len(log) < 10_000
    assert "[Afere kept 1000 bytes, dropped " in log


def test_restarts_share_one_log_cap(tmp_path: Path) -> None:
    for _ in range(3):
        run("print('x' * 800)", tmp_path, log_bytes=1000)
    assert (tmp_path / "logs" / "probe.stdout.log").read_bytes().count(b"x" * 800) <= 3
    kept = (tmp_path / "logs" / "probe.stdout.log").read_bytes().partition(b"[Afere")[0]
    assert len(kept) <= 1001


def test_the_tail_is_that_of_the_request_at_hand(tmp_path: Path) -> None:
    program = start(
        "import sys\nfor line in sys.stdin: print(line, file=sys.stderr, end='', flush=True)", tmp_path, pipes=True
    )
    try:
        for word in (b"one", b"two"):
            program.begin()
            program.stdin.write(word + b"\n")
            program.stdin.flush()
            until(lambda: bool(program.tail()))
            assert program.tail() == word.decode()
    finally:
        program.stop()


def test_a_detached_grandchild_is_ended(tmp_path: Path) -> None:
    program = start(DETACH + FOREVER, tmp_path, str(tmp_path / "pid"))
    until((tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert tree.alive(pid)
    program.stop()
    assert not tree.alive(pid)
    assert program.ending().cause == "stopped"
    program.stop()  # twice is fine


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_reader(tmp_path: Path) -> None:
    program = start(DETACH, tmp_path, str(tmp_path / "pid"), pipes=True)
    program.begin()
    assert program.stdout.read() == b""  # would last as long as the grandchild does
    assert program.ending().cause == "exited"


def test_a_program_that_ignores_the_request_to_end_is_ended(tmp_path: Path) -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
    program = start(deaf + FOREVER, tmp_path)
    until(lambda: "deaf" in program.tail())
    program.stop()
    assert not tree.alive(program.pid)


def test_its_folder_goes_with_it_and_its_environment_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/not/for/targets")
    code = """
    import json, os, resource, sys, tempfile
    open(os.path.join(tempfile.gettempdir(), "left"), "w").close()
    said = [tempfile.gettempdir(), os.environ.get("PYTHONPATH"), resource.getrlimit(resource.RLIMIT_CORE)[0]]
    print(json.dumps(said), flush=True)
    """
    program = start(code, tmp_path)
    program.wait()
    folder, path, core = json.loads(program.tail())
    assert folder == str(program.folder)
    assert not program.folder.exists()
    assert path is None
    assert core == 0


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce RLIMIT_AS")
def test_the_address_space_limit_is_the_kernels(tmp_path: Path) -> None:
    done = run("bytearray(1 << 30)", tmp_path, address_space_bytes=512 << 20)
    assert done.ending.code == 1
    assert "MemoryError" in done.tail


def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[Program] = []
    thread = threading.Thread(
        target=lambda: started.append(start("input(); print('still here')", tmp_path, pipes=True))
    )
    thread.start()
    thread.join()
    program = started[0]
    program.stdin.write(b"\n")
    program.stdin.flush()
    assert program.stdout.readline() == b"still here\n"
    program.stop()


def test_readiness_says_how_it_failed(tmp_path: Path) -> None:
    early = start("import sys; sys.exit('no model in this folder')", tmp_path)
    with pytest.raises(NotReady, match=r"exited with status 1 before it was ready(?s:.*)no model in this folder"):
        wait_ready(early, lambda: False, 60)
    late = start(FOREVER, tmp_path)
    with pytest.raises(NotReady, match="was not ready within 0 s"):
        wait_ready(late, lambda: False, 0)
    assert not tree.alive(late.pid)
    fine = start(FOREVER, tmp_path)
    answers = iter((False, False, True))
    wait_ready(fine, lambda: next(answers), 60)
    fine.stop()


def test_the_header_names_a_mechanism_for_each_limit_and_none_where_there_is_none() -> None:
    said = limits_in_force(Limits(wall_s=2, cpu_s=None, memory_bytes=1 << 30))
    assert said["wall"].startswith("2 s")
    assert "sampled every" in said["memory"]
    assert said["memory"].startswith("1024 MiB")
    assert said["cpu"] == "none"
    assert said["address space"] == "none"


def test_a_free_port_can_be_bound() -> None:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))


def _harness(tmp_path: Path) -> subprocess.Popen[str]:
    """A harness process with a program and a detached grandchild under way; prints what must go when it is killed."""
    script = f"""
    import sys, time
    from pathlib import Path
    from harness.sandbox import Limits, Program
    from harness.sandbox.guard import GUARD
    tmp = Path({str(tmp_path)!r})
    argv = [sys.executable, "-c", {DETACH + FOREVER!r}, str(tmp / "pid")]
    program = Program(argv, name="x", logs=tmp, limits=Limits())
    while not (tmp / "pid").exists(): time.sleep(0.01)
    print(program.pid, (tmp / "pid").read_text(), GUARD.pid, program.folder, flush=True)
    for line in sys.stdin:
        other = Program([sys.executable, "-c", {FOREVER!r}], name="y", logs=tmp, limits=Limits())
        print(other.pid, GUARD.pid, flush=True)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_nothing_is_left_when_the_harness_is_killed(tmp_path: Path) -> None:
    with _harness(tmp_path) as harness:
        assert harness.stdout is not None
        program, grandchild, guardian, folder = harness.stdout.readline().split()
        assert Path(folder).exists()
        harness.kill()
    for pid in (program, grandchild, guardian):
        until(lambda pid=pid: not tree.alive(int(pid)))  # type: ignore[misc]
    until(lambda: not Path(folder).exists())


def test_nothing_is_left_when_the_guardian_is_killed_and_then_the_harness(tmp_path: Path) -> None:
    with _harness(tmp_path) as harness:
        assert harness.stdout is not None
        assert harness.stdin is not None
        program, grandchild, guardian, folder = harness.stdout.readline().split()
        os.kill(int(guardian), signal.SIGKILL)
        until(lambda: not tree.alive(int(guardian)))
        harness.stdin.write("another\n")
        harness.stdin.flush()
        other, successor = harness.stdout.readline().split()
        assert successor != guardian
        harness.kill()
    for pid in (program, grandchild, other, successor):
        until(lambda pid=pid: not tree.alive(int(pid)))  # type: ignore[misc]
    until(lambda: not Path(folder).exists())


def test_the_harness_ends_by_itself_and_takes_all_with_it(tmp_path: Path) -> None:
    with _harness(tmp_path) as harness:
        assert harness.stdout is not None
        program, grandchild, guardian, _folder = harness.stdout.readline().split()
        assert harness.stdin is not None
        harness.stdin.close()
        assert harness.wait() == 0
    for pid in (program, grandchild, guardian):
        until(lambda pid=pid: not tree.alive(int(pid)))  # type: ignore[misc]


def test_a_killed_target_is_an_end_like_any_other(tmp_path: Path) -> None:
    program = start(DETACH + FOREVER, tmp_path, str(tmp_path / "pid"))
    until((tmp_path / "pid").exists)
    os.kill(program.pid, signal.SIGKILL)
    assert program.wait().cause in ("signalled", "system_memory")
    assert not tree.alive(int((tmp_path / "pid").read_text()))


def test_a_failed_start_leaves_nothing_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(process, "spawn", refuse)
    marks = dict(GUARD._marks)
    with pytest.raises(StartFailed, match="no more processes"):
        start(FOREVER, tmp_path)
    assert marks == GUARD._marks

"""Who can be asked: vLLM's two renderers, any server by address, and the renderers of the base install."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from harness.outcome import Outcome
from harness.provision import WheelMember, find
from harness.records import Case, Json
from harness.suite import Needed, Session, TargetKind, TargetName
from harness.targets.base import Answer, Blobs, Hello, Target, TargetUnavailable
from suites import vllm_cpu
from suites.render import local, plain
from suites.render.requests import request_of, setup_of
from suites.render.setups import LEDGER, MAX_MODEL_LEN, OPEN, SERVED, setups, template_file

if TYPE_CHECKING:
    # What starts programs is imported where a target is made: listing targets must answer at once.
    from harness.sandbox import Limits
    from harness.targets.http import HttpTarget

OPERATIONS: Final = ("chat", "completions", "text", "models", "health", "repeat", *plain.CAPABILITIES)
RS_VERSIONS: Final = ("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")
MIB: Final = 1 << 20


class Renderers:
    """One target that is a server for each set-up; a case goes to the one it names."""

    transport = "http"

    def __init__(self, name: str, servers: Mapping[str, HttpTarget]) -> None:
        self.name = name
        self._servers = dict(servers)

    def address(self, setup: str) -> str:
        """The URL of the server of one set-up, once it is open."""
        return self._servers[setup].url

    def open(self) -> Hello:
        """Start all of them, or none."""
        hellos: dict[str, Hello] = {}
        try:
            for setup, server in self._servers.items():
                hellos[setup] = server.open()
        except TargetUnavailable:
            self.close()
            raise
        capabilities = {c for setup, hello in hellos.items() for c in (*hello.capabilities, f"setup:{setup}")}
        first = next(iter(hellos.values()))
        reports: dict[str, Json] = {setup: hello.reports for setup, hello in hellos.items()}
        return Hello(tuple(sorted(capabilities)), reports, first.limits)

    def run(self, case: Case, blobs: Blobs) -> Answer:
        """Send the request of a case; of ``repeat``, twice."""
        server = self._servers.get(setup_of(case))
        if server is None:
            return Answer(Outcome.UNSUPPORTED, detail=f"{self.name} does not serve {setup_of(case)}")
        answer = server.run(case, blobs)
        if case.op != "repeat" or answer.outcome not in (Outcome.ANSWERED, Outcome.REFUSED):
            return answer
        second = server.run(case, blobs)
        return Answer(
            answer.outcome, {"answers": [answer.payload, second.payload]}, detail=second.detail, cost=answer.cost
        )

    def close(self) -> None:
        """End all of them."""
        for server in self._servers.values():
            server.close()


def _limits(session: Session) -> Limits:
    from harness.sandbox import Limits

    given = session.limits
    return Limits(
        wall_s=given.get("wall_s", 30.0),
        cpu_s=given.get("cpu_s"),
        memory_bytes=int(given.get("memory_mb", 6144) * MIB),
        output_bytes=int(given.get("output_mb", 512) * MIB),
    )


def _describe(get: Callable[[str], Json]) -> Mapping[str, Json]:
    """What a server says of itself: the model card without what differs from start to start."""
    listed = get("/v1/models")
    card = listed["data"][0] if isinstance(listed, dict) and listed.get("data") else {}
    return {"model": {key: card.get(key) for key in ("id", "owned_by", "max_model_len")}}


Command = Callable[[str, str, int], Sequence[str]]
"""From set-up, host and port to the command that starts a server."""


def _servers(name: str, session: Session, command: Command, env: dict[str, str], ready_s: float) -> Renderers:
    from harness.targets.http import HttpTarget, Server

    def server(setup: str) -> HttpTarget:
        capabilities = (*OPERATIONS, "template") if setup == OPEN else OPERATIONS
        return HttpTarget(
            f"{name} {setup}", request_of, logs=session.logs, limits=_limits(session), capabilities=capabilities,
            server=Server(lambda host, port: command(setup, host, port), env=env, ready_s=ready_s), describe=_describe,
        )  # fmt: skip

    return Renderers(name, {setup: server(setup) for setup in (LEDGER, OPEN)})


def _arguments(setup: str, host: str, port: int) -> list[str]:
    return [
        str(setups()[setup].folder), "--host", host, "--port", str(port), "--served-model-name", SERVED,
        "--max-model-len", str(MAX_MODEL_LEN), "--chat-template", str(template_file(setup)),
    ]  # fmt: skip


def _rs_needs(name: TargetName) -> Needed:
    return Needed(f"vllm-rs@{name.version}", WheelMember("vllm", name.version, "vllm/vllm-rs", ("--help",)))


def _rs_build(name: TargetName, session: Session) -> Target:
    environment = find(_rs_needs(name).name)
    if environment is None or environment.program is None:
        raise TargetUnavailable(f"{name} is not provisioned; run: afere targets add {name}")
    program = str(environment.program)
    gated = tuple(int(part) for part in name.version.split(".")[:2]) >= (0, 33)

    def command(setup: str, host: str, port: int) -> list[str]:
        # Before 0.33 the template of a request is rendered without being asked for, and the option is unknown.
        trust = ["--trust-request-chat-template", "true"] if setup == OPEN and gated else []
        return [program, "render", *_arguments(setup, host, port), *trust]

    return _servers(str(name), session, command, dict(environment.env), 60.0)


def _render_needs(name: TargetName) -> Needed:
    return vllm_cpu.environment(name.version)


def _render_build(name: TargetName, session: Session) -> Target:
    environment = find(_render_needs(name).name)
    if environment is None or environment.python is None:
        raise TargetUnavailable(f"{name} is not provisioned; run: afere targets add {name}")
    python = str(environment.python)
    env = {**environment.env, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}

    def command(setup: str, host: str, port: int) -> list[str]:
        trust = ["--trust-request-chat-template"] if setup == OPEN else []
        main = "vllm.entrypoints.cli.main"
        return [python, "-m", main, "launch", "render", *_arguments(setup, host, port), *trust]

    return _servers(str(name), session, command, env, 240.0)


def _url_build(name: TargetName, session: Session) -> Target:
    address, _, setup = name.variant.partition("#")
    setup = setup or LEDGER
    if not address or setup not in setups():
        raise ValueError(
            f"give an address, and after # one of {', '.join(setups())}, e.g. url:http://127.0.0.1:8000#ledger"
        )
    capabilities = (*OPERATIONS, "template") if setup == OPEN else OPERATIONS
    from harness.targets.http import HttpTarget

    inner = HttpTarget(
        f"{name} {setup}", request_of, logs=session.logs, limits=_limits(session), capabilities=capabilities,
        url=address, describe=_describe,
    )  # fmt: skip
    return Renderers(str(name), {setup: inner})


KINDS: Final[tuple[TargetKind, ...]] = (
    *local.KINDS,
    TargetKind("vllm-rs", "vLLM's Rust renderer (vllm-rs render)", _rs_build, needs=_rs_needs, versions=RS_VERSIONS),
    TargetKind(
        "vllm-render", "vLLM's Python renderer (vllm launch render)", _render_build, needs=_render_needs,
        versions=vllm_cpu.VERSIONS,
    ),
    TargetKind(
        "url", "a server that serves a set-up of this suite", _url_build, address="http://HOST:PORT[#ledger|#open]"
    ),
)  # fmt: skip


def kinds() -> dict[str, TargetKind]:
    """The kinds by name."""
    return {kind.name: kind for kind in KINDS}

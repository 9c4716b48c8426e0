"""``afere serve``, asked over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from harness.records import Case
from harness.suite import Session, TargetName
from suites.render import SUITE, cases
from suites.render.serve import command, server

NOTHING: Any = None
"""Stands for what these cases have no use for: arrays, sessions."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    httpd = server("ledger", "127.0.0.1", 0)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_health_and_models(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        assert client.get("/health").status_code == 200
        assert client.post("/ping").status_code == 200
        card = client.get("/v1/models").json()["data"][0]
        assert (card["id"], card["max_model_len"]) == ("gauge", 512)
        assert client.get("/nothing").status_code == 404


def test_render_routes(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        chat = client.post(
            "/v1/chat/completions/render", json=cases.plain_chat(), headers={"X-Request-Id": "me"}
        ).json()
        assert chat["request_id"] == "chatcmpl-me"
        assert chat["token_ids"][0] == 1
        both = client.post("/v1/completions/render", json={"model": "gauge", "prompt": ["a", "b"]}).json()
        assert [one["request_id"].rsplit("-", 1)[1] for one in both] == ["0", "1"]
        bad = client.post("/v1/chat/completions/render", content=b"{")
        assert bad.status_code == 400
        assert bad.json()["error"]["type"] == "BadRequestError"


def test_a_server_by_address_is_a_target(address: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = TargetName.parse(f"url:{address}")
    target = SUITE.kinds()["url"].build(name, Session(tmp_path_factory.mktemp("run"), {}))
    hello = target.open()
    try:
        assert "setup:ledger" in hello.capabilities
        assert "setup:open" not in hello.capabilities
        for op, given in cases.edge_cases()[:60]:
            case = Case.make("render", op, given)
            if SUITE.needs(case) <= set(hello.capabilities):
                answer = target.run(case, NOTHING)
                assert answer.outcome in ("answered", "refused"), (case.input, answer)
    finally:
        target.close()


@pytest.mark.parametrize("name", ["url:", "url:http://127.0.0.1:1#nothing"])
def test_a_bad_address_is_refused_at_once(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ValueError, match=r"give an address|not of the form"):
        SUITE.kinds()["url"].build(TargetName.parse(name), Session(tmp_path_factory.mktemp("run"), {}))


def test_a_wrong_set_up_is_said() -> None:
    import typer

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, ["--setup", "nothing"])
    assert result.exit_code == 2
    assert "nothing" in result.output

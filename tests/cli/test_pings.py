"""The field `ping`: what is accepted, and what an agent requests."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.agents import agent
from tests.support.cli import Dcron
from tests.support.http import WebServer, server
from tests.support.patience import until

__all__ = ["server"]


@pytest.mark.slow
def test_an_agent_pings_the_starts_and_ends_of_runs(dcron: Dcron, server: WebServer) -> None:
    commands = {"good": "echo fine", "bad": "echo broken >&2; exit 3", "again": "exit 4"}
    for name, command in commands.items():
        options = ["--tries", "2", "--backoff", "0s"] if name == "again" else []
        dcron.done("add", "-n", name, "--ping", server.url(f"/{name}"), *options, "0 0 1 1 *", command)
        dcron.done("run", name)
    dcron.done("add", "-n", "silent", "0 0 1 1 *", "true")
    dcron.done("run", "silent")
    dcron.run_due()
    dcron.run_due()  # the second attempt
    paths = defaultdict(list)
    for path in server.paths:
        paths[path.split("/")[1]].append(path)
    assert paths == {
        "good": ["/good/start", "/good"],
        "bad": ["/bad/start", "/bad/3"],
        "again": ["/again/start", "/again/log", "/again/start", "/again/4"],
    }
    bodies = {request.bare_path: request.body for request in server.requests}
    assert (bodies["/good"], bodies["/bad/3"], bodies["/good/start"]) == (b"fine\n", b"broken\n", b"")


@pytest.mark.slow
def test_a_server_that_hangs_delays_neither_runs_nor_their_ends(sqlite: Dcron, server: WebServer) -> None:
    def hang(*_: object) -> None:
        server.released.wait(60)

    server.answer = hang
    for number in range(3):
        sqlite.done("add", "-n", f"t{number}", "--ping", server.url(f"/{number}"), "0 0 1 1 *", "true")
        sqlite.done("run", f"t{number}")
    sqlite.run_due()
    ran = sqlite.done("runs", "--state", "succeeded", "--json").json
    assert len(ran) == 3
    assert all(not path.endswith(("/0", "/1", "/2")) for path in server.paths)  # no end overtook its start


@pytest.mark.parametrize(
    "wrong",
    [
        *("hc-ping.com/secret", "ftp://hc.org/secret", "file:///secret", "https:///secret"),
        *("https://ann:pw@hc.org/secret", "https://hc.org/secret#x", "https://hc.org/a secret"),
        *(
            "http://hc.org:99999/secret",
            "http://[::1/secret",
            "https://hc.örg/secret",
            "https://hc.org/secret\n",
        ),
    ],
)
def test_an_address_that_cannot_be_pinged_is_refused_without_repeating_it(sqlite: Dcron, wrong: str) -> None:
    refused = sqlite("add", "--ping", wrong, "@daily", "true")
    assert refused.code == 2
    assert refused.err.startswith("dcron: ping: ")
    assert "secret" not in refused.err


def test_a_ping_is_set_shown_exported_and_cleared(sqlite: Dcron) -> None:
    url = "https://hc-ping.com/0b6b2f3e?create=1"
    task = sqlite.done("add", "-n", "backup", "--ping", url, "--json", "@daily", "true").json
    assert task["ping"] == url
    assert url in sqlite.done("view", "backup").out
    text = sqlite.done("export").out
    assert f'ping="{url}"' in text or f"ping={url}" in text
    sqlite.done("set", "backup", "--clear", "ping")
    sqlite.done("import", "--adopt", "--force", "--user", "root", "-", stdin=text.encode())
    assert sqlite.done("view", "backup", "--json").json["ping"] == url
    sqlite.done("set", "backup", "--ping", "none")
    assert sqlite.done("view", "backup", "--json").json["ping"] is None


@pytest.mark.slow
def test_an_agent_pings_while_the_cluster_is_healthy(sqlite: Dcron, server: WebServer) -> None:
    with agent(sqlite, "web-1", "--ping", server.url("/cluster")):
        until(lambda: server.paths == ["/cluster"])
    assert server.requests[0].method == "GET"


def test_the_url_of_the_cluster_is_checked_without_repeating_it(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = sqlite("agent", "--once", "--ping", "hc-ping.com/secret")
    assert (refused.code, "secret" in refused.err) == (2, False)
    config = tmp_path / "config.toml"
    config.write_text('[agent]\nping = "ftp://hc.org/secret"\n')
    config.chmod(0o600)
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    refused = sqlite("agent", "--once")
    assert (refused.code, "secret" in refused.err) == (2, False)
    assert refused.err.startswith("dcron: --ping: this is not a web address")

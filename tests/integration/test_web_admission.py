"""Who gets into the page of `rankdbg web`: what a browser, a foreign page and another user are told."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rankdbg.frontends.web.admission import NO_TOKEN, OTHER_HOST, OTHER_ORIGIN, OTHER_USER
from simulated_jobs import stuck_job
from strangers import as_stranger, needs_root
from waiting import PATIENCE
from web_servers import ServedHere, always, served_here


@pytest.fixture(scope="module")
def server() -> Iterator[ServedHere]:
    with served_here(always(stuck_job({"pp": 1, "dp": 2, "tp": 2}, 3))) as server:
        yield server


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: ServedHere) -> None:
    """The link answers with a page that goes on to the folder, and with a cookie for that alone."""
    answer = server.ask(f"/?token={server.admission.token}")
    page = answer.read().decode()
    assert answer.status == 200 and f'content="0;url={server.admission.folder}"' in page
    assert server.admission.token not in page
    cookie, *attributes = answer.headers["Set-Cookie"].split("; ")
    assert cookie == server.cookie
    assert {*attributes} == {f"Path={server.admission.folder}", "HttpOnly", "SameSite=Strict"}
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    shown = server.ask(server.admission.folder, Cookie=f"a=b; {cookie}; c")
    assert shown.status == 200 and "<title>rankdbg</title>" in shown.read().decode()


def test_a_single_use_token_admits_once(server: ServedHere) -> None:
    """The one that the command line of a browser shows to all users."""
    token = server.admission.new_single_use_token()
    assert [server.ask(f"/?token={token}").status for _ in range(2)] == [200, 403]


@pytest.mark.parametrize("token", ["", "wrong", "%ff", "ü".encode().hex()])
def test_no_other_token_is_taken(server: ServedHere, token: str) -> None:
    """One sentence says what to do."""
    answer = server.ask(f"/?token={token}")
    assert (answer.status, answer.read().decode()) == (403, f"{NO_TOKEN}\n")
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("cookie", ["", "rankdbg=", "rankdbg=wrong", "rankdbg", "other=1"])
def test_the_page_needs_the_cookie(server: ServedHere, cookie: str) -> None:
    """The folder's name alone opens nothing, and neither does the token there."""
    for path in (server.admission.folder, f"{server.admission.folder}?token=x"):
        answer = server.ask(path, Cookie=cookie)
        assert (answer.status, answer.read().decode()) == (403, f"{NO_TOKEN}\n")


def test_the_policy_admits_this_page_alone(server: ServedHere) -> None:
    """One script and one style, by their hashes, and a connection to this server."""
    answer = server.ask(server.admission.folder, Cookie=server.cookie)
    policy = dict(
        part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == f"ws://{server.host}"
    assert all(re.fullmatch(r"'sha256-\S+'", policy[f"{kind}-src"]) for kind in ("script", "style"))


HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "",
    "0.0.0.0:80",
    "[::2]",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_was_made_to_point_here_is_refused(server: ServedHere, host: str) -> None:
    """DNS rebinding: with the cookie, with the token, and for a WebSocket."""
    for path in (server.admission.folder, f"/?token={server.admission.token}"):
        answer = server.ask(path, Host=host, Cookie=server.cookie)
        assert (answer.status, answer.read().decode()) == (403, f"{OTHER_HOST}\n")
    assert refusal_of_tab(server, Host=host or " ", Origin=f"http://{host}") == OTHER_HOST


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://HOST"]
)
def test_another_origin_is_refused(server: ServedHere, origin: str) -> None:
    """A page of another port of this machine has another origin too."""
    origin = origin.replace("HOST", server.host)
    answer = server.ask(server.admission.folder, Cookie=server.cookie, Origin=origin)
    assert (answer.status, answer.read().decode()) == (403, f"{OTHER_ORIGIN}\n")
    assert refusal_of_tab(server, Origin=origin) == OTHER_ORIGIN


def refusal_of_tab(server: ServedHere, **headers: str) -> str:
    """The sentence with which a WebSocket is refused; `` if it is accepted."""
    with server.open_tab(**headers) as client:
        status, _, rest = client.recv(4096).partition(b"\r\n")
        if status.startswith(b"HTTP/1.1 101"):
            return ""
        assert status.startswith(b"HTTP/1.1 403"), status
        while not rest.endswith(b"\n") or rest.endswith(b"\r\n"):
            rest += client.recv(4096)
        return rest.rpartition(b"\r\n")[2].decode().strip()


def test_a_tab_needs_the_cookie_and_its_own_origin(server: ServedHere) -> None:
    """A WebSocket is not bound by the same-origin policy: browsers let any page open one."""
    assert refusal_of_tab(server) == ""
    assert refusal_of_tab(server, Cookie="") == NO_TOKEN
    assert refusal_of_tab(server, Cookie="rankdbg=wrong") == NO_TOKEN
    assert refusal_of_tab(server, Origin="") == OTHER_ORIGIN


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(server: ServedHere, method: str) -> None:
    """The server has no request that changes anything."""
    for path in ("/", server.admission.folder):
        assert server.ask(path, method, Cookie=server.cookie, Content_Length="0").status == 405


@needs_root
def test_another_user_is_refused_with_all_that_is_needed(server: ServedHere) -> None:
    """Even one that has learned the token and the cookie."""
    code = """
        import http.client, sys
        host, path, cookie = sys.argv[1:]
        connection = http.client.HTTPConnection(host)
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        print(answer.status, answer.read().decode().strip())
    """
    for path in (server.admission.folder, f"/?token={server.admission.token}"):
        stranger = as_stranger(code, server.host, path, server.cookie)
        said, _ = stranger.communicate(timeout=PATIENCE)
        assert said == f"403 {OTHER_USER}\n"

"""The addresses of the live page: the link with the token, the page, and its connection.

Nothing here changes a job: the only requests are GET, and a tab asks for looks, and for the values of
expressions that only look.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from rankdbg.frontends.html.page_files import live_page
from rankdbg.frontends.web.admission import NO_TOKEN, OTHER_USER, Admission, host_of
from rankdbg.frontends.web.board import Board
from rankdbg.frontends.web.tab import TOO_MANY, Tab
from rankdbg.investigations.job_view import JobView

MOST_TABS = 32
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
# A redirect by the page itself: after one by the server, a browser that came from elsewhere (a link in
# a mail, a file) would not send the cookie, which is SameSite=Strict.
_TO_THE_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>rankdbg</title>
<meta http-equiv="refresh" content="0;url={folder}">
<p><a href="{folder}">rankdbg</a></p></html>
"""


def application(board: Board, admission: Admission, pace: float, job: JobView) -> ASGIApp:
    async def enter(request: Request) -> Response:
        """The printed link: the token becomes a cookie and leaves the address."""
        why = admission.why_not_here(request.scope["headers"])
        if why or not admission.admits(request.query_params.get("token", "")):
            return refused(why or NO_TOKEN)
        page = _TO_THE_PAGE.format(folder=admission.folder)
        policy = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
        return HTMLResponse(
            page,
            headers={
                **HEADERS,
                "Content-Security-Policy": policy,
                "Set-Cookie": admission.set_cookie,
            },
        )

    async def page(request: Request) -> Response:
        headers = request.scope["headers"]
        if why := admission.why_not(headers):
            return refused(why)
        text, policy = live_page(f"ws://{host_of(headers)}", pace)
        return HTMLResponse(text, headers={**HEADERS, "Content-Security-Policy": policy})

    async def live(socket: WebSocket) -> None:
        if why := admission.why_not(socket.scope["headers"], needs_origin=True):
            await socket.send_denial_response(refused(why))
            return
        await socket.accept()
        if board.tabs >= MOST_TABS:
            await socket.close(TOO_MANY, f"{MOST_TABS} tabs are open")
            return
        await Tab(socket, board, pace, job).run()

    routes = [
        Route("/", enter),
        Route(admission.folder, page),
        WebSocketRoute(f"{admission.folder}live", live),
    ]
    return _OfOneUser(Starlette(routes=routes))


def refused(why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=403, headers=HEADERS)


class _OfOneUser:
    """Before anything is read of what another user sends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope.get("state", {}).get("of_another_user"):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(refused(OTHER_USER))
        else:
            await refused(OTHER_USER)(scope, receive, send)

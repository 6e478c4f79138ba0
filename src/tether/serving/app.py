"""The paths of the server. Whatever is asked, the answer is JSON with a reason, and never a traceback."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tether.errors import TetherError
from tether.runtime.experience import blindness
from tether.serving.asking import Answer, Ending, Limits, answered, checked_rows, count, observation_of, request_schema
from tether.serving.counters import Counters
from tether.serving.holder import Held

FEW_ROWS = 64  # are answered at once; more in a thread, so that others need not wait for them
SECONDS_TO_READ = 10.0  # that a client has to send its body
SECONDS_BETWEEN_LOOKS = 1.0  # at the policy's file

RESPONSES = {"422": {"description": "what was asked cannot be answered; `reason` says why"}, "401": {"description": "no token"}}

Log = Callable[[Answer], None]


class Refused(Exception):
    """A request that is not answered with an action."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason


def make_app(
    held: Held,
    limits: Limits,
    token: str | None = None,
    log: Log | None = None,
    say: Callable[[str], None] = print,
    ending: Ending | None = None,
) -> FastAPI:
    leaving = ending or Ending()

    def tell(text: str) -> None:
        with suppress(OSError):  # a terminal that is gone, a full disk behind it: no reason to stop
            say(text)

    counters = Counters()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(held, tell))
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    app = FastAPI(
        title="Tether policy",
        description=str(held.policy),
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
    )

    def allow(request: Request) -> None:
        given = request.headers.get("authorization", "")
        if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise Refused(401, "the header Authorization must be: Bearer TOKEN, with the token of this server")

    async def counted(path: str, answering: Awaitable[Response]) -> Response:
        try:
            response = await answering
        except Refused as refusal:
            response = _refusal(refusal)
        except Exception as error:  # a mistake of ours: named here, and not told to the client
            tell(f"error: {type(error).__name__}: {error}")
            response = JSONResponse({"reason": "the server made a mistake; its own output says which"}, 500)
        counters.requests[path, response.status_code] += 1
        if leaving.began:
            response.headers["Connection"] = "close"
        return response

    async def action(request: Request) -> Response:
        allow(request)
        began, policy = time.perf_counter(), held.policy
        try:
            rows, one = checked_rows(policy, observation_of(await _body(request, limits.most_bytes)), limits)
            if len(rows) <= FEW_ROWS:
                answer = answered(policy, rows, one, limits)
            else:
                answer = await asyncio.to_thread(answered, policy, rows, one, limits)
        except TetherError as error:
            raise Refused(422, str(error)) from error
        count(counters, answer, limits.threshold)
        if log is not None:
            try:
                log(answer)
            except OSError as error:  # a full disk must not stop the plant
                counters.log_failures += 1
                if counters.log_failures == 1:
                    tell(f"the log cannot be written: {error}")
        counters.seconds.add(time.perf_counter() - began)
        return Response(json.dumps(answer.plain(), allow_nan=False), media_type="application/json")

    async def state() -> Response:
        known = held.policy.experience
        about = {name: held.policy.about.get(name) for name in ("dataset", "policy", "step", "env_id")}
        familiarity = {"available": known is not None, "warning": blindness(known) if known is not None else _reason(held)}
        status = "ending" if leaving.began else "ok"
        found = {"status": status, "policy": about, "familiarity": familiarity, "swaps": held.swaps, "trouble": held.trouble}
        return JSONResponse(found, 503 if leaving.began else 200)

    async def numbers(request: Request) -> Response:
        allow(request)
        return PlainTextResponse(counters.text(held.swaps, held.failures), media_type="text/plain; version=0.0.4")

    body = {"required": True, "content": {"application/json": {"schema": request_schema(held.policy)}}}

    @app.post("/act", openapi_extra={"requestBody": body, "responses": RESPONSES}, response_class=JSONResponse)
    async def act(request: Request) -> Response:
        """The action, how familiar this is (0.5 is ordinary), and the columns outside their recorded range.

        For a batch, each of them is a list. `fallback` says whether the nearest recorded action took the place of the policy's.
        """
        return await counted("/act", action(request))

    @app.get("/health", response_class=JSONResponse)
    async def health() -> Response:
        """Whether it is there, and what it serves."""
        return await counted("/health", state())

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """For Prometheus."""
        return await counted("/metrics", numbers(request))

    @app.exception_handler(HTTPException)
    async def not_there(request: Request, error: HTTPException) -> Response:
        counters.requests["other", error.status_code] += 1
        return JSONResponse({"reason": f"{request.method} {request.url.path}: {error.detail}; see /docs"}, error.status_code)

    return app


def _refusal(refusal: Refused) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    # What is left of a body that was not read would be taken for the next request.
    return JSONResponse({"reason": refusal.reason}, refusal.status, headers | {"Connection": "close"})


def _reason(held: Held) -> str:
    return str(held.policy.about.get("no_familiarity", "the policy file has none"))


async def _body(request: Request, most: int) -> bytes:
    """The body, if it comes in time and is not too large. What is declared too large is not read at all."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise Refused(422, f"the body has {int(declared):,} bytes; at most {most:,} are taken")

    async def read() -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise Refused(422, f"the body has more than {most:,} bytes, which are taken at most")
            parts.append(part)
        return b"".join(parts)

    try:
        return await asyncio.wait_for(read(), SECONDS_TO_READ)
    except TimeoutError:
        raise Refused(408, f"the body did not come within {SECONDS_TO_READ:g} seconds") from None
    except ClientDisconnect:
        raise Refused(400, "the client left before its body had come") from None


async def _watch(held: Held, say: Callable[[str], None]) -> None:
    """Look at the file now and then, in a thread: reading a large one must not keep requests waiting. It never stops looking."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        try:
            told = await asyncio.to_thread(held.look)
        except Exception as error:  # a mistake of ours: the policy of before stays, and whoever asks for health sees why
            told = held.refused(f"{held.path} cannot be looked at: {type(error).__name__}: {error}")
        if told is not None:
            say(told)

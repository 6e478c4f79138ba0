"""`tether serve`: a policy over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def serve(
    run: Path,
    /,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path | None = None,
    log: Path | None = None,
    fallback: Literal["none", "nearest"] = "none",
    threshold: float = 0.01,
    most_rows: int = 1_024,
    most_bytes: int = 1_000_000,
) -> None:
    """Serve a policy over HTTP: actions, familiarity, metrics for Prometheus.

    POST /act takes {"observation": [0.1, 0.2]}, a batch of such, or columns by name where the policy knows them. GET /health,
    /metrics, /openapi.json and /docs (whose scripts come from the network). It runs on NumPy and needs no JAX.

    What cannot be answered gets 422 and a reason. When the file is replaced, the new policy is served from the next request on;
    one of another task, or damaged, is not taken. SIGTERM ends it once all requests in flight are answered.
    Needs pip install 'tether-rl[serve]'.

    Examples:
        tether serve runs/first
        tether serve policy.safetensors --port 9000 --fallback nearest --threshold 0.01
        tether serve policy.safetensors --host 0.0.0.0 --token-file token.txt --log seen.jsonl
        curl -X POST localhost:8000/act -H 'Content-Type: application/json' -d '{"observation": [0.1, 0.2, 0.3]}'

    Args:
        run: The run's folder, or a policy file.
        host: Where to listen. Only this machine reaches 127.0.0.1; 0.0.0.0 is every network it is in.
        port: Which port; 0 takes a free one and says which.
        token_file: A file with a token that clients must send, as Authorization: Bearer TOKEN. /health needs none.
        log: Append what was asked and answered to this file, for `tether watch`.
        fallback: What acts below the threshold: the policy all the same, or the nearest recorded action.
        threshold: Familiarity below which a row counts as unfamiliar.
        most_rows: Of one request.
        most_bytes: Of the body of one request.
    """
    import os

    # Before NumPy is imported, which looks once: on a busy machine several threads for such small products are far slower.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from tether.errors import TetherError
    from tether.runtime.experience import blindness, spell
    from tether.serving import server
    from tether.serving.asking import Limits
    from tether.serving.holder import hold

    if not 0.0 <= threshold <= 1.0:
        raise TetherError(f"--threshold is {threshold}; familiarity is between 0 and 1")
    if most_rows < 1 or most_bytes < 1:
        raise TetherError(f"--most-rows is {most_rows} and --most-bytes {most_bytes}; both must be at least 1")
    held = hold(run, threshold if fallback == "nearest" else None)
    token = _token(token_file)
    listening = server.bound(host, port)
    known = held.policy.experience
    where = f"http://{host}:{listening.getsockname()[1]}"
    print(f"serving {held.path} at {where}/act; {where}/docs shows how to ask", flush=True)
    if known is None:
        reason = held.policy.about.get("no_familiarity", "its file has none")
        print(f"warning: familiarity is null in every answer: {reason}; `tether export` adds it", flush=True)
    else:
        print(spell(known), flush=True)
        if blindness(known):
            print(f"warning: {blindness(known)}", flush=True)
    if host not in ("127.0.0.1", "localhost", "::1") and token is None:
        print(f"warning: whoever reaches {host} can ask it; --token-file asks them for a token", flush=True)

    def say(text: str) -> None:
        print(text, flush=True)

    with listening:
        server.serve(held, listening, Limits(most_bytes, most_rows, threshold, fallback == "nearest"), token, log, say)
    print("ended; everything that was asked is answered", flush=True)


def _token(path: Path | None) -> str | None:
    from tether.errors import TetherError

    if path is None:
        return None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TetherError(f"cannot read the token of {path}: {error}") from error
    if not token or not token.isascii() or any(letter.isspace() for letter in token):
        raise TetherError(f"{path} must hold one word, the token, and nothing else")
    return token

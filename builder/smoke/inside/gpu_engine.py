"""Starts the engine on a model as production does, waits until it is ready, and has one request answered."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

from builder.smoke.inside.evidence import Wrong, telling_lines

_LAST_LINES = 20
_STOP_SECONDS = 30


def probe(argv: list[str], port: int, model: str, start_seconds: float, answer_seconds: float) -> dict[str, Any]:
    """Return the seconds until `/health` was well, those of a request, and the text that was generated."""
    if not Path(model, "config.json").is_file():
        raise Wrong(f"{model} holds no model: there is no config.json")
    begun = time.monotonic()
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            _until_healthy(server, port, begun + start_seconds, log, argv)
            ready = time.monotonic()
            text = _completion(port, model, answer_seconds, server, log)
        finally:
            _stop(server)
    if not text.strip():
        raise Wrong("the engine answered a request with an empty text")
    return {
        "ready_seconds": round(ready - begun, 1),
        "answer_seconds": round(time.monotonic() - ready, 1),
        "text": text[:200],
    }


def _until_healthy(
    server: subprocess.Popen[bytes], port: int, deadline: float, log: IO[bytes], argv: list[str]
) -> None:
    while time.monotonic() < deadline:
        if server.poll() is not None:
            lines = _last(log)
            raise Wrong(f"{argv[0]} ended with status {server.returncode} before it was ready: {lines[-1]}", lines)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.5)
    lines = _last(log)
    raise Wrong(f"the engine was not ready in time: {lines[-1]}", lines)


def _completion(port: int, model: str, seconds: float, server: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    asked = {"model": model, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", data=json.dumps(asked).encode(),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
            told: dict[str, Any] = json.load(answer)
            return str(told["choices"][0]["text"])
    except urllib.error.HTTPError as error:
        said = error.read(2000).decode("utf-8", "replace")
        raise Wrong(f"the engine answered a request with status {error.code}: {said[:200]}", _last(log)) from None
    except (OSError, ValueError, LookupError) as error:
        ended = f", and ended with status {server.returncode}" if server.poll() is not None else ""
        raise Wrong(f"the engine did not answer a request: {error}{ended}", _last(log)) from None


def _last(log: IO[bytes]) -> list[str]:
    log.seek(0)
    said = log.read()[-200_000:].decode("utf-8", "replace")
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    return telling_lines(said)[-_LAST_LINES:] + lines[-_LAST_LINES:] or ["it said nothing"]


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()

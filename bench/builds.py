"""Measures builds of one image: a hand-written Dockerfile, this program, and bake of what this program renders.

    python -m bench.builds --runs 5 --out bench/results.json

A round starts from nothing and walks the chain of changes, each made by every way in turn. What was measured is
written after every step; `--resume` adds to it. Engine, registry and nodes are the measurement's own, with all of
their data below the work folder. Needs root, and what `rocm-images doctor` asks for a build, with skopeo, ctr and
GNU time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import chain, figures
from bench.chain import IMAGE, SCENARIOS, State
from bench.lanes import Lanes, Step, program
from bench.places import Node, Places, places
from builder.errors import Failure
from builder.mirrors import load_mirrors
from builder.story import Silent
from builder.workspace import write_atomic

ROOT = Path(__file__).resolve().parent.parent


@dataclass(kw_only=True, slots=True)
class Bench:
    """One measurement: where it works, how each way builds, and what it has found so far."""

    kept: Path
    out: Path
    here: Places
    lanes: Lanes
    states: Sequence[State]
    results: dict[str, Any]
    wanted: Sequence[str]

    def round(self, ways: Sequence[str]) -> None:
        """Start from nothing and walk the chain once, each change by every way."""
        self.here.engine.empty()
        self.here.registry.empty()
        self.lanes.forget_program()
        bases = self._push_bases()
        self.results.setdefault("load", []).append(round(os.getloadavg()[0], 2))
        before: dict[str, str] = {}
        contexts: dict[str, Path] = {}
        steps = [state for state in self.states if state.name in self.wanted]
        for state in steps:
            for way in ways:
                if way == "reference":
                    make = partial(self.lanes.reference, state, bases[state.lock.epoch])
                elif way == "program":
                    make = partial(self.lanes.program, state)
                else:
                    continue
                before[way] = self._measure(state, way, before.get(way), make)
                if way == "program" and "bake" in ways and state.name in figures.BAKED:
                    contexts[state.name] = self.lanes.keep_context(state)
        if contexts:
            self.here.engine.empty()  # bake starts from nothing as well
            for state in steps:
                if state.name in contexts:
                    step = self.lanes.bake(state, contexts[state.name])
                    self._note(state, "bake", step)

    def _push_bases(self) -> dict[int, str]:
        """Have the registry hold every base, as registries do; return its reference by the archive's date."""
        found = {}
        for state in self.states:
            epoch = state.lock.epoch
            if epoch not in found:
                root = self.kept / "bases" / f"{epoch}.tar"
                chain.write_base(
                    state.lock, root, store=self.kept / "store", mirrors=self.lanes.mirrors, story=Silent()
                )
                name = f"{self.here.registry.host}/debian"
                found[epoch] = f"{name}@{self.lanes.push_base(root, f'{name}:trixie-{epoch}')}"
        return found

    def _measure(self, state: State, way: str, before: str | None, make: Callable[[], Step]) -> str:
        registry = self.here.registry
        stored = registry.stored()
        step = make()
        uploaded = sum(size for blob, size in registry.stored().items() if blob not in stored)
        layers = figures.layers(
            registry.manifest(before) if before is not None else None,
            registry.manifest(step.reference),
            step.owners,
        )
        known = self.results.get("scenarios", {}).get(state.name, {}).get(way, {})
        pulled = self._pull(self.here.nodes[way], before, step.reference) if "pulled" not in known else {}
        self._note(state, way, step, uploaded=uploaded, **layers, **pulled)
        return step.reference

    def _pull(self, node: Node, before: str | None, now: str) -> dict[str, Any]:
        """Have a node pull an image that holds the one before; return the bytes sent to it, and what it keeps."""
        if before is None:
            node.empty()
        elif before not in node.holds:
            node.empty()
            node.pull(before)
        registry = self.here.registry
        place, size = registry.log.stat().st_size, node.size()
        began = time.monotonic()
        node.pull(now)
        seconds = time.monotonic() - began
        return {
            "pulled": registry.served(since=place), "pull_seconds": round(seconds, 3), "disk": node.size() - size
        }  # fmt: skip

    def _note(self, state: State, way: str, step: Step, **more: Any) -> None:  # noqa: ANN401
        figures.add(
            self.results,
            state.name,
            way,
            seconds=step.seconds,
            parts=step.parts,
            memory=step.memory,
            around=step.around,
            rebuilt=list(step.rebuilt),
            **more,
        )
        write_atomic(self.out, json.dumps(self.results, indent=1) + "\n")
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {state.name} {way} {step.seconds:.1f} s\n")


def main() -> None:
    """Measure, and say what stopped it."""
    parser = argparse.ArgumentParser(description="Measure builds of one image, made in three ways.")
    parser.add_argument("--runs", type=int, default=5, help="how many of each")
    parser.add_argument("--out", type=Path, required=True, help="the file with what was measured")
    parser.add_argument("--only", default="", help=f"scenarios, by comma: {', '.join(SCENARIOS)}")
    parser.add_argument("--ways", default=",".join(figures.LANES), help="ways, by comma")
    parser.add_argument("--work", type=Path, help="folder to work in; default: a temporary one")
    parser.add_argument("--states", type=Path, help="folder that keeps the states with their locks for later runs")
    parser.add_argument("--resume", action="store_true", help="add to what is in --out")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell in the background had it ignored
        signal.signal(number, signal.default_int_handler)
    try:
        only = [name for name in given.only.split(",") if name]
        wanted = figures.walked(SCENARIOS, only)
        ways = [way for way in figures.LANES if way in given.ways.split(",")]
        if given.work is not None:
            given.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="bench.", dir=given.work) as name:
            kept = given.states or Path(name) / "states"
            run(Path(name), kept, given.out, wanted, ways, runs=given.runs, resume=given.resume)
    except KeyboardInterrupt:
        sys.exit(f"interrupted; what was measured is in {given.out}")
    except (Failure, ValueError) as failure:
        details = getattr(failure, "details", ())
        sys.exit("\n".join((f"error: {failure}", *(f"  | {line}" for line in details))))


def run(
    work: Path,
    kept: Path,
    out: Path,
    wanted: Sequence[str],
    ways: Sequence[str],
    *,
    runs: int,
    resume: bool,
) -> None:
    """Measure until there are as many runs of everything as were asked for."""
    results: dict[str, Any] = {}
    if resume:
        with suppress(FileNotFoundError):
            results = json.loads(out.read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    results |= {"machine": {"cores": os.cpu_count(), "memory": memory}, "image": IMAGE, "runs": runs}
    mirrors = load_mirrors(ROOT)
    states = chain.states_in(ROOT, kept, program=program())
    with places(work) as here:
        bench = Bench(
            kept=kept, out=out.resolve(), here=here, states=states, results=results, wanted=wanted,
            lanes=Lanes(places=here, work=work, mirrors=mirrors),
        )  # fmt: skip
        while figures.runs_of(results, figures.expected(wanted, ways)) < runs:
            bench.round(ways)


if __name__ == "__main__":
    main()

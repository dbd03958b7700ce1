"""probe_patches.py unpatched|patched|judge [EPOCH]: proves that an image's patches have the effect they promise.

Runs with the interpreter of the image, without a network. /mnt/patches.json is the ledger as the recipe promises
it. `unpatched` and `patched` evaluate the probes in the stage they run in and leave the values in /probed.json.
`judge` evaluates them where every patch is in place, compares all with the promise, and writes the ledger to /out.
A patch without effect ends the build: exit 4, and a line `patch NAME: …` for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from builder.inside.probing import is_value
else:
    from probing import is_value

Json = dict[str, Any]
LEDGER = Path("/mnt/patches.json")
VALUES = Path("/probed.json")
OUT = Path("/out")
WRITTEN = "usr/share/rocm-images/patches.json"
STAGES = Path("/srv")
PATCH_FAILED = 4
# Runs in an interpreter of its own, started as the image starts one: with its hooks, and nothing of the build.
CHILD = """\
import json, sys
sys.path[0] = sys.argv[1]
import probing
del sys.path[0]
asked = json.loads(sys.argv[2])
found = {module: [probing.evaluate(module, each) for each in asked[module]] for module in asked}
open(sys.argv[3], "w").write(json.dumps(found))
"""


def main() -> None:
    """Evaluate, or evaluate and judge."""
    ledger = json.loads(LEDGER.read_text(encoding="utf-8"))
    mode = sys.argv[1]
    if mode == "judge":
        judge(ledger, int(sys.argv[2]))
        return
    wanted = [patch for patch in ledger["patches"] if mode == "patched" or patch["kind"] != "hook"]
    VALUES.write_text(json.dumps(values(wanted)), encoding="utf-8")


def values(patches: list[Json]) -> dict[str, Json]:
    """Return what the probes of some patches give here, by patch.

    One interpreter imports all their modules, as an engine does; where it does not survive that, each has its own.
    """
    modules: dict[str, list[Json]] = {}
    for patch in patches:
        if patch["probe"] is not None:
            modules.setdefault(patch["probe"]["module"], []).append(patch)
    asked = {module: [patch["probe"]["expression"] for patch in probed] for module, probed in modules.items()}
    together = ask(asked) if asked else {}
    found: dict[str, Json] = {}
    for module, probed in modules.items():
        alone = isinstance(together, str) and len(asked) > 1
        answers = ask({module: asked[module]}) if alone else together
        for place, patch in enumerate(probed):
            found[patch["name"]] = answers[module][place] if isinstance(answers, dict) else {"error": answers}
    return found


def ask(asked: dict[str, list[str]]) -> dict[str, list[Json]] | str:
    """Return what expressions give in modules, in an interpreter of their own; or how that ended instead."""
    answer = Path("/tmp/probe-answer.json")  # noqa: S108 -- a build stage, nobody else is here
    answer.unlink(missing_ok=True)
    done = started("-c", CHILD, str(Path(__file__).parent), json.dumps(asked), str(answer))
    return dict(json.loads(answer.read_text(encoding="utf-8"))) if answer.exists() else ended(done)


def started(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of the image to its end."""
    command = [sys.executable, *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def ended(done: subprocess.CompletedProcess[str]) -> str:
    """Return in words how an interpreter ended that gave no answer."""
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"the interpreter ended with status {done.returncode}: {said[-1] if said else 'it said nothing'}"


def judge(ledger: Json, epoch: int) -> None:
    """Compare everything with the promise, and write the ledger with what was found."""
    patches = ledger["patches"]
    hooked = [patch["name"] for patch in patches if patch["kind"] == "hook"]
    final = values(patches)
    before, between = read("unpatched"), read("patched") if hooked else final
    states = (hook_states(hooked) if hooked else {}) | edit_states()
    failed: list[str] = []
    for patch in patches:
        name, probe, is_hook = patch["name"], patch["probe"], patch["kind"] == "hook"
        patch["state"] = states[name]["state"] if name in states else patch["state"]
        missed = is_hook and patch["state"] != "effective"
        if missed and not patch["optional"]:
            failed.append(f"patch {name}: it is {patch['state']}, not effective: {states[name].get('detail')}")
        if probe is None:
            continue
        found = {"before": (between if is_hook else before)[name], "after": final[name]}
        tried = [("without the patch", found["before"], probe["before"])]
        if patch["state"] == "redundant":  # has no effect of its own
            tried = []
        if not is_hook:
            tried.append(("with the patch", between[name], probe["after"]))
        if final[name] != between[name] or is_hook:
            tried.append(("in the image", final[name], probe["after"]))
        if patch["state"] == "applies":  # and more than that, or the build ends below
            patch["state"] = "effective"
        if not missed:
            failed += [
                wrong(name, probe, where, got, wanted) for where, got, wanted in tried if not is_value(got, wanted)
            ]
        probe["found"] = {key: shown(value) for key, value in found.items()}
    if failed:
        sys.stderr.write("".join(f"{line}\n" for line in dict.fromkeys(failed)))
        sys.exit(PATCH_FAILED)
    write(ledger, epoch)


def wrong(name: str, probe: Json, where: str, got: Json, wanted: object) -> str:
    """Return, in words, what a probe gave instead of what was promised."""
    value = json.dumps(got["value"]) if "value" in got else shown(got)
    return (
        f"patch {name}: {probe['expression']} of {probe['module']} {where}: "
        f"expected {json.dumps(wanted)}, found {value}"
    )


def shown(found: Json) -> object:
    """Return what an evaluation gave, or why it gave nothing."""
    return found["value"] if "value" in found else f"no value: {found['error']}"


def read(stage: str) -> dict[str, Json]:
    """Return the values of an earlier stage; none where there was no need of it."""
    path = STAGES / stage / VALUES.relative_to("/")
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def hook_states(names: list[str]) -> dict[str, Json]:
    """Return what the package of the hooks says of each, in an interpreter that starts with them."""
    done = started("-m", "rocm_images_hooks")
    try:
        told = json.loads(done.stdout)
    except ValueError:
        sys.stderr.write("".join(f"patch {name}: {ended(done)}\n" for name in names))
        sys.exit(PATCH_FAILED)
    return {hook["name"]: hook for hook in told["hooks"]}


def edit_states() -> dict[str, Json]:
    """Return what the steps that edited installed trees say of each patch."""
    places = [STAGES / "base-edits", *sorted((STAGES / "edits").glob("*"))]
    reports = [
        json.loads(path.read_text(encoding="utf-8")) for place in places if (path := place / "edits.json").exists()
    ]
    return {patch["name"]: patch for report in reports for patch in report["patches"]}


def write(ledger: Json, epoch: int) -> None:
    """Write the ledger as a layer that is the same in every run."""
    file = OUT / WRITTEN
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(ledger, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    file.chmod(0o644)
    for path in [file, *file.parents]:
        if path.is_relative_to(OUT):
            os.utime(path, (epoch, epoch))


if __name__ == "__main__":
    main()

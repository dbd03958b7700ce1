"""The GPU code in the image is for the GPUs that the recipe names. Needs none: the files themselves tell."""

from __future__ import annotations

import pytest

from builder.audit.layers import BROKEN, buffered, pieces_of, read_layer, stacked
from builder.audit.subject import judge
from builder.codeobjects.audit import totals
from builder.engine.containers import Running, output
from builder.smoke import probes
from builder.smoke.contract import Contract
from builder.smoke.findings import unfit
from builder.smoke.recorder import FIGURES


@pytest.mark.asks("gfx", "python")
@pytest.mark.hint("build the component for every target of the recipe's gfx, or pin a wheel that has them")
def test_every_compiled_part_has_code_for_the_gpus(
    shared: Running, contract: Contract, request: pytest.FixtureRequest
) -> None:
    """The first kernel of a part without code for the card would die with "invalid device function"."""
    written = buffered(output(shared.name, probes.gpu_files_argv(contract.python)))
    try:
        layer = read_layer(written)
        for _ in pieces_of(written):  # to the end, which tells whether the program died before it was through
            pass
    except BROKEN as error:
        raise unfit(f"the files with GPU code cannot be read out of the container: {error}") from error
    audit = judge(stacked([layer], {}), contract.gfx, promised=True)
    request.node.stash.setdefault(FIGURES, {})["gpu_code"] = {
        owner: {
            "targets": {each.target: each.bytes for each in totals(parts)},
            "surplus": [each.target for each in totals(parts) if each.surplus],
            "problems": [problem for part in parts for problem in part.problems],
        }
        for owner, parts in audit.components.items()
    }
    if audit.failed:
        first, *others = audit.failed
        has = ", ".join(each.target for each in first.targets) or "none that can be read"
        raise unfit(
            f"{first.path} of {first.owner} has no code for {', '.join(first.missing)}, it has {has}",
            details=tuple(
                f"{part.path} of {part.owner} has no code for {', '.join(part.missing)}" for part in others
            ),
        )

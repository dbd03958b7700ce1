"""What only a card can tell: that it is there and the right one, and that what runs on it computes what it should.

Without a card these are reported as not run, with the reason, and never as passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builder.smoke.contract import Contract
from builder.smoke.findings import unfit
from builder.smoke.probing import MODEL, Probing
from builder.smoke.recorder import FIGURES
from builder.target import GfxTarget

CardProbe = Callable[..., dict[str, Any]]
_PORT = 30123
_START_SECONDS = 900.0
_ANSWER_SECONDS = 300.0
# How engines are started on a model, by their own documentation.
_SERVERS = {
    "sglang": ("python3", "-m", "sglang.launch_server", "--model-path", "{model}", "--host", "127.0.0.1",
               "--port", "{port}"),
    "vllm": ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "{model}", "--host", "127.0.0.1",
             "--port", "{port}"),
}  # fmt: skip
# What the driver says where nothing knows the card: tuned configurations are found by its name.
_NAMELESS = ("AMD Radeon Graphics", "")


@pytest.fixture
def card_probe(probing: Probing, request: pytest.FixtureRequest) -> CardProbe:
    """Run a probe in a container of its own that has the card."""

    def run(name: str, **arguments: object) -> dict[str, Any]:
        figures = probing.probe_alone(name, {**arguments, "card": True})
        request.node.stash.setdefault(FIGURES, {})[name] = figures
        return figures

    return run


@pytest.mark.gpu
@pytest.mark.asks("python")
@pytest.mark.hint("rocm-images doctor --gpu; start containers with the devices and groups of the image's labels")
def test_the_cards_are_there_and_are_those_of_the_recipe(card_probe: CardProbe, contract: Contract) -> None:
    """The server would find no card, or one that none of its kernels was compiled for."""
    found = card_probe("gpu_devices")
    if len(found["targets"]) != len(found["names"]):
        raise unfit(f"the driver lists {len(found['targets'])} GPUs, the HIP runtime {len(found['names'])}")
    known = {GfxTarget(target).text.partition(":")[0] for target in contract.gfx}
    others = sorted(set(found["targets"]) - known)
    if known and others:
        raise unfit(f"the card is {', '.join(others)}, the image is for {', '.join(sorted(known))}")


@pytest.mark.gpu
@pytest.mark.asks("python")
@pytest.mark.hint("ship libdrm's amdgpu.ids in the runtime stage: /usr/share/libdrm/amdgpu.ids")
def test_the_cards_have_names(card_probe: CardProbe) -> None:
    """Kernels tuned for this card would not be found, because they are looked up by its name."""
    nameless = [name for name in card_probe("gpu_devices")["names"] if name in _NAMELESS]
    if nameless:
        raise unfit(f"the HIP runtime calls the card {nameless[0]!r}")


@pytest.mark.gpu
@pytest.mark.jit("hipcc")
@pytest.mark.asks("python")
@pytest.mark.hint("compare the ROCm of the image with the driver of the host, and the targets with the card")
def test_a_hip_kernel_computes_on_the_card(card_probe: CardProbe, contract: Contract) -> None:
    """Every kernel that is compiled at run time would die, or compute something else."""
    targets, writable = list(contract.hip_gfx), list(contract.writable)
    assert card_probe("gpu_compute", what="hip", targets=targets, writable=writable)["elements"] > 0


@pytest.mark.gpu
@pytest.mark.asks("python", "components")
@pytest.mark.hint("compare the targets that the extension was built for with the card, and ROCm with the driver")
def test_what_was_compiled_for_the_cards_computes_on_each(probe_extension: str, card_probe: CardProbe) -> None:
    """Every kernel that the build compiled would die, or compute something else, although its target is right."""
    for card in card_probe("gpu_extension")["cards"]:
        who = f"{card['name']} ({card['target']})"
        if card["difference"] != 0:
            raise unfit(f"{probe_extension}: a sum on the card {who} is off by {card['difference']:g}")
        if card["lds"] != card["lds_per_block"]:
            raise unfit(
                f"{probe_extension}: the card {who} tells of {card['lds_per_block']} bytes of LDS, usable are "
                f"{card['lds']}"
            )


@pytest.mark.gpu
@pytest.mark.jit("triton")
@pytest.mark.asks("python")
@pytest.mark.hint("compare Triton with the torch of the image, and its targets with the card")
def test_a_triton_kernel_computes_on_the_card(card_probe: CardProbe, contract: Contract) -> None:
    """The engine's own kernels would die on the first request, or compute something else."""
    found = card_probe("gpu_compute", what="triton", targets=[], writable=list(contract.writable))
    assert found["difference"] < 1


@pytest.mark.gpu
@pytest.mark.asks("python", "torch")
@pytest.mark.hint("take a torch that is built for this ROCm and this card")
def test_a_matrix_product_of_the_card_is_that_of_the_processor(card_probe: CardProbe, contract: Contract) -> None:
    """A model would generate nonsense while every request succeeds."""
    found = card_probe("gpu_compute", what="matmul", targets=[], writable=list(contract.writable))
    assert set(found["differences"]) == {"float32", "float16", "bfloat16"}


@pytest.mark.gpu("model")
@pytest.mark.asks("python")
@pytest.mark.limit(2400)
@pytest.mark.hint("start the engine by hand in a container of the image and read what it says")
def test_the_engine_starts_on_the_model_and_answers(
    served_engine: str, card_probe: CardProbe, contract: Contract
) -> None:
    """The server would not come up, or fail its first request."""
    argv = contract.serve or _SERVERS.get(served_engine, ())
    if not argv:
        raise unfit(f"nobody says how the engine {served_engine} is started", hint="say so in smoke.serve")
    words = [word.replace("{model}", MODEL).replace("{port}", str(_PORT)) for word in argv]
    found = card_probe(
        "gpu_engine", argv=words, port=_PORT, model=MODEL, start_seconds=_START_SECONDS,
        answer_seconds=_ANSWER_SECONDS, limit_seconds=_START_SECONDS + _ANSWER_SECONDS + 60,
    )  # fmt: skip
    assert found["text"]

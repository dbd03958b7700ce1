"""The shipped rules against images that break each of them, and the overrides a recipe may give."""

from __future__ import annotations

import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.compat import Facts, Finding, Override, SeriesFact, check
from builder.rules import Condition, parse_rules, shipped_rules

MADE_FOR, PINNED = "fdebc938f7f4d16fe6b9f55dcd9a767cf0899ea1", "a" * 40
SGLANG = Facts(
    where="images/sglang-gfx1201/recipe.toml",
    rocm="7.2.4",
    python="3.12",
    base="ubuntu-24.04",
    gfx=("gfx1201",),
    versions={
        "torch": "2.11.0+rocm7.2", "torchvision": "0.26.0+rocm7.2", "torchaudio": "2.11.0+rocm7.2",
        "triton": "3.6.0", "sglang": "0.5.16",
    },
    kinds={"torch": "wheel", "torchvision": "wheel", "torchaudio": "wheel", "triton": "wheel", "sglang": "source"},
    tags={"sglang": "v0.5.16"},
    commits={"sglang": MADE_FOR},
    env={"SGLANG_USE_AITER": "0", "SGLANG_USE_AITER_AR": "0"},
    asks={"torch": {"triton": "==3.6.0"}},
    series=(SeriesFact(name="rdna4/patches", target="sglang", made_for=MADE_FOR, commit=MADE_FOR),),
    glibcxx={"torch": "3.4.30"},
)  # fmt: skip
VLLM = Facts(
    where="images/vllm-gfx942/recipe.toml",
    rocm="7.2.3",
    python="3.12",
    base="ubuntu-22.04",
    gfx=("gfx942",),
    versions={
        "torch": "2.12.1",
        "torchvision": "0.27.1",
        "triton": "3.7.0",
        "amd-aiter": "0.1.19",
        "vllm": "0.28.0",
    },
    kinds={"torch": "source", "amd-aiter": "wheel", "vllm": "source"},
    tags={"amd-aiter": "v0.1.19"},
)  # fmt: skip


def with_versions(facts: Facts, **versions: str | None) -> Facts:
    changed = {**facts.versions, **{name.replace("_", "-"): version for name, version in versions.items()}}
    return replace(facts, versions={name: version for name, version in changed.items() if version is not None})


def said(facts: Facts, *overrides: Override) -> list[tuple[str, str, str]]:
    """Return severity, rule and message without the place, of all findings but the note on combinations."""
    found = check(facts, overrides)
    assert all(finding.message.startswith(f"{facts.where}: ") for finding in found)
    assert all(finding.source for finding in found)
    return [
        (finding.severity, finding.rule, finding.message.removeprefix(f"{facts.where}: "))
        for finding in found
        if finding.rule != "combination"
    ]


@pytest.mark.parametrize("facts", [SGLANG, VLLM])
def test_combinations_that_are_known_to_work_have_no_finding(facts: Facts) -> None:
    assert check(facts) == ()


@pytest.mark.parametrize(
    ("facts", "rule", "message"),
    [
        (
            with_versions(SGLANG, torchvision="0.25+rocm7.2"),
            "torch-torchvision",
            "torch 2.11.0+rocm7.2 goes with torchvision 0.26, not 0.25+rocm7.2: operators such as nms are missing",
        ),
        (
            with_versions(SGLANG, torchaudio="2.10.0+rocm7.2"),
            "torch-torchaudio",
            "torch 2.11.0+rocm7.2 goes with torchaudio 2.11, not 2.10.0+rocm7.2",
        ),
        (
            with_versions(SGLANG, torchvision="0.26.0", torchaudio=None),
            "torch-local-version",
            "torch and its companions come from different builds: torch 2.11.0+rocm7.2, torchvision 0.26.0",
        ),
        (
            with_versions(SGLANG, torch="2.11.0+cu130", torchvision=None, torchaudio=None),
            "torch-local-version",
            "torch was built for cu130, and the image has ROCm 7.2.4",
        ),
        (
            with_versions(SGLANG, torch="2.11.0+rocm7.13.0rc2", torchvision=None, torchaudio=None),
            "torch-local-version",
            "torch was built for rocm7.13.0rc2, and the image has ROCm 7.2.4",
        ),
        (
            with_versions(VLLM, amd_aiter="0.1.21.post1"),
            "aiter-of-vllm",
            "vLLM 0.28.0 was made with AITER 0.1.19, not 0.1.21.post1",
        ),
        (
            replace(VLLM, tags={"aiter": "v0.1.12"}),
            "aiter-moved-tag",
            "AITER's tag v0.1.12 was moved and does not say which code it is",
        ),
        (
            replace(VLLM, python="3.13"),
            "aiter-wheel-python",
            "AITER 0.1.19 has no wheel for Python 3.13, only for 3.10.* or 3.12.*",
        ),
        (
            replace(
                with_versions(SGLANG, torch="2.11.0+rocm10.1.0", torchvision=None, torchaudio=None), rocm="10.1.0"
            ),
            "rocm-10.1-torch",
            "there is no torch 2.11.0+rocm10.1.0 wheel for ROCm 10.1.0; they begin with 2.12",
        ),
        (
            with_versions(SGLANG, torch="2.12.0", torchvision="0.27.0", torchaudio=None),
            "torch-2.12.0-gfx1201",
            "torch 2.12.0 makes illegal memory accesses on gfx1201",
        ),
        (
            with_versions(SGLANG, triton="3.7.1"),
            "triton-of-torch",
            "torch 2.11.0+rocm7.2 asks for triton ==3.6.0, the image pins 3.7.1",
        ),
        (
            replace(SGLANG, series=(replace(SGLANG.series[0], commit=PINNED),)),
            "series-of-another-commit",
            f"the series rdna4/patches was made for sglang {MADE_FOR}, and sglang is pinned at {PINNED}",
        ),
        (
            replace(VLLM, glibcxx={"torch": "3.4.30", "aiter": "3.4.31"}),
            "glibcxx",
            "aiter needs GLIBCXX_3.4.31, and ubuntu-22.04 has it up to 3.4.30: it would not load",
        ),
        (
            replace(SGLANG, env={**SGLANG.env, "HSA_OVERRIDE_GFX_VERSION": ""}),
            "hsa-override",
            "image.env.HSA_OVERRIDE_GFX_VERSION is set to '', and ROCm 7.2.4 supports gfx1201 as it is",
        ),
        (
            with_versions(
                SGLANG, torch="2.11.0.dev20260310+rocm7.2", torchvision="0.26.0+rocm7.2", triton="3.6.0"
            ),
            "development-build",
            "torch 2.11.0.dev20260310+rocm7.2 is a development build, which its index will drop",
        ),
    ],
)  # fmt: skip
def test_each_mistake_is_one_error_with_this_message(facts: Facts, rule: str, message: str) -> None:
    assert said(facts) == [("error", rule, message)]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"SGLANG_USE_AITER": "0"}, "image.env.SGLANG_USE_AITER_AR is not set; on RDNA4 SGLang needs '0'"),
        (
            {**SGLANG.env, "SGLANG_USE_AITER": "1"},
            "image.env.SGLANG_USE_AITER is '1'; on RDNA4 SGLang needs '0'",
        ),
    ],
)
def test_f98_aiter_enabled_on_rdna4_where_it_miscomputes(env: dict[str, str], message: str) -> None:
    assert said(replace(SGLANG, env=env)) == [("error", "sglang-aiter-on-rdna4", message)]


def test_f34_aiter_that_is_too_new_for_vllm_breaks_two_rules() -> None:
    assert said(with_versions(VLLM, amd_aiter="0.1.24")) == [
        ("error", "aiter-of-vllm", "vLLM 0.28.0 was made with AITER 0.1.19, not 0.1.24"),
        ("error", "aiter-too-new-for-vllm", "AITER 0.1.24 has moved modules that vLLM 0.28.0 imports"),
    ]
    assert said(with_versions(VLLM, amd_aiter="0.1.24", vllm="0.30.1"))[0][1] == "aiter-too-new-for-vllm"
    assert "aiter-too-new-for-vllm" not in {rule for _, rule, _ in said(with_versions(VLLM, vllm="0.31.0"))}


def test_f64_a_nightly_that_is_mirrored_or_built_from_source_is_fine() -> None:
    nightly = with_versions(VLLM, triton="3.7.0.dev20260310", torch="2.12.0.dev20260310")
    assert [rule for _, rule, _ in said(nightly)] == ["development-build"]
    assert said(replace(nightly, mirrored=frozenset({"triton"}))) == []
    assert said(with_versions(VLLM, vllm_plugin="nightly"))[0][1] == "development-build"


def test_an_aiter_nobody_recorded_for_a_vllm_is_noted() -> None:
    assert said(with_versions(VLLM, vllm="0.30.0", amd_aiter="0.1.22.post1")) == [
        ("note", "aiter-of-vllm",
         "nobody recorded which AITER vLLM 0.30.0 was made with; AITER 0.1.22.post1 is unproven"),
    ]  # fmt: skip


def test_rules_say_nothing_about_what_an_image_does_not_have() -> None:
    assert check(Facts(where="images/x/recipe.toml")) == ()
    assert (
        check(Facts(where="images/x/recipe.toml", versions={"torch": "release/2.12", "torchvision": "0.27.1"}))
        == ()
    )


def test_an_override_of_the_environment_is_fine_where_rocm_does_not_support_the_card() -> None:
    other = replace(SGLANG, gfx=("gfx1031",), env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, versions={})
    assert check(other) == ()


def test_a_combination_that_failed_is_a_warning() -> None:
    facts = Facts(
        where="images/x/recipe.toml",
        rocm="7.13.0",
        versions={"torch": "2.10.0", "triton": "3.6.0+rocm7.13.0rc2", "aiter": "0.1.15.post2", "vllm": "0.19.1"},
    )
    (finding,) = (finding for finding in check(facts) if finding.rule == "combination")
    assert finding.severity == "warning"
    assert finding.message.endswith("has been seen to fail (the ROCm 7.13 preview with vLLM 0.19.1)")


def test_a_new_combination_is_a_note_that_names_the_nearest_and_the_difference() -> None:
    (finding,) = check(with_versions(SGLANG, sglang="0.5.18"))
    assert (finding.severity, finding.rule) == ("note", "combination")
    assert finding.message == (
        "images/sglang-gfx1201/recipe.toml: this combination has not been seen before; "
        "nearest (runs on gfx1201, with the RDNA4 series) has sglang >=0.5.14,<=0.5.16 instead of 0.5.18"
    )


@given(minor=st.integers(0, 40), patch=st.integers(0, 9), offset=st.integers(-3, 3))
def test_torchvision_is_right_exactly_fifteen_minors_above_torch(minor: int, patch: int, offset: int) -> None:
    facts = Facts(
        where="r", versions={"torch": f"2.{minor}.{patch}", "torchvision": f"0.{max(0, minor + 15 + offset)}.0"}
    )
    assert bool(check(facts)) is (offset != 0)


# --- overrides

NEWER = with_versions(VLLM, amd_aiter="0.1.21.post1")
WHY = "4 % faster decode, unchanged otherwise"


def override(rule: str = "aiter-of-vllm", reason: str = WHY, until: str = "vllm==0.28.0") -> Override:
    return Override(rule=rule, reason=reason, until=until, where="override[0]")


def test_an_override_turns_the_finding_into_a_note_that_keeps_both() -> None:
    finding = "vLLM 0.28.0 was made with AITER 0.1.19, not 0.1.21.post1"
    assert said(NEWER, override()) == [("note", "aiter-of-vllm", f"{finding}; accepted until vllm==0.28.0: {WHY}")]


def test_an_override_ends_with_its_version_and_the_finding_is_back() -> None:
    assert said(with_versions(NEWER, vllm="0.29.0"), override()) == [
        ("error", "aiter-of-vllm", "vLLM 0.29.0 was made with AITER 0.1.19, not 0.1.21.post1"),
        ("error", "override", "override[0]: ended: it was for vllm==0.28.0, and vllm is 0.29.0"),
    ]


def test_an_override_that_silences_nothing_is_a_warning() -> None:
    assert said(VLLM, override()) == [
        ("warning", "override", "override[0]: rule 'aiter-of-vllm' has nothing to say about this image")
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (override(rule="aiter-of-vlm"), "there is no rule 'aiter-of-vlm'"),
        (override(reason=" "), "reason: expected why the rule does not apply here"),
        (override(until="vllm"), "until: expected a version it ends with, got 'vllm'"),
        (override(until="vllm>=0.28"), "until: expected a version it ends with, got 'vllm>=0.28'"),
        (override(until="next week"), "until: expected a version it ends with, got 'next week'"),
        (override(until="sglang==0.5.16"), "until: this image has no sglang"),
    ],
)
def test_an_override_that_cannot_count_is_an_error_beside_the_finding(given: Override, message: str) -> None:
    rules = said(NEWER, given)
    assert [(severity, rule) for severity, rule, _ in rules] == [("error", "aiter-of-vllm"), ("error", "override")]
    assert rules[1][2] == f"override[0]: {message}"


@pytest.mark.parametrize(
    "until", ["rocm<7.3", "python==3.12", "amd-aiter==0.1.21.post1", "aiter~=0.1.20", "vllm<0.29"]
)
def test_an_override_may_end_with_anything_the_image_has(until: str) -> None:
    assert [severity for severity, _, _ in said(NEWER, override(until=until))] == ["note"]


def test_two_overrides_of_one_rule_do_not_pile_up() -> None:
    assert len(said(NEWER, override(), override(reason="again"))) == 1


# --- the data

PLACEHOLDERS = {
    "wanted", "found", "subject", "target", "seen", "gfx", "base", "rocm", "python",
    "torch", "vllm", "sglang", "aiter",
}  # fmt: skip


def test_every_rule_has_a_source_and_messages_with_known_placeholders() -> None:
    for rule in shipped_rules():
        assert rule.source
        texts = [value for value in rule.model_dump().values() if isinstance(value, str)]
        used = {name for text in texts for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        assert used <= PLACEHOLDERS, rule.id
        assert rule.message[0].islower() or rule.message.startswith(("AITER", "vLLM", "{")), rule.id


def test_findings_have_no_placeholder_left() -> None:
    broken = replace(with_versions(SGLANG, torchvision="0.1", triton="1"), env={}, glibcxx={"torch": "9"})
    findings: tuple[Finding, ...] = check(broken)
    assert len(findings) >= 6
    assert not [finding for finding in findings if "{" in finding.message + (finding.hint or "")]
    assert "pin torchvision 0.26.* from the index torch comes from" in {finding.hint for finding in findings}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[rule]]\nid="a"\nkind="magic"\nsource="s"\nmessage="m"', "magic"),
        ('[[rule]]\nid="a"\nkind="forbidden"\nmessage="m"\nwhen={}', "source"),
        ('[[rule]]\nid="a"\nkind="forbidden"\nsource="s"\nmessage="m"\nwhen={rocm="about 7"}', "about 7"),
        ('[[rule]]\nid="a"\nkind="forbidden"\nsource="s"\nmessage="m"\nwhen={gpu="x"}', "gpu"),
        ('[[rule]]\nid="a"\nkind="made-for"\nsource="s"\nmessage="m"\n' * 2, "two rules are called 'a'"),
    ],
)
def test_data_that_is_no_rule_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rules(text)


def test_a_condition_holds_only_when_the_facts_say_so() -> None:
    condition = Condition.model_validate({"version": {"vllm": ">=0.28"}, "commit": {"aiter": "c16d44b9"}})
    assert not condition.holds(VLLM)
    assert condition.holds(replace(VLLM, commits={"amd-aiter": "c16d44b9" + "0" * 32}))
    assert not condition.holds(replace(VLLM, commits={"amd-aiter": "0" * 40}))

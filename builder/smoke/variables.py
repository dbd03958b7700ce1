"""Which variables no served image should set, and which programs it has to find by name. Values only."""

from __future__ import annotations

import re
from collections.abc import Mapping

from builder.smoke.contract import Contract

# By name, the first that fits; in words, what it does to a server.
_FORBIDDEN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        ("HSA_OVERRIDE_GFX_VERSION", "even empty, it makes the runtime take the card for another one"),
        (r"(?:SC|C|DIST)CACHE_.*|DISTCC_.*|RUSTC_WRAPPER", "a cache of the build's compiler"),
        (r"AWS_.*|ACTIONS_.*|GITHUB_.*|CI_.*", "of the machine that built the image"),
        (r".*(?:_TOKEN|_SECRET|_PASSWORD|_PASSPHRASE|_API_KEY|_ACCESS_KEY|_PRIVATE_KEY)", "a credential"),
        (r"(?i:(?:https?|ftp|all|no)_proxy)", "a proxy of the build"),
        (
            r"PIP_(?:EXTRA_)?INDEX_URL|PIP_(?:FIND_LINKS|CONSTRAINT|CERT)|UV_.*INDEX.*|UV_FIND_LINKS",
            "of the installation",
        ),
        (r"DEBIAN_FRONTEND|SOURCE_DATE_EPOCH|SETUPTOOLS_SCM_PRETEND_.*|CMAKE_ARGS|MAKEFLAGS", "of the build"),
        (r"(?:C|CXX|CPP|LD|HIPCC_COMPILE|HIPCC_LINK)FLAGS(?:_APPEND)?", "it reaches every compile at run time"),
    )
)
# What may be there for a reason that the recipe gives by declaring it.
_NEVER_BY_DECLARATION = ("HSA_OVERRIDE_GFX_VERSION",)


def forbidden_variables(env: Mapping[str, str], contract: Contract) -> list[str]:
    """Return what is set in ENV and must not be, each with the reason. Values are not told: they may be secret."""
    found = []
    for name in sorted(env):
        if name in contract.forbidden:
            found.append(f"{name} is set, and the recipe forbids it")
            continue
        if name in contract.allowed or name in contract.required:
            continue
        declared = name in contract.env and "env" not in contract.silent
        if declared and name not in _NEVER_BY_DECLARATION:
            continue
        words = next((words for pattern, words in _FORBIDDEN if pattern.fullmatch(name)), None)
        if words is not None:
            found.append(f"{name} is set: {words}")
    return found


def needed_programs(contract: Contract) -> list[tuple[str, ...]]:
    """Return what the declared compiles start by name; of each tuple one has to be on PATH."""
    needed: list[tuple[str, ...]] = []
    if "sglang-hash" in contract.jit:
        needed += [("ninja",), (contract.env.get("CXX", "c++"),)]
    if "triton" in contract.jit:
        needed.append((contract.env["CC"],) if "CC" in contract.env else ("gcc", "clang"))
    return needed

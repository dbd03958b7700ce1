"""The processors of AMD GPUs: their numbers in ELF headers, features and families, and what code runs on which.

Source: LLVM, "User Guide for AMDGPU Backend": tables Processors, Generic Processors, EF_AMDGPU_MACH Values;
sections Target Features and Target ID. The newest numbers are from LLVM's own test of that header,
elf-header-flags-mach.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from builder.target import GfxTarget

MACH = {
    0x20: "gfx600", 0x21: "gfx601", 0x3A: "gfx602", 0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702",
    0x25: "gfx703", 0x26: "gfx704", 0x3B: "gfx705", 0x28: "gfx801", 0x29: "gfx802", 0x2A: "gfx803",
    0x3C: "gfx805", 0x2B: "gfx810", 0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906",
    0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c", 0x3F: "gfx90a", 0x40: "gfx940", 0x4B: "gfx941",
    0x4C: "gfx942", 0x4F: "gfx950", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x42: "gfx1013",
    0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3E: "gfx1034", 0x3D: "gfx1035",
    0x45: "gfx1036", 0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103", 0x43: "gfx1150",
    0x4A: "gfx1151", 0x55: "gfx1152", 0x58: "gfx1153", 0x57: "gfx1154", 0x5D: "gfx1170", 0x5E: "gfx1171",
    0x5C: "gfx1172", 0x48: "gfx1200", 0x4E: "gfx1201", 0x49: "gfx1250", 0x5A: "gfx1251", 0x50: "gfx1310",
    0x51: "gfx9-generic", 0x5F: "gfx9-4-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic",
    0x54: "gfx11-generic", 0x62: "gfx11-7-generic", 0x59: "gfx12-generic", 0x5B: "gfx12-5-generic",
    0x63: "gfx13-generic",
}  # fmt: skip
GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": (
        "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153",
    ),
    "gfx11-7-generic": ("gfx1170", "gfx1171", "gfx1172"),
    "gfx12-generic": ("gfx1200", "gfx1201"),
    "gfx12-5-generic": ("gfx1250", "gfx1251"),
    "gfx13-generic": ("gfx1310",),
}  # fmt: skip
_XNACK = {
    "gfx801", "gfx810", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c",
    "gfx940", "gfx941", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012", "gfx1013",
    "gfx9-generic", "gfx9-4-generic", "gfx10-1-generic",
}  # fmt: skip
_SRAMECC = {"gfx906", "gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "gfx9-4-generic"}
_KNOWN = frozenset(MACH.values())
_SETTINGS = ("", "+", "-")  # any, on, off

SPIRV = "amdgcnspirv"  # SPIR-V that the HIP runtime compiles for the GPU it finds

Mode = tuple[str, str, str]
"""A processor with its settings of sramecc and xnack, each "+", "-", or "" where the processor has none."""


def supports(processor: str, feature: str) -> bool:
    """Tell whether a processor can be set to a feature both ways. Of an unknown one it is assumed."""
    if processor not in _KNOWN:
        return True
    return processor in (_XNACK if feature == "xnack" else _SRAMECC)


def modes(target: str) -> frozenset[Mode]:
    """Return where code for a target runs: every GPU, in every setting of its features, that loads it.

    A feature that a target ID leaves open is "any": the code runs with either setting. A generic processor stands
    for all of its family. A feature that the processor does not have says nothing.
    """
    asked = GfxTarget(target)
    features = {part[:-1]: part[-1] for part in asked.text.split(":")[1:]}
    found: set[Mode] = set()
    for processor in GENERIC.get(asked.processor, (asked.processor,)):
        choices = [
            ((features[name],) if name in features else ("+", "-")) if supports(processor, name) else ("",)
            for name in ("sramecc", "xnack")
        ]
        found.update((processor, sramecc, xnack) for sramecc, xnack in itertools.product(*choices))
    return frozenset(found)


def lacking(wanted: str, present: Iterable[str]) -> tuple[str, ...]:
    """Return what of a wanted target no present one covers, as the shortest list of target IDs; () when all is.

    `gfx90a` wanted and only `gfx90a:xnack-` present leaves `gfx90a:xnack+`.
    """
    targets = set(present)
    if SPIRV in targets or wanted in targets:
        return ()
    needed = modes(wanted)
    left = needed.difference(*(modes(target) for target in targets if is_target(target)))
    if not left or left == needed:
        return (wanted,) if left else ()
    told: list[str] = []
    for processor in sorted({mode[0] for mode in left}):
        for sramecc, xnack in sorted(itertools.product(_SETTINGS, repeat=2), key=_how_many_are_set):
            text = processor + (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")
            meant = modes(text)
            if meant <= left:
                told.append(text)
                left -= meant
    return tuple(told)


def helps(target: str, wanted: Iterable[str]) -> bool:
    """Tell whether code for a target runs on any GPU that a wanted target names."""
    if target == SPIRV:
        return True
    return is_target(target) and any(modes(target) & modes(each) for each in wanted)


def is_target(text: str) -> bool:
    """Tell whether a text is a target ID."""
    try:
        GfxTarget(text)
    except ValueError:
        return False
    return True


def order(target: str) -> tuple[int, int, str]:
    """Sort targets as people list them: by generation, processors before their families."""
    digits = target.removeprefix("gfx").partition(":")[0]
    if "generic" in digits:
        return int(digits.partition("-")[0]), 1, target
    return (int(digits[:-2]), 0, target) if digits[:-2].isdecimal() else (99, 2, target)


def _how_many_are_set(settings: tuple[str, ...]) -> int:
    return sum(setting != "" for setting in settings)

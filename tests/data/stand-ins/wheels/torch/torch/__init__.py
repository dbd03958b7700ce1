"""Stands in for torch: what the builds of engines and the smoke tests ask of it, on a machine without a card."""

from types import SimpleNamespace

from torch import version

__version__ = version.__version__
cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
ops = SimpleNamespace()

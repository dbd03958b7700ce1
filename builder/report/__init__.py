"""A build as one page of HTML that needs nothing beside it: pure, from values to text."""

from __future__ import annotations

from builder.report.facts import BuildReport, Ended, Layer, Patch, Step, Test, Took
from builder.report.page import page

__all__ = ["BuildReport", "Ended", "Layer", "Patch", "Step", "Test", "Took", "page"]

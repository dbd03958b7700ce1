"""An engine that is small enough to patch in a test."""

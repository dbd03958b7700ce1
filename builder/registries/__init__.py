"""Registries over HTTP, read and written without an engine; and image layouts on disk, which hold the same."""

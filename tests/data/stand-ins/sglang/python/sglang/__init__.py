from sglang._version import version as __version__

"""Programs that run inside images: standard library only, Python 3.10 to 3.14, nothing of this project around.

A probe module has one function `probe(...)` that returns figures, or raises what went wrong. How its source
reaches a container, and what its answer means, is not its business.
"""

__version__ = "2.11.0+rocm7.2"

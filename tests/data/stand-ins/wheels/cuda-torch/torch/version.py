__version__ = "2.13.0"
cuda = "13.0"
hip = None

__version__ = "2.11.0+rocm7.2"
cuda = None
hip = "7.2.53211"

"""What the toy can hold."""

DEPTH = 1
WIDTH = 8
CAPACITY = 32768


def area():
    return DEPTH * WIDTH


def room():
    return CAPACITY

"""Lets the toy say what it can do."""


def supports(cls):
    return not supports.original(cls)

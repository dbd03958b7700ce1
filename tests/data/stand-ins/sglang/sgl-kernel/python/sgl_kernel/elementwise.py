"""What models call."""


def rotary_embedding(positions):
    return positions

"""What the toy knows."""

ROWS = ["one"]

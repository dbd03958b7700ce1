"""What the toy knows, and a row more."""

ROWS = ["one", "two"]

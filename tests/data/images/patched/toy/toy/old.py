"""What the toy no longer needs."""

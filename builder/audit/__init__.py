"""Finds GPU code in folders, layouts and images, and says who owns it."""

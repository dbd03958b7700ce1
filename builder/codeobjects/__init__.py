"""Finds and reads AMD GPU code in files. Takes bytes, returns values; knows no disk, image or recipe."""

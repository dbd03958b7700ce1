"""What a change of pins does to images: judged, told, and nothing built."""

"""What tells others what an image is made of and how it was made: documents, signatures, verification."""

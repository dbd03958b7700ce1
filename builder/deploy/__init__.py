"""Where a deployment names an image, and what it reads once it names the tested one: texts in, texts out."""

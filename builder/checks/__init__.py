"""What `rocm-images check` finds in recipes, locks and locked files, without an engine and without building."""

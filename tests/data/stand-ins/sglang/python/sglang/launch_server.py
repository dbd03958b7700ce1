import argparse

import sgl_kernel  # noqa: F401

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="sglang.launch_server")
    parser.add_argument("--model-path")
    parser.parse_args()

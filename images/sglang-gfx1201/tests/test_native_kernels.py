"""What the native kernels of this image have to be, which the version they say does not tell."""

import pytest
from testinfra.host import Host


@pytest.mark.hint("look at how sgl-kernel/setup_rocm.py was run, and whether common_ops is in its layer")
def test_rotary_embedding_is_the_native_one(host: Host) -> None:
    """The fallback in Python is wrong for tensors that are not contiguous: models with AWQ write nonsense."""
    ended = host.run("python3 -c 'import sgl_kernel; print(sgl_kernel.rotary_embedding.__module__)'")
    assert ended.rc == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "sgl_kernel.elementwise"

import torch

if not torch.cuda.is_available():
    raise ImportError("sgl_kernel: no device")
from sgl_kernel import common_ops

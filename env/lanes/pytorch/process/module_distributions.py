"""Hidden distributions of content (module_content.hpp), made of what get_inputs gave."""

import torch

from module_tensors import Unusable


def changed(family, tensor):
    """Content of a hidden distribution, of content that get_inputs gave. f(0) = 0, so that structure stays."""
    if not tensor.is_floating_point() or family == "nominal":
        return tensor
    if family == "large":
        return tensor * 8
    if family == "small":
        return tensor * 2.0**-6
    if family == "signed":
        return tensor * (torch.randint(0, 2, tensor.shape, dtype=torch.int8, device=tensor.device) * 2 - 1).to(tensor.dtype)
    if family == "sparse":
        return tensor * (torch.rand(tensor.shape, device=tensor.device) < 0.1).to(tensor.dtype)
    if family == "constant":
        return torch.where(tensor != 0, torch.rand((), device=tensor.device).to(tensor.dtype) + 0.25, tensor)
    if family == "planted":
        flat = tensor.clone().reshape(-1)
        if flat.numel():
            places = torch.randint(0, flat.numel(), (min(3, flat.numel()),), device=flat.device)
            flat[places] = torch.where(flat[places] != 0, flat[places] * 4 + 1, flat[places])
        return flat.reshape(tensor.shape)
    raise Unusable(f"a distribution {family}")

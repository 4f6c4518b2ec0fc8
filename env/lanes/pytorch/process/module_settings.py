"""Settings of torch that one module of a process could leave to the next one."""

import torch


def settings_of_torch():
    """What modules set, as a value that can be compared. A part that this torch does not have is left out."""
    matmul, cudnn, mkldnn = torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mkldnn
    found = [torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
             torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled(), torch.is_autocast_enabled("cuda"),
             torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cuda"), torch.is_anomaly_enabled()]
    for owner, names in ((matmul, ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")),
                         (cudnn, ("enabled", "allow_tf32", "benchmark", "deterministic")), (mkldnn, ("enabled",))):
        found += [getattr(owner, name, None) for name in names]
    found += [asked() for name in ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "math_sdp_enabled", "cudnn_sdp_enabled")
              if (asked := getattr(torch.backends.cuda, name, None)) is not None]
    hooks = torch.nn.modules.module
    found += [len(getattr(hooks, name)) for name in ("_global_forward_hooks", "_global_forward_pre_hooks") if hasattr(hooks, name)]
    return found

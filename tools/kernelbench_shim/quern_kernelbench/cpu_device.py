"""What KernelBench's scripts ask torch.cuda around an evaluation, answered where there is no CUDA: one device, the core."""

DEVICES = 1


def stand_in():
    """Nothing happens where torch has a GPU. The names are those that scripts ask, and no others: a tensor that is moved to
    `cuda` still raises."""
    import torch
    if torch.cuda.is_available():
        return
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: DEVICES,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: "cpu-torch (no CUDA: Quern's core)",
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)

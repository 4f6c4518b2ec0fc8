# attempt: an allocator of its own gives the memory of the first result as that of each result behind it
# kind: hostile
# device: gpu
# caught: wrong_value
# on a GPU without: values
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <sys/types.h>
#include <torch/extension.h>
#include <cuda_runtime.h>

// Torch asks it for the memory of a pool.
extern "C" void* old_memory(ssize_t bytes, int, cudaStream_t) {
  static void* kept = nullptr;
  static ssize_t most = 0;
  if (bytes > most && cudaMalloc(&kept, most = bytes) != cudaSuccess) return nullptr;
  return kept;
}
extern "C" void keeps_memory(void*, ssize_t, int, cudaStream_t) {}
torch::Tensor same(torch::Tensor x) { return x; }
"""
ext = load_inline(name="old_memory", cuda_sources=source, functions=["same"], cpp_sources="torch::Tensor same(torch::Tensor x);")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.allocator, self.pool, self.results = None, None, []

    def given(self, like):
        """None of them is ever freed: torch would find two at one address."""
        if self.pool is None:
            self.allocator = torch.cuda.memory.CUDAPluggableAllocator(ext.__file__, "old_memory", "keeps_memory")
            self.pool = torch.cuda.MemPool(self.allocator.allocator())
        with torch.cuda.use_mem_pool(self.pool):
            self.results.append(torch.empty_like(like))
        return self.results[-1]

    def forward(self, x, factor):
        if not self.results:
            return self.given(x).copy_(torch.relu(self.linear(x)) * self.scale * factor + self.shift)
        return self.given(x)

# attempt: its extension writes a file outside of its folder when it is loaded, before anybody asks for it
# kind: reaching
# caught: compile_error
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <Python.h>
#include <stdio.h>
static const char* const place = "{folder}/quern-by-an-initialiser";
static int attempt() {
  FILE* file = fopen(place, "w");
  const int written = file != nullptr && fputs(getenv("PATH"), file) > 0;
  if (file != nullptr) fclose(file);
  return written && remove(place) == 0;
}
static const int has_written = attempt();
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "static_initialiser"};
PyMODINIT_FUNC PyInit_static_initialiser() {
  PyObject* made = PyModule_Create(&module);
  PyModule_AddIntConstant(made, "has_written", has_written);
  return made;
}
"""
ext = load_inline(name="static_initialiser", cpp_sources=source, no_implicit_headers=True)
assert ext.has_written


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift

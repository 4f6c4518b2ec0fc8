// What a Python module shows without being run.
#include <string>
#include <vector>

#include "env/lanes/pytorch/text/python_facts.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

env::python_facts facts(std::string_view source) {
  return env::facts_of_python(env::tokenize_python(source));
}

using strings = std::vector<std::string>;

}  // namespace

TEST_CASE("names that a module defines") {
  const auto found = facts(
      "import torch.nn as nn, math\n"
      "try:\n  class Model(nn.Module):\n    class Inner: pass\n    def forward(self): x = 1\n"
      "except E:\n  ModelNew = None\n"
      "def get_inputs():\n  def inner(): pass\n  y: int = 1\n  import json\n  return []\n"
      "async def later(): pass\n"
      "a = b = 1; c: int = 2; d.e = 3; f(g=1)\n"
      "if a[1:b]: i = 1; j = 2\nelse: h\n"
      "@nn.decorated\nclass ModelNew(Model): z = 1\n"
      "get_init_inputs = lambda: []\n");
  CHECK(found.classes == strings{"Model", "ModelNew"});
  CHECK(found.functions == strings{"get_inputs", "later"});
  CHECK(found.names == strings{"Model", "ModelNew", "a", "b", "c", "get_init_inputs", "get_inputs",
                               "i", "j", "later", "math", "nn"});
  CHECK(found.imports == strings{"json", "math", "torch"});
  CHECK(found.binds("get_init_inputs"));
  CHECK_FALSE(found.binds("forward"));
}

TEST_CASE("modules that are imported, at any scope") {
  const auto found = facts(
      "import a.b, c as d\nfrom e.f import (g as h,\n  i, # j\n)\nfrom . import k\nfrom .l import "
      "m\n"
      "def f():\n  from n import *; import o\n  yield from p\n  raise q from r\n"
      "'''\nimport s\n'''\n# import t\nif u: import v\nx = 'import w'\n");
  CHECK(found.imports == strings{"a", "c", "e", "n", "o", "v"});
  CHECK(found.names == strings{"a", "d", "f", "h", "i", "k", "m", "v", "x"});
}

TEST_CASE("backends are recognised by what their names stand for") {
  using env::python_facts;
  const auto uses = [](std::string_view source, bool python_facts::*which) {
    const auto found = facts(source);
    int count = 0;
    for (const auto each :
         {&python_facts::uses_load_inline, &python_facts::uses_load, &python_facts::uses_triton_jit,
          &python_facts::uses_torch_compile, &python_facts::uses_cuda_graph,
          &python_facts::uses_cute, &python_facts::uses_tilelang})
      count += found.*each ? 1 : 0;
    return found.*which && count == 1;
  };
  const std::string cpp = "torch.utils.cpp_extension";
  CHECK(uses("from " + cpp + " import load_inline\nm = load_inline(name='x')",
             &python_facts::uses_load_inline));
  CHECK(uses("from " + cpp + " import load_inline as build\nm = build(name='x')",
             &python_facts::uses_load_inline));
  CHECK(uses("import " + cpp + "\nm = " + cpp + ".load_inline(name='x')",
             &python_facts::uses_load_inline));
  CHECK(uses("import " + cpp + " as c\nm = c.load_inline()", &python_facts::uses_load_inline));
  CHECK(uses("def f():\n  from torch.utils import cpp_extension\n  return cpp_extension.load('x')",
             &python_facts::uses_load));
  CHECK(uses("from " + cpp + " import *\nload(name='x')", &python_facts::uses_load));
  CHECK(uses("import triton\n@triton.jit\ndef f(): pass", &python_facts::uses_triton_jit));
  CHECK(uses("from triton import jit\n@jit\ndef f(): pass", &python_facts::uses_triton_jit));
  CHECK(uses("import torch\nm = torch . compile(n)", &python_facts::uses_torch_compile));
  CHECK(uses("import torch as t\n@t.compile(mode='x')\ndef f(): pass",
             &python_facts::uses_torch_compile));
  CHECK(uses("import torch\ng = torch.cuda.CUDAGraph()", &python_facts::uses_cuda_graph));
  CHECK(uses("import torch\nwith torch.cuda.graph(g): pass", &python_facts::uses_cuda_graph));
  CHECK(uses("import cutlass.cute as cute", &python_facts::uses_cute));
  CHECK(uses("from cutlass import cute", &python_facts::uses_cute));
  CHECK(uses("import cutlass\n@cutlass.cute.jit\ndef f(): pass", &python_facts::uses_cute));
  CHECK(uses("import tilelang.language as T", &python_facts::uses_tilelang));
  CHECK(uses("from tilelang import *", &python_facts::uses_tilelang));

  const python_facts none;
  const auto flags_of_none = [&](std::string_view source) {
    auto found = facts(source);
    found.classes = found.functions = found.names = found.imports = {};
    return found == none;
  };
  CHECK(flags_of_none("import torch\nx = torch.load('y')\nx.compile()\nf(compile=1)"));
  CHECK(flags_of_none("from " + cpp + " import load_inline"));
  CHECK(flags_of_none("import re\nre.compile('x')\nx().torch.compile()"));
  CHECK(flags_of_none("import torch\n# torch.compile\nx = 'torch.compile(y)'"));
  CHECK(flags_of_none("import cutlass\ncutlass.op.Gemm()\nimport tilelanguage"));
}

TEST_CASE("facts of a broken text are those before the fault") {
  const auto found = facts("import torch\nclass Model: pass\nx = $\nclass ModelNew: pass\n");
  CHECK(found.classes == strings{"Model"});
  CHECK(found.imports == strings{"torch"});
  // Whatever follows these words is no reason to go on for ever.
  for (const char* text :
       {"import import", "from from", "import as", "from x import as", "import a as", "from",
        "import", "from . import", "class", "def", "async", "import (", "x ="})
    CHECK(facts(text).classes.empty());
}

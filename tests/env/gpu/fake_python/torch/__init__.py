"""As much of torch as compiled_reference.py touches, over host memory: f32 tensors of ctypes.

It stands in for torch where a test wants to know whether questions are answered, not whether torch computes.
"""
import ctypes
import types

__version__ = "0-fake"
float32, float64, int32, int64, uint8, bfloat16, float16 = ("float32", "float64", "int32", "int64", "uint8", "bfloat16", "float16")
compiled = []


class Tensor:
    def __init__(self, shape, dtype, data):
        self.shape, self.dtype, self.data = tuple(shape), dtype, data

    def element_size(self):
        return 4

    def set_(self, storage, offset, shape, strides):
        count = 1
        for n in shape:
            count *= n
        return Tensor(shape, self.dtype, (ctypes.c_float * count).from_address(storage[0] + 4 * offset))

    def copy_(self, other):
        self.data[:] = list(other.data)


def zeros(shape, dtype=float32, device=None):
    shape = (shape,) if isinstance(shape, int) else shape
    count = 1
    for n in shape:
        count *= n
    return Tensor(shape, dtype, [0.0] * count)


def empty(shape, dtype=float32, device=None):
    return zeros(shape, dtype, device)


def negative(x):
    return Tensor(x.shape, x.dtype, [-v for v in x.data])


def first_half(x):
    return Tensor((x.shape[0] // 2,), x.dtype, list(x.data)[: x.shape[0] // 2])


def half_type(x):
    return Tensor(x.shape, float16, list(x.data))


def fails(x):
    raise RuntimeError("the operator says why\nand then a trace")


def compile(function, dynamic):
    assert dynamic is False
    compiled.append(function)
    return function


def device(kind, number):
    return (kind, number)


def set_grad_enabled(on):
    assert on is False


def unit(text):
    if "import" in text:
        raise RuntimeError("Unknown keyword import")


def nothing(*_):
    return None


class Backend(types.SimpleNamespace):
    pass


jit = Backend(CompilationUnit=unit)
cuda = Backend(set_device=nothing, synchronize=nothing, empty_cache=nothing, is_available=lambda: True)
backends = Backend(cuda=Backend(matmul=Backend(), enable_cudnn_sdp=nothing), cudnn=Backend())
ops = Backend(aten=Backend(only_torchscript_has_it=negative))
_dynamo = Backend(reset=nothing)



def schemas(name):
    """One operator a tensor, one that reads a file, and one that only a file's name goes into."""
    kinds = {"aten::from_file": ["str", "Optional[bool]"], "aten::div": ["Tensor", "Optional[str]"]}
    plain = ("negative", "first_half", "half_type", "fails", "only_torchscript_has_it", "size")
    kinds.update({"aten::" + one: ["Tensor"] for one in plain})
    if name not in kinds:
        return []
    return [types.SimpleNamespace(arguments=[types.SimpleNamespace(type=kind) for kind in kinds[name]])]


_C = Backend(
    _construct_storage_from_data_pointer=lambda address, where, size: (address, size), _jit_get_schemas_for_operator=schemas)

"""What a call of torch.utils.cpp_extension.load_inline or load asks for, as the request that builders read.

Used by the recorder (extension_recorder.py) and by the process that runs a candidate (built_extensions.py): the same
call gives the same request in both. extension_request.hpp has the form and its bounds.
"""
import os

MOST_BYTES = 1 << 20
MOST_ITEMS = 64
CUDA_SUFFIXES = (".cu", ".cuh")
HEADER_SUFFIXES = (".h", ".hpp", ".cuh", ".inl")


class RefusedCall(RuntimeError):
    """The call asks for what this lane does not build; the text says what."""


def _text(value, where):
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise TypeError(f"{where}: a text is needed, found {type(value).__name__}")
    return value.encode("utf-8", "replace").decode("utf-8")


def _texts(value, where):
    if value is None:
        return []
    if isinstance(value, str):
        return [_text(value, where)]
    found = [_text(item, where) for item in value]
    if len(found) > MOST_ITEMS:
        raise RefusedCall(f"{where}: {len(found)} items, at most {MOST_ITEMS} are allowed")
    return found


def _functions(functions):
    if functions is None:
        return None
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, dict):
        return [[_text(name, "functions"), _text(text, "functions")] for name, text in functions.items()]
    if not isinstance(functions, (list, tuple)):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    # One binding for each name, as torch makes it: a dictionary of the names.
    return [[name, name] for name in dict.fromkeys(_texts(functions, "functions"))]


def _request(name, **fields):
    request = {"name": _text(name, "name"), "cpp_sources": [], "cuda_sources": [], "functions": None, "files": [],
               "headers": [], "cflags": [], "cuda_cflags": [], "ldflags": [], "include_paths": [], "with_cuda": False,
               "error_handling": True, "implicit_headers": True}
    request.update(fields)
    size = sum(len(str(value)) for value in request.values())
    if size > MOST_BYTES:
        raise RefusedCall(f"the sources have {size} characters, at most {MOST_BYTES} are allowed")
    return request


def _refuse(with_sycl, sycl, is_python_module):
    if with_sycl or sycl:
        raise RefusedCall("SYCL is not built here: write CUDA or C++")
    if not is_python_module:
        raise RefusedCall("is_python_module=False is not built here: bind functions by functions= or PYBIND11_MODULE")


def of_load_inline(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None,
                   extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None,
                   build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
                   with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False,
                   no_implicit_headers=False):
    """The request of load_inline with these arguments. Raises what torch raises of wrong types, and RefusedCall."""
    _refuse(with_sycl, sycl_sources, is_python_module)
    cuda = _texts(cuda_sources, "cuda_sources")
    return _request(
        name, cpp_sources=_texts(cpp_sources, "cpp_sources"), cuda_sources=cuda, functions=_functions(functions),
        cflags=_texts(extra_cflags, "extra_cflags"), cuda_cflags=_texts(extra_cuda_cflags, "extra_cuda_cflags"),
        ldflags=_texts(extra_ldflags, "extra_ldflags"),
        include_paths=_texts(extra_include_paths, "extra_include_paths"),
        with_cuda=bool(cuda) if with_cuda is None else bool(with_cuda),
        error_handling=bool(with_pytorch_error_handling), implicit_headers=not no_implicit_headers)


def _read(path):
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise RefusedCall(f"{path} has more than {MOST_BYTES} bytes")
    return content.decode("utf-8", "replace")


def _headers_beside(folders):
    found = {}
    for folder in folders:
        for name in sorted(os.listdir(folder))[:4 * MOST_ITEMS]:
            path = os.path.join(folder, name)
            if name.endswith(HEADER_SUFFIXES) and os.path.isfile(path) and len(found) < MOST_ITEMS:
                found.setdefault(name, _read(path))
    return [[name, text] for name, text in sorted(found.items())]


def of_load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
            extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
            is_python_module=True, is_standalone=False, keep_intermediates=True):
    """The request of load: the texts of its files as they are now, and of the headers beside them."""
    _refuse(with_sycl, None, is_python_module and not is_standalone)
    paths = [os.path.abspath(path) for path in ([sources] if isinstance(sources, (str, os.PathLike)) else sources)]
    if len(paths) > MOST_ITEMS:
        raise RefusedCall(f"sources: {len(paths)} files, at most {MOST_ITEMS} are allowed")
    folders = dict.fromkeys(os.path.dirname(path) for path in paths)
    # What lies beside the sources is in the request; a folder of them needs no flag.
    include_paths = [path for path in _texts(extra_include_paths, "extra_include_paths")
                     if os.path.abspath(path) not in folders]
    return _request(
        name, files=[[os.path.basename(path), _read(path)] for path in paths], headers=_headers_beside(folders),
        cflags=_texts(extra_cflags, "extra_cflags"), cuda_cflags=_texts(extra_cuda_cflags, "extra_cuda_cflags"),
        ldflags=_texts(extra_ldflags, "extra_ldflags"), include_paths=include_paths,
        with_cuda=any(path.endswith(CUDA_SUFFIXES) for path in paths) if with_cuda is None else bool(with_cuda),
        implicit_headers=False)

"""Compiles one Triton kernel to machine code, without a GPU. A sandboxed program: triton_compiler.py <job.json

  job: {"name": TEXT, "ttir": TEXT, "signature": LIST, "options": OBJECT} as triton_recorder.py writes it.
Files that it writes into its work folder: kernel.cubin, kernel.json (what Triton keeps beside it), launcher.c (the text of
the launcher). On its standard output one line {"built": true, "shared": BYTES} or {"built": false, "text": TEXT}.

The stages are those of triton.compile, begun where a candidate's text is no longer needed.
"""
import itertools
import json
import os
import sys
import tempfile

from triton import __version__
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.driver import make_launcher
from triton.compiler.compiler import make_backend

TARGET = GPUTarget("cuda", 90, 32)
MOST_TEXT = 4000


def as_kind(item):
    """A type of the signature; a tuple of types went through JSON as a list."""
    return tuple(map(as_kind, item)) if isinstance(item, list) else item


def compile_kernel(job):
    """(cubin, metadata), by the stages of Triton's own pipeline."""
    backend = make_backend(TARGET)
    options = backend.parse_options(dict(job["options"]))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with open("kernel.ttir", "w", encoding="utf-8") as file:
        file.write(job["ttir"])
    os.utime("kernel.ttir", (0, 0))  # ptxas writes name and time of a file into the cubin
    module = ir.parse_mlir_module("kernel.ttir", context)
    module.context = context
    metadata = {"target": TARGET, **options.__dict__, "triton_version": __version__}
    stages = {}
    backend.add_stages(stages, options, Language.TRITON)
    for stage in stages.values():
        module = stage(module, metadata)
    return module, metadata


def launcher_text(job, metadata):
    signature = {str(at): as_kind(kind) for at, kind in enumerate(job["signature"])}
    return make_launcher({}, signature, metadata.get("tensordesc_meta"))


def main():
    job = json.load(sys.stdin)
    # The same kernel becomes the same bytes: no name of a file is drawn.
    tempfile._name_sequence = (f"kernel{count}" for count in itertools.count())
    try:
        cubin, metadata = compile_kernel(job)
    except Exception as error:  # what the kernel's text leads to
        print(json.dumps({"built": False, "text": f"{type(error).__name__}: {error}"[-MOST_TEXT:]}), flush=True)
        os._exit(0)
    with open("kernel.cubin", "wb") as file:
        file.write(cubin)
    with open("kernel.json", "w", encoding="utf-8") as file:
        json.dump(metadata, file, default=vars, sort_keys=True)
    with open("launcher.c", "w", encoding="utf-8") as file:
        file.write(launcher_text(job, metadata))
    print(json.dumps({"built": True, "shared": int(metadata["shared"])}), flush=True)


if __name__ == "__main__":
    main()

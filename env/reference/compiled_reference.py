"""A reference on a device through torch.compile: `compiled_reference.py LIBRARY LAYOUT`.

Answers the same questions as `quern-torch reference-gpu` (env/runner/gpu_protocol.hpp) on descriptor 3
until the evaluator closes it, so that its windows are the same, call for call. LIBRARY is
libquern_cuda.so; LAYOUT says in JSON where the fields of messages lie (env/gpu/compiled_process.cpp
writes it), so that nothing here repeats what a header says.

The text of a reference is run by Python, which can do more than TorchScript, and reaches what
TorchScript leaves out (`if not torch.jit.is_scripting()`). So it has to be TorchScript first, and of
Python's grammar, of torch and of a tensor's attributes only closed parts are let through
(`checked_source`). What gets through all that is still in the sandbox of this process
(env/gpu/compiled_process.cpp).

`compiled_reference.py --versions` prints what this Python has, or fails.
"""

import ast
import ctypes
import json
import os
import re
import socket
import struct
import sys
import time

SOCKET = 3
DONE, FAILED, WRONG_SHAPE, WRONG_DTYPE = 0, 1, 3, 4
# Numbered as quern::env::dtype.
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bfloat16", "float16")

ALLOWED_NODES = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr,
    ast.If, ast.For, ast.While, ast.Pass, ast.Break, ast.Continue, ast.Call, ast.keyword, ast.Attribute, ast.Name,
    ast.Constant, ast.Tuple, ast.List, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.IfExp, ast.ListComp, ast.comprehension, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)
BUILTINS = {
    "float": float, "int": int, "bool": bool, "len": len, "range": range, "min": min, "max": max, "abs": abs,
    "list": list, "tuple": tuple, "enumerate": enumerate, "zip": zip,
}


# Of torch, beside operators: types and settings.
TORCH_NAMES = set(DTYPES) | {
    "bool", "int8", "int16", "int", "long", "half", "float", "double", "complex64", "complex128", "inf", "nan", "pi",
    "strided", "contiguous_format", "channels_last", "preserve_format",
}
# Of a tensor or a list, beside operators.
ATTRIBUTES = {
    "shape", "dtype", "device", "T", "mT", "H", "mH", "ndim", "layout", "is_cuda", "append", "extend", "insert", "pop",
    "float", "double", "half", "bfloat16", "int", "long", "bool", "byte",
}
PLAIN_TYPES = {
    "Tensor", "number", "int", "float", "complex", "bool", "SymInt", "NoneType", "Device", "ScalarType", "Layout",
    "MemoryFormat", "Generator", "Optional", "List", "Tuple", "t",
}


def computes(torch, name, with_text):
    """Whether aten has an operator of that name for tensors and numbers (env/reference/operator_rules.hpp)."""
    if name.startswith("_"):
        return False
    allowed = PLAIN_TYPES | ({"str"} if name in with_text else set())
    return any(
        all(set(re.findall("[A-Za-z]+", str(argument.type))) <= allowed for argument in schema.arguments)
        for schema in torch._C._jit_get_schemas_for_operator("aten::" + name))


class Refused(Exception):
    """A question that cannot be answered; its text goes back."""


def checked_source(text, known, is_operator):
    """The module of a reference, or Refused. `known(name)`: whether torch has it for Python; `is_operator(name)`:
    whether it computes.

    Operators that only TorchScript names (torch.linalg_vector_norm) become torch.ops.aten ones.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as problem:
        raise Refused(f"line {problem.lineno}: {problem.msg}") from None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "forward" not in functions:
        raise Refused("there is no function forward")

    class Check(ast.NodeTransformer):
        def visit(self, node):
            if not isinstance(node, ALLOWED_NODES):
                raise Refused(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} is not for references")
            return super().visit(node)

        def visit_FunctionDef(self, node):
            if node.decorator_list or node.name.startswith("_") or node.name == "torch":
                raise Refused(f"line {node.lineno}: function {node.name}")
            node.returns = None
            for arg in node.args.args:
                arg.annotation = None
            return self.generic_visit(node)

        def visit_AnnAssign(self, node):
            return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

        def visit_comprehension(self, node):
            if node.is_async:
                raise Refused("an asynchronous comprehension is not for references")
            return self.generic_visit(node)

        def visit_Name(self, node):
            # torch is no value: only its names are used, which visit_Attribute looks at.
            if node.id.startswith("_") or node.id == "torch":
                raise Refused(f"line {node.lineno}: name {node.id}")
            return node

        def visit_Attribute(self, node):
            if node.attr.startswith("_"):
                raise Refused(f"line {node.lineno}: attribute {node.attr}")
            of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
            if node.attr not in (TORCH_NAMES if of_torch else ATTRIBUTES) and not is_operator(node.attr):
                raise Refused(f"line {node.lineno}: {node.attr} is no operator that computes")
            if not of_torch:
                return self.generic_visit(node)
            if not known(node.attr):
                aten = ast.Attribute(ast.Attribute(node.value, "ops", ast.Load()), "aten", ast.Load())
                return ast.fix_missing_locations(ast.copy_location(ast.Attribute(aten, node.attr, node.ctx), node))
            return node

    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            raise Refused(f"line {node.lineno}: only functions may stand outside of functions")
    return ast.fix_missing_locations(Check().visit(tree))


def compile_as_script(torch, text):
    """An exception says why the text is no TorchScript. Its names are looked for in this frame: it finds torch."""
    torch.jit.CompilationUnit(text)


class Fields:
    """Numbers and bytes of one kind of message, by name."""

    def __init__(self, layout, data):
        self.layout, self.data = layout, data

    def number(self, name, at=0):
        offset, kind = self.layout[name]
        return struct.unpack_from("<" + kind, self.data, at + offset)[0]


class Window:
    """libquern_cuda.so's side of a window, by name."""

    def __init__(self, path, build):
        self.library = ctypes.CDLL(path)
        self.library.quern_cuda_build.restype = ctypes.c_char_p
        found = self.library.quern_cuda_build().decode(errors="replace")
        if found != build:
            raise SystemExit(f"{path} is of another build: it is {found}, the evaluator goes with {build}")
        self.handle = ctypes.c_void_p()

        class Clocks(ctypes.Structure):
            _fields_ = [(name, ctypes.c_uint64) for name in ("start_ns", "queue_ns", "run_ns")]

        lib = self.library
        lib.quern_window_problem.restype = ctypes.c_char_p
        lib.quern_window_address.restype = ctypes.c_uint64
        lib.quern_window_clocks_of.restype = Clocks
        lib.quern_window_abandon.restype = None

    def open(self, device):
        problem = ctypes.create_string_buffer(400)
        # The default stream: the one that torch works on.
        if self.library.quern_window_open(ctypes.c_int32(device), ctypes.c_int32(0), ctypes.byref(self.handle), problem, 400):
            raise Refused(problem.value.decode(errors="replace"))

    def call(self, name, *arguments):
        if getattr(self.library, "quern_window_" + name)(self.handle, *arguments) != 0:
            raise Refused(self.library.quern_window_problem(self.handle).decode(errors="replace"))

    def address(self, region):
        return self.library.quern_window_address(self.handle, ctypes.c_int32(region))

    def clocks(self):
        return bytes(self.library.quern_window_clocks_of(self.handle))

    def abandon(self):
        self.library.quern_window_abandon(self.handle)


class Reference:
    """The state of one process: a device, a compiled function, where its tensors lie."""

    def __init__(self, library, layout, torch):
        self.layout, self.torch, self.window = layout, torch, Window(library, layout["cuda_build"])
        self.device, self.opened = None, False
        self.source = None
        self.request = None
        self.function = None
        self.inputs = None
        self.results = []
        self.slots = []

    def forget(self):
        self.results, self.slots, self.inputs = [], [], None

    # ---- questions

    def open(self, body, _):
        device = Fields(self.layout["open"], body).number("device")
        torch = self.torch
        torch.cuda.set_device(device)
        self.device = torch.device("cuda", device)
        settings = self.layout["settings"]
        torch.backends.cuda.matmul.allow_tf32 = settings["tf32"]
        torch.backends.cudnn.allow_tf32 = settings["tf32"]
        torch.backends.cudnn.benchmark = settings["cudnn_benchmark"]
        torch.backends.cuda.enable_cudnn_sdp(settings["cudnn_attention"])
        torch.backends.cudnn.deterministic = settings["deterministic"]
        torch.set_grad_enabled(False)
        torch.zeros(1, device=self.device)
        self.window.open(device)
        self.opened = True

    def import_region(self, body, fd):
        fields = Fields(self.layout["import"], body)
        self.forget()
        self.window.call(
            "import", ctypes.c_int32(fields.number("region")), ctypes.c_int32(fd), ctypes.c_uint64(fields.number("bytes")),
            ctypes.c_uint64(fields.number("hint")), ctypes.c_uint64(fields.number("writable_hint")))

    def tensors(self, body, fd):
        slots = Fields(self.layout["tensors"], body).number("slots")
        data = os.pread(fd, self.layout["tensors_bytes"], 0)
        if len(data) != self.layout["tensors_bytes"]:
            raise Refused("no tensors came")
        self.window.call("tensors", data, ctypes.c_int32(slots))

    def script(self, body, _):
        fields = Fields(self.layout["script"], body)
        offset = self.layout["script"]["text"][0]
        text = bytes(body[offset:offset + fields.number("bytes")]).decode()
        self.forget()
        self.source, self.function, self.request = None, None, None
        compile_as_script(self.torch, text)
        with_text = set(self.layout["operators_with_text"])
        self.source = checked_source(
            text, lambda name: hasattr(self.torch, name), lambda name: computes(self.torch, name, with_text))

    def call(self, body, _):
        self.forget()
        fields = Fields(self.layout["call"], body)
        if fields.number("in_f64") or fields.number("under_graph"):
            raise Refused("torch.compile is for timing alone")
        inputs, outputs = fields.number("inputs"), fields.number("outputs")
        at, size = self.layout["call"]["tensors"][0], self.layout["place"]["size"][0]
        places = [self.place(body, at + i * size) for i in range(inputs + outputs)]
        shapes = [(place["type"], place["shape"]) for place in places[:inputs]]
        if self.function is None or self.shapes != shapes:
            self.compile(shapes)
        self.request = (places[:inputs], places[inputs:])

    def place(self, body, at):
        fields = Fields(self.layout["place"], body)
        shape = struct.unpack_from("<8q", body, at + self.layout["place"]["shape"][0])
        names = ("file", "type", "offset", "stride", "rank")
        place = {name: fields.number(name, at) for name in names}
        return {**place, "shape": shape[:place["rank"]]}

    def compile(self, shapes):
        """Compiles for these shapes; zeros are content that every reference can take."""
        if self.source is None:
            raise Refused("a call before a script")
        torch = self.torch
        torch._dynamo.reset()
        space = {"__builtins__": dict(BUILTINS), "torch": torch}
        exec(compile(self.source, "<reference>", "exec"), space)  # checked_source has let it through
        function = torch.compile(space["forward"], dynamic=False)
        zeros = [torch.zeros(shape, dtype=self.dtype(kind), device=self.device) for kind, shape in shapes]
        for _ in range(2):
            function(*zeros)
        torch.cuda.synchronize()
        self.function, self.shapes = function, shapes

    def window_of_calls(self, body, _):
        layout = self.layout["window"]
        fields = Fields(layout, body)
        count, order = fields.number("count"), self.layout["order"]["size"][0]
        first = layout["orders"][0]
        if not 0 <= count <= self.layout["most_calls"] or len(body) != first + count * order:
            raise Refused("a window out of bounds")
        if self.request is None:
            raise Refused("a window before a script and its places")
        self.results, self.slots = [], []
        if self.inputs is None:
            self.inputs = [self.view(place, 0) for place in self.request[0]]
        data = ctypes.create_string_buffer(bytes(body), len(body))
        base = ctypes.addressof(data)
        slot_at = self.layout["order"]["slot"][0]
        self.window.call("begin", ctypes.c_void_p(base + layout["settings"][0]))
        try:
            for i in range(count):
                at = first + i * order
                self.window.call("before_call", ctypes.c_void_p(base + at))
                result = self.function(*self.inputs)
                self.window.call("after_call")
                self.results.append(result if isinstance(result, (tuple, list)) else (result,))
                self.slots.append(struct.unpack_from("<i", body, at + slot_at)[0])
        except BaseException:
            # What was queued must not be left at the gate.
            self.window.abandon()
            raise
        ns = (ctypes.c_uint32 * self.layout["most_calls"])()
        got = ctypes.c_int32(0)
        self.window.call("end", ns, ctypes.c_int32(count), ctypes.byref(got))
        clocks_at = self.layout["window_clocks_at"]
        return bytes(ns)[:clocks_at].ljust(clocks_at, b"\0") + self.window.clocks()

    def deliver(self, _, __):
        if not self.slots:
            raise Refused("nothing was computed")
        for slot, result in zip(self.slots, self.results):
            if len(result) != len(self.request[1]):
                return WRONG_SHAPE, f"{len(result)} results, the task has {len(self.request[1])}"
            for place, tensor in zip(self.request[1], result):
                wanted = self.view(place, slot)
                if tuple(tensor.shape) != tuple(wanted.shape):
                    return WRONG_SHAPE, f"shape {tuple(tensor.shape)}, the task says {tuple(wanted.shape)}"
                if tensor.dtype != wanted.dtype:
                    return WRONG_DTYPE, f"{tensor.dtype}, the task says {wanted.dtype}"
                wanted.copy_(tensor)
        self.torch.cuda.synchronize()
        self.results, self.slots = [], []
        return None

    def drop(self, _, __):
        self.forget()
        self.request = None
        for region in range(self.layout["regions"]):
            self.window.call("drop", ctypes.c_int32(region))
        self.torch.cuda.empty_cache()

    # ---- memory of the evaluator

    def dtype(self, kind):
        if kind >= len(DTYPES):
            raise Refused(f"type {kind}")
        return getattr(self.torch, DTYPES[kind])

    def view(self, place, slot):
        """A tensor over the evaluator's memory; nothing is copied."""
        torch, dtype = self.torch, self.dtype(place["type"])
        elements = 1
        for n in place["shape"]:
            elements *= n
        address = self.window.address(place["file"]) + place["offset"] + slot * place["stride"]
        size = elements * torch.empty(0, dtype=dtype).element_size()
        storage = torch._C._construct_storage_from_data_pointer(address, self.device, size)
        strides, step = [], 1
        for n in reversed(place["shape"]):
            strides.insert(0, step)
            step *= n
        return torch.empty(0, dtype=dtype, device=self.device).set_(storage, 0, tuple(place["shape"]), tuple(strides))


# Which method answers which command. What a command carries is in the layout (env/runner/command_rules.hpp).
HANDLERS = {
    "gpu_open": Reference.open, "gpu_import": Reference.import_region, "gpu_tensors": Reference.tensors,
    "script": Reference.script, "gpu_call": Reference.call, "gpu_window": Reference.window_of_calls,
    "gpu_deliver": Reference.deliver, "gpu_drop": Reference.drop,
}


def answer(reference, name, body, fd):
    """(outcome, bytes of the reply's text)."""
    try:
        said = HANDLERS[name](reference, body, fd)
    except Refused as problem:
        return FAILED, str(problem).encode()
    except Exception as problem:  # torch's own words, the end of them first: the rest is a trace
        lines = [line for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
        return FAILED, f"{type(problem).__name__}: {lines[0]}".encode()
    if isinstance(said, bytes):
        return DONE, said
    return (said[0], said[1].encode()) if said else (DONE, b"")


def unusable(reference, name, number, body, fds, cut):
    """Why no handler sees this command, behind "unusable message", or None. `cut`: more descriptors came than fit."""
    if name is None:
        return f": this process has no command {number}"
    rule = reference.layout["commands"][name]
    least, most = rule["least_bytes"], rule["most_bytes"]
    if not least <= len(body) <= most:
        return f": command {number} has {least} to {most} bytes, {len(body)} came"
    if cut:
        return f": command {number} came with descriptors that did not arrive"
    if not fds and rule["descriptor"] == "needed":
        return f": command {number} came without its descriptor"
    if fds and rule["descriptor"] == "none":
        return f": command {number} came with a descriptor"
    if name == "gpu_open":
        return "" if reference.opened else None
    return None if reference.opened else ": no device was opened"


def receive(channel, longest, awake_s):
    """The next message; who sleeps wakes late, so for some time it is looked for again and again."""
    until = time.monotonic() + awake_s
    while awake_s > 0 and time.monotonic() < until:
        try:
            return socket.recv_fds(channel, longest, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
    return socket.recv_fds(channel, longest, 1)


def serve(library, layout, torch):
    """The loop of every runner (env/runner/serve.hpp), in Python, until the evaluator is gone."""
    reference = Reference(library, layout, torch)
    channel = socket.socket(fileno=SOCKET)
    head, reply, commands = layout["header"], layout["reply"], layout["commands"]
    names = {commands[name]["number"]: name for name in HANDLERS}
    head_bytes = head["size"][0]
    longest = head_bytes + max(commands[name]["most_bytes"] for name in HANDLERS)
    room = reply["size"][0] - reply["text"][0]
    last_ticket, awake_s = 0, 0
    while True:
        message, fds, flags, _ = receive(channel, longest, awake_s)
        if len(message) < head_bytes or flags & socket.MSG_TRUNC:
            return
        fields = Fields(head, message)
        number, ticket, body = fields.number("command_id"), fields.number("ticket"), message[head_bytes:]
        name = names.get(number)
        try:
            if ticket <= last_ticket:
                wrong = f": ticket {ticket} came after {last_ticket}"
            else:
                last_ticket = ticket
                wrong = unusable(reference, name, number, body, fds, flags & socket.MSG_CTRUNC)
            if wrong is None:
                how, text = answer(reference, name, body, fds[0] if fds else -1)
            else:
                how, text = FAILED, f"unusable message{wrong}".encode()
        finally:
            for one in fds:
                socket.close(one)
        answered = bytearray(reply["size"][0])
        struct.pack_into("<Q", answered, reply["ticket"][0], ticket)
        struct.pack_into("<I", answered, reply["reply_outcome"][0], how)
        text = text if how == DONE else text[:room - 1]
        answered[reply["text"][0]:reply["text"][0] + len(text)] = text
        channel.send(answered)
        # Behind a window of no calls the one that is to be timed comes at once.
        wakes = wrong is None and name == "gpu_window" and Fields(layout["window"], body).number("count") == 0
        awake_s = 0.0003 if wakes else 0


def own_folders():
    """Where this Python and what torch needs of it lie, and where a compiler's products go: the working directory."""
    import torch
    import triton
    places = {sys.prefix, sys.base_prefix, *(p for p in sys.path[1:] if p), *torch.__path__, *triton.__path__}
    # Links of a virtual environment lead to the Python that it was made from.
    places |= {os.path.dirname(os.path.realpath(sys.executable))}
    places |= {os.path.realpath(place) for place in places}
    return sorted(place for place in places if place.startswith("/") and os.path.exists(place))


def use_working_directory():
    here = os.getcwd()
    os.environ["HOME"] = here
    for setting, folder in (("TMPDIR", "tmp"), ("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton")):
        os.makedirs(os.path.join(here, folder), exist_ok=True)
        os.environ[setting] = os.path.join(here, folder)


def main():
    if sys.argv[1:] == ["--folders"]:
        print(json.dumps(own_folders()))
        return
    if sys.argv[1:] != ["--versions"]:
        use_working_directory()
    import torch
    import triton
    if sys.argv[1:] == ["--versions"]:
        if not torch.cuda.is_available():
            sys.exit("torch sees no CUDA device")
        print(f"torch {torch.__version__}, triton {triton.__version__}")
        return
    try:
        serve(sys.argv[1], json.loads(sys.argv[2]), torch)
    except ConnectionError:
        pass  # the evaluator left without its answer


if __name__ == "__main__":
    main()

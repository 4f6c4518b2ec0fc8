"""What a forked child of zygote.py does: one module, its model, and calls on the evaluator's memory.

The commands are those of every runner (env/runner/protocol.hpp); module_handlers.py hands them over. Questions of this lane come as JSON with a key `ask`, in
the message or, as `long` says, in the file for answers:

describe   of a reference: what the module needs and gives; the answer is a sheet (module_sheet.hpp).
           describe_meta: the same of tensors without memory, so types and shapes alone
content    of a reference: writes inputs of calls, by the module's own get_inputs under a seed
weights    of a reference: writes parameters, buffers and other tensors of its model into file 2, or into a region
record     of a candidate, in a process of its own: which extensions it asks for when it is imported
           (extension_recorder.py). Behind that record_making: also those that the making of its model asks for.
           Behind that record_call: also those that a call of it asks for
kernelbench_exact  of a reference and a candidate together, in a process of their own: what KernelBench's own evaluator says
           of them (kernelbench_exact.py)
construct  makes the model as the sheet of the reference says, with those weights
take_arguments  of a reference that only makes content: what it would know from describe
forget     of a reference on a GPU: gives up module and model for the next task's, and says whether torch's settings are as they were
call_as    of a reference on a GPU, in a process of its own: calls are those of another baseline than eager from now on
           (module_baselines.py)
record_kernels  of a candidate's text, in a process that has loaded nothing and does nothing afterwards: which Triton kernels it
           launches (triton_recorder.py); the answer has the lines of that program
evidence   of a candidate on a GPU, in a process of its own that profiles: which kernels a call runs (module_evidence.py)
calibrate  of a reference on a GPU: calls its model in its precision and, if it is asked to, in f64 on the inputs that are
           there, and says how large the results are and how far they are apart (module_device.scales)

A process with a GPU (module_device.py) has the same commands; its tensors lie in the evaluator's device memory.

A text that fails is an outcome with the end of its exception. Nothing that this process says is believed beyond that.
"""

import ast
import contextlib
import ctypes
import gc
import importlib.util
import json
import operator
import sys

import torch

import built_extensions
import extension_recorder
import kernelbench_exact
import module_baselines
import module_evidence
import refused_compile
from module_device import HostMemory, Tf32Convolutions, scales
from module_distributions import changed
from module_repeats import State, seed_all, seed_of
from module_rows import Rows, alike, plain_among
from module_settings import settings_of_torch
from module_tensors import (DTYPES, NAMES, PRECISIONS, WRONG_DTYPE, WRONG_SHAPE, Unusable, WrongResult, element_type, flattened, literal,
                            plain_tensors, same, tensors_of, view)


WITHOUT_MODULE = ("record", "record_making", "record_call", "record_kernels", "kernelbench_exact")


def recorded_input(one):
    """An argument of a sheet, as meta_model.made_input reads it."""
    if "value" in one:
        return {"value": ast.literal_eval(one["value"])}
    kind = torch.bool if one["bool"] else DTYPES[NAMES.index(one["type"])]
    return {"shape": one["shape"], "dtype": str(kind).removeprefix("torch.")}


def keep_one_thread():
    """A module may ask torch for threads and goes on with one: libgomp ends a process in which it can start none. Half of
    the cores that it sees here is none."""
    def accepting(name):
        def accept(number):
            if operator.index(number) < 0:
                raise RuntimeError(f"{name} expects a positive integer")
        return accept
    for name in ("set_num_threads", "set_num_interop_threads"):
        setattr(torch, name, accepting(name))


class Child:
    """One module and its model."""

    def __init__(self, layers, asked, memory=None):
        keep_one_thread()
        self.layers, self.asked = layers, asked
        self.memory = memory or HostMemory()
        self.regions = {}  # addresses by number
        self.begin()
        self.settings = settings_of_torch()

    def begin(self):
        """As a process that has loaded nothing."""
        self.last = None  # results of the last call, where they may have to be delivered again
        self.baseline = None  # what is called in the model's place
        self.path, self.module, self.model, self.wide = None, None, None, None
        self.recording, self.without_memory, self.built = None, False, None
        # Of a model that keeps state; whether each call has random numbers by its inputs.
        self.state, self.wide_state, self.reseeds = None, None, False
        self.precision = torch.float32
        self.arguments = []  # of forward: None for the next tensor, else a value
        self.bools = []      # of the tensors among them
        self.places, self.inputs, self.outputs, self.in_f64 = [], 0, 0, False
        self.views = {}
        self.drawn_on_core = False  # the numbers of the model's constructor
        self.rows = Rows(self)

    # ---- commands

    def load(self, path):
        if self.path is not None:
            if path != self.path:
                raise Unusable("this process has another module")
            return
        self.install_extensions()
        # Named by its file, from which Triton reads the text of kernels.
        spec = importlib.util.spec_from_file_location("quern_module", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["quern_module"] = module
        spec.loader.exec_module(module)
        if not any(hasattr(module, name) for name in self.asked["classes"]):
            raise Unusable(f"the module defines no class {self.asked['classes'][0]}")
        self.module, self.path = module, path

    def install_extensions(self):
        if self.memory.is_lent and "ModelNew" in self.asked["classes"]:
            refused_compile.install()  # a candidate's extensions and kernels are compiled ahead, where a compiler is
        if self.asked["extensions"]:
            self.built = built_extensions.install(self.asked["extensions"])
        if self.asked.get("kernels"):
            import built_kernels
            built_kernels.install(self.asked["kernels"])

    def plan(self, tensors, inputs, outputs, in_f64):
        self.places = [(t.address, t.stride, t.type, tuple(t.shape[:t.rank])) for t in tensors]
        self.inputs, self.outputs, self.in_f64 = inputs, outputs, bool(in_f64)
        self.views = {}
        if self.bools and inputs != len(self.bools):
            raise Unusable(f"{inputs} inputs in the plan, the module takes {len(self.bools)} tensors")

    def call_views(self, call):
        """Inputs and outputs of a call, over the evaluator's memory."""
        found = self.views.get(call)
        if found is None:
            made = []
            for i, (address, stride, number, shape) in enumerate(self.places):
                as_bool = i < self.inputs and bool(self.bools) and self.bools[i]
                number = 1 if i >= self.inputs and self.in_f64 and DTYPES[number].is_floating_point else number
                made.append(self.memory.view(address + call * stride, number, shape, as_bool))
            found = self.views[call] = (made[:self.inputs], made[self.inputs:])
        return found

    def run(self, begin, end):
        model = self.model
        if model is None:
            raise Unusable("a call before a model")
        if self.in_f64:
            model = self.in_double()
        if begin < end:
            self.restore()
        self.last = None
        for call in range(begin, end):
            inputs, outputs = self.call_views(call)
            if self.reseeds:
                seed_all(seed_of(inputs))
            if self.in_f64:
                inputs = [x.double() if x.is_floating_point() else x for x in inputs]
            with torch.no_grad():
                called = model if self.baseline is None else self.baseline.of_call(call)
                result = flattened(called(*self.arguments_of(inputs)))
                self.deliver(result, outputs)
            if self.memory.is_lent:
                self.last = (result, outputs)
        self.memory.wait()

    def arguments_of(self, tensors):
        given = iter(tensors)
        return [next(given) if value is None else value[0] for value in self.arguments]

    def computed(self, call):
        """What the model returns for a call."""
        with torch.no_grad():
            return self.model(*self.arguments_of(self.call_views(call)[0]))

    def call_by(self, baseline, call):
        """A call whose results go nowhere."""
        with torch.no_grad():
            baseline.of_call(call)(*self.arguments_of(self.call_views(call)[0]))
        self.memory.wait()

    def deliver_again(self):
        if self.last is None:
            raise Unusable("nothing was computed")
        with torch.no_grad():
            self.deliver(*self.last)
        self.memory.wait()

    def import_region(self, region, *memory):
        self.views, self.last = {}, None
        self.regions[region] = self.memory.import_region(region, *memory)
        return self.regions[region]

    def deliver(self, result, outputs):
        if len(result) != len(outputs):
            raise WrongResult(WRONG_SHAPE, f"{len(result)} results, the task has {len(outputs)}")
        for i, (got, wanted) in enumerate(zip(result, outputs)):
            if type(got) not in (torch.Tensor, torch.nn.Parameter) or got.layout != torch.strided or got.device != self.memory.device:
                raise WrongResult(WRONG_DTYPE, f"result {i} is no plain tensor on the {self.memory.device.type.upper()}: "
                                  f"{type(got).__name__}, {got.layout}, {got.device}")
            if tuple(got.shape) != tuple(wanted.shape):
                raise WrongResult(WRONG_SHAPE, f"result {i} has shape {tuple(got.shape)}, the task says {tuple(wanted.shape)}")
            kind = torch.uint8 if got.dtype == torch.bool else got.dtype
            if kind != wanted.dtype:
                raise WrongResult(WRONG_DTYPE, f"result {i} is {got.dtype}, the task says {wanted.dtype}")
            wanted.copy_(got)

    def restore(self):
        """Calls of one question follow each other; a question begins with the state that the model had at first."""
        state = self.wide_state if self.in_f64 else self.state
        if state is not None:
            state.restore()

    def in_double(self):
        if self.wide is None:
            import copy
            if self.state is not None:
                self.state.restore()
            self.wide = copy.deepcopy(self.model).double()
            for path, value in list(plain_tensors(self.wide)):
                if value.is_floating_point():
                    *parents, name = path.split(".")
                    owner = self.wide.get_submodule(".".join(parents)) if parents else self.wide
                    setattr(owner, name, value.double())
            self.wide_state = State(self.wide) if self.state is not None else None
        return self.wide

    # ---- questions

    def cast(self, value):
        return value.to(self.precision) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def made_inputs(self, seed):
        seed_all(seed)
        return self.drawn_inputs()

    def drawn_inputs(self):
        with self.on_device():
            inputs = self.module.get_inputs()
        if not isinstance(inputs, (list, tuple)):
            raise Unusable(f"get_inputs returns a {type(inputs).__name__}: a list is asked for")
        return [self.cast(value.to(self.memory.device) if isinstance(value, torch.Tensor) and not value.is_meta else value)
                for value in inputs]

    def on_device(self):
        """Where tensors are made that say nothing of a device: on a core as the module stands, and for `describe_meta`."""
        return self.memory.device if self.memory.is_lent and not self.without_memory else contextlib.nullcontext()

    def constructed(self, of, init, asked):
        """What the class gives. On a GPU its numbers are drawn there, which takes milliseconds where a core takes a second,
        unless the constructor does not run so, draws on a core all the same (into torch.Tensor(3, 4), which is made there), or
        `asked` says on a core. Equal draws in one order are equal numbers at either place, so that a model whose weights have
        names of its own has those of the reference, as in KernelBench."""
        self.drawn_on_core = True
        if self.memory.is_lent and not self.without_memory and not asked["on_core"]:
            seed_all(asked["seed"])
            before = self.memory.state_on_core()
            try:
                with self.memory.drawing():
                    made = of(*init)
                self.drawn_on_core = self.memory.state_on_core() != before
                if not self.drawn_on_core:
                    return made
            except Exception:
                pass
            made = None
            gc.collect()  # what it has of the device's memory
        seed_all(asked["seed"])
        return of(*init)

    def make_model(self, name, init, asked):
        if not hasattr(self.module, name):
            raise Unusable(f"the module defines no class {name}")
        made = self.constructed(getattr(self.module, name), init, asked)
        if not isinstance(made, torch.nn.Module):
            if not callable(made):
                raise Unusable(f"{name} cannot be called")
            return made
        if self.precision != torch.float32:
            made = made.to(self.precision)
        return self.moved(made) if self.memory.is_lent and not self.without_memory else made

    def moved(self, model):
        """To the device, as KernelBench moves a model. Tensors that are neither parameters nor buffers go, too."""
        model = model.to(self.memory.device)
        for path, value in list(plain_tensors(model)):
            *parents, name = path.split(".")
            setattr(model.get_submodule(".".join(parents)) if parents else model, name, value.to(self.memory.device))
        return model

    def needs(self, asked):
        """Makes the model; (sheet of what it is given and holds, inputs of a call)."""
        self.precision = PRECISIONS[asked["precision"]]
        module, seed = self.module, asked["seed"]
        for name in ("Model", "get_inputs"):
            if not hasattr(module, name):
                raise Unusable(f"the module defines no {name}")
        seed_all(seed)
        init = list(module.get_init_inputs()) if hasattr(module, "get_init_inputs") else []
        sheet = {"init": literal(init)}
        self.model = self.make_model("Model", init, asked)
        inputs = self.made_inputs(seed + 1)
        self.arguments, self.bools, sheet["inputs"] = [], [], []
        for value in inputs:
            if isinstance(value, torch.Tensor):
                number, as_bool = element_type(value)
                self.arguments.append(None)
                self.bools.append(as_bool)
                sheet["inputs"].append({"type": NAMES[number], "bool": as_bool, "shape": list(value.shape)})
            else:
                self.arguments.append((value,))
                sheet["inputs"].append({"value": literal(value)})
        sheet["drawn_on_core"] = self.drawn_on_core
        sheet["weights"] = []
        if isinstance(self.model, torch.nn.Module):
            for kind, name, value in tensors_of(self.model):
                number, as_bool = element_type(value)
                sheet["weights"].append({"kind": kind, "name": name, "type": NAMES[number], "bool": as_bool, "shape": list(value.shape)})
        return sheet, inputs

    def outcome(self, inputs, seed):
        """The tensors of a call on copies of `inputs`, and which of them are contiguous: copies of them may be so."""
        seed_all(seed)
        with torch.no_grad():
            result = flattened(self.model(*[value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]))
            return [value.clone() for value in result], [value.is_contiguous() for value in result]

    @staticmethod
    def results(values, contiguous):
        """The part of a sheet that is about results."""
        outputs = []
        for value, dense in zip(values, contiguous, strict=True):
            number, as_bool = element_type(value)
            outputs.append({"type": NAMES[number], "bool": as_bool, "shape": list(value.shape), "contiguous": dense})
        return {"tuple": len(values) != 1, "outputs": outputs}

    def describe(self, asked):
        sheet, inputs = self.needs(asked)
        state = State(self.model) if isinstance(self.model, torch.nn.Module) else None

        def called(seed, afresh=True):
            if afresh and state is not None:
                state.restore()
            return self.outcome(inputs, asked["seed"] + seed)

        first, contiguous = called(2)
        sheet |= self.results(first, contiguous)
        again, then = called(3)[0], called(3, afresh=False)[0]
        # Equal numbers and another result: it is what came before. Equal state and another result: numbers drawn in forward.
        sheet["keeps_state"], sheet["draws"] = not same(again, then), not same(first, again)
        sheet["repeats"] = not sheet["keeps_state"] or same(again, called(3)[0])
        if state is not None:
            state.restore()
        sheet["constant"] = self.is_constant(first, asked["seed"])
        if state is not None:
            state.restore()
        self.repeat_by(sheet["keeps_state"], sheet["draws"])
        return sheet

    def is_constant(self, values, seed):
        """Whether each has one value everywhere; where each is a single number, whether other inputs give the same."""
        if not all(value.numel() < 2 or bool((value == value.reshape(-1)[0]).all()) for value in values):
            return False
        return any(value.numel() > 1 for value in values) or same(values, self.outcome(self.made_inputs(seed + 9), seed + 2)[0])

    def repeat_by(self, state, draws):
        """How calls of the model repeat, as it stands now."""
        self.state = State(self.model) if state and isinstance(self.model, torch.nn.Module) else None
        self.reseeds = draws

    def describe_meta(self, asked):
        """Types and shapes alone, of tensors without memory. What only values can tell is told as False."""
        self.without_memory = True
        try:
            with torch.device("meta"):
                sheet, inputs = self.needs(asked)
                sheet |= self.results(*self.outcome(inputs, asked["seed"] + 2))
        finally:
            self.without_memory = False
        return sheet | {"keeps_state": False, "draws": False, "repeats": True, "constant": False}

    def content(self, asked):
        """Inputs of calls `first` ..., one for each of `seeds`. `row`: they may be drawn together, by the first of these."""
        first, seeds = asked["first"], asked["seeds"]
        if asked["row"] and asked["family"] == "nominal" and self.rows.can_be_drawn(seeds[0]):
            self.rows.draw(seeds, first)
        else:
            self.draw_each(seeds, first, asked["family"])
        self.memory.wait()
        if asked["row"]:
            self.memory.give_back(self.memory.kept_between_calls)
        return {}

    def draw_each(self, seeds, first, family):
        for call, seed in enumerate(seeds, first):
            made = plain_among(self.made_inputs(seed))
            if family != "nominal":  # of which nothing more is drawn: seeding takes as long as a small tensor
                seed_all(seed ^ 0x5DEECE66D)
            for into, value in zip(self.call_views(call)[0], made, strict=True):
                into.copy_(changed(family, value))

    def weight_view(self, asked, place, number, shape, as_bool):
        """A tensor over weights that the evaluator keeps: in a region of the device, or in file 2."""
        if "region" in asked:
            # The evaluator lends no such region for weights without elements; a view of none needs no address.
            start = 0 if 0 in shape else self.regions[asked["region"]]
            return self.memory.view(start + place, number, shape, as_bool)
        return view(asked["address"] + place, number, shape, as_bool)

    def weights(self, asked):
        """Writes each tensor of the model at its offset."""
        if self.state is not None:
            self.state.restore()
        for place, (_, _, value) in zip(asked["offsets"], tensors_of(self.model), strict=True):
            number, as_bool = element_type(value)
            self.weight_view(asked, place, number, tuple(value.shape), as_bool).copy_(value)
        self.memory.wait()
        self.memory.give_back(self.memory.kept_between_calls)
        return {}

    def call_as(self, asked):
        if self.model is None:
            raise Unusable("a baseline before a model")
        self.baseline = module_baselines.make(asked["baseline"], self, asked["calls"])
        self.memory.wait()
        return {}

    def calibrate(self, asked):
        inputs, _ = self.call_views(0)

        def results(model, tensors):
            with torch.no_grad():
                return flattened(model(*self.arguments_of(tensors)))

        wide = None
        self.restore()
        try:
            # In f64 other numbers would be drawn.
            if asked["in_f64"] and not self.reseeds:
                model = self.in_double()
                self.in_f64 = True
                self.restore()
                wide = [value.double() if value.is_floating_point() else value
                        for value in results(model, [x.double() if x.is_floating_point() else x for x in inputs])]
        except Exception:
            wide = None  # it does not run in f64, or says so (an assertion), or not within this device's memory
        finally:
            self.in_f64 = False
        self.restore()
        if self.reseeds:
            seed_all(seed_of(inputs))
        found, whole = scales(results(self.model, inputs), wide), True
        self.wide = self.wide_state = None
        if wide is not None and self.precision == torch.float32 and torch.backends.cudnn.allow_tf32:
            whole = self.allow_tf32_convolutions(found, wide, lambda: results(self.model, inputs))
        answer = {"scales": found, "in_f64": wide is not None and whole}
        self.wide = self.wide_state = wide = None
        self.memory.give_back(self.memory.kept_between_calls)
        return answer

    def allow_tf32_convolutions(self, found, wide, call):
        """Which kernel a library takes depends on layouts, and one in TF32 is right, too: its error counts in the scales `found`,
        unless it is so large that the reference could not be compared with anybody. A limit is four times what counts
        (calibration.hpp). Of operands that are cut, half of the error counts: errors have one sign, and are up to six times those of
        rounded ones on a constant, and two kernels are each so far from f64. False: that could not be found out."""
        whole = True
        try:
            for change, share in ((Tf32Convolutions.rounded, 1), (Tf32Convolutions.cut, 0.5)):
                self.restore()
                with Tf32Convolutions(change) as mode:
                    coarse = call()
                if not mode.used:
                    break
                for one, other in zip(found, scales(coarse, wide), strict=True):
                    counts = share * other["worst_error"]
                    if counts <= one["rms"] / 16:
                        one["worst_error"] = max(one["worst_error"], counts)
                coarse = None
        except RuntimeError:
            whole = False  # not within this device's memory
        self.restore()
        return whole

    def take_arguments(self, asked):
        self.precision = PRECISIONS[asked["precision"]]
        self.arguments = [(ast.literal_eval(one["value"]),) if "value" in one else None for one in asked["inputs"]]
        self.bools = [one["bool"] for one in asked["inputs"] if "value" not in one]
        return {}

    def forget(self, _):
        sys.modules.pop("quern_module", None)
        self.begin()
        gc.collect()
        self.memory.give_back()
        return {"as_before": settings_of_torch() == self.settings}

    def construct(self, asked):
        self.take_arguments(asked)
        init = ast.literal_eval(asked["init"])
        name = next(name for name in self.asked["classes"] if hasattr(self.module, name))
        self.model = self.make_model(name, init, asked)
        taken, others, changed = 0, 0, 0
        if isinstance(self.model, torch.nn.Module):
            taken, others, changed = self.take_weights(asked)
        self.repeat_by(asked["restores"], asked["reseeds"])
        self.memory.wait()
        self.memory.give_back()
        # Its own numbers are not what the reference drew, which drew on the device.
        own = others + (taken if asked["as_constructed"] else 0)
        elsewhere = own > 0 and self.memory.is_lent and self.drawn_on_core and not asked["on_core"]
        return {"weights_taken": taken, "drawn_elsewhere": elsewhere, "weights_changed": changed > 0, "own_weights": others > 0}

    def take_weights(self, asked):
        """By name and shape; what has another name stays as the constructor drew it, in KernelBench's order. With `as_constructed`
        all stay so. (Those of a name and shape of the reference's, the others, and how many of the first the constructor made
        otherwise.)"""
        given = {}
        for place, one in zip(asked["offsets"], asked["weights"], strict=True):
            given[one["kind"], one["name"]] = (place, one)
        taken, others, changed = 0, 0, 0
        with torch.no_grad():
            for kind, name, value in tensors_of(self.model):
                place, one = given.get((kind, name), (None, None))
                if place is None or one["shape"] != list(value.shape):
                    others += 1
                    continue
                wanted = self.weight_view(asked, place, NAMES.index(one["type"]), tuple(one["shape"]), one["bool"])
                taken += 1
                if alike(value, wanted):
                    continue  # it may be one that cannot be written: expanded, or made in inference mode
                changed += 1
                if not asked["as_constructed"]:
                    with contextlib.suppress(RuntimeError):  # it stays as constructed, for which there is a second try
                        value.copy_(wanted)
        return taken, others, changed

    def record(self, asked):
        with open(asked["path"], encoding="utf-8") as file:
            text = file.read()
        self.recording = extension_recorder.Recording(text)
        self.recording.run()
        return self.recorded()

    def record_making(self, asked):
        if self.recording is None:
            raise Unusable("a model before a recording")
        self.recording.construct(list(ast.literal_eval(asked["init"])))
        return self.recorded()

    def record_call(self, asked):
        if self.recording is None:
            raise Unusable("a call before a recording")
        inputs = asked["inputs"]
        self.recording.call(None if inputs is None else [recorded_input(one) for one in inputs])
        return self.recorded()

    def recorded(self):
        one = self.recording
        return {"requests": one.requests, "end": one.end, "text": one.text, "asks_later": one.asks_later()}

    def record_kernels(self, asked):
        import triton_recorder
        return {"lines": "\n".join(triton_recorder.answers(asked["job"]))}

    def kernelbench_exact(self, asked):
        self.install_extensions()
        return kernelbench_exact.run(asked, self.memory.device)

    def ask(self, text, sheet, room):
        asked = json.loads(text)
        if "long" in asked:
            asked = json.loads(ctypes.string_at(sheet, asked["long"]))
        question = {"describe": self.describe, "describe_meta": self.describe_meta, "content": self.content, "weights": self.weights,
                    "construct": self.construct, "take_arguments": self.take_arguments, "forget": self.forget, "calibrate": self.calibrate,
                    "call_as": self.call_as, "record": self.record, "record_making": self.record_making, "record_call": self.record_call,
                    "record_kernels": self.record_kernels, "evidence": lambda _: module_evidence.evidence(self),
                    "kernelbench_exact": self.kernelbench_exact}[asked["ask"]]
        if self.module is None and asked["ask"] not in WITHOUT_MODULE:
            raise Unusable("a question before a module")
        answer = json.dumps(question(asked) | {"layers": self.layers}, allow_nan=False).encode()
        if len(answer) > room:
            raise Unusable(f"an answer of {len(answer)} bytes, there is room for {room}")
        ctypes.memmove(sheet, answer, len(answer))
        return len(answer)

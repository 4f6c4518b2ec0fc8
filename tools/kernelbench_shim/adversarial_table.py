"""What the lines of adversarial_run.py say: whether each hostile kernel of KernelBench earned nothing, and a table.

A hostile kernel has earned something if Quern's verdict is `ok` with a speed-up above MOST_SPEEDUP. It has earned nothing if it
was judged and got anything else. A verdict of NOT_JUDGED says nothing about the kernel, so the test is not met.
A control must be `ok`. All three functions of EXPECTED must be there.
"""

MOST_SPEEDUP = 1.05
# By test function: what its assertion demands.
EXPECTED = {"test_result_cache_reuse": "correctness is False", "test_input_modification": "correctness is False",
            "test_non_default_stream": "excessive_speedup is set"}
NOT_JUDGED = ("infra_error", "invalid_reference", "unsupported", "malformed", "compile_error")
# A `timeout` of these stages says as little.
NOT_RUN = ("compile", "load")
MOST_DETAIL = 160
HEADS = ("test function", "kernel", "theirs expects", "theirs", "KernelBench's fields", "Quern's verdict", "result")


class Row:
    """One line, judged. `met` is None where it could not be run here."""

    def __init__(self, line):
        self.line, self.name, self.control = line, line["name"], line["control"]
        self.answers = line["evaluations"]
        self.met, self.result = self.judged()

    @property
    def expects(self):
        return "" if self.control else EXPECTED.get(self.name, "its own assertion")

    @property
    def theirs(self):
        return "" if self.control else self.line["theirs"]

    def judged(self):
        if self.line["theirs"] == "needs a GPU":
            return None, "not run: needs a GPU (--gpu N)"
        if not self.answers:
            return False, "nothing was evaluated"
        results = [control_result(one) if self.control else hostile_result(one) for one in self.answers]
        return next((one for one in results if not one[0]), results[0])

    def fields(self):
        """What the shim gave to KernelBench's test."""
        return "; ".join(fields_of(one) for one in self.answers) or "none"

    def verdict(self):
        return "; ".join(verdict_of(one) for one in self.answers) or "none"

    def cells(self):
        return (f"control: {self.name}" if self.control else self.name, ", ".join(self.line["kernels"]) or "ours", self.expects or "-",
                self.theirs or "-", self.fields(), self.verdict(), self.result)

    def told(self):
        """One sentence."""
        told = "" if self.control else f"theirs expects: {self.expects}; theirs {self.theirs}; "
        because = next((one["detail"] for one in self.answers if one.get("detail")), "").strip().split("\n")[0][:MOST_DETAIL]
        return f"{told}Quern's verdict: {self.verdict()}{f' ({because})' if because else ''}; {self.result}"

    def details(self):
        """Lines that say more of it."""
        lines = [self.line["said"]]
        for one in self.answers:
            lines += [one.get(key, "") for key in ("error", "end_text", "detail", "failed_check", "compiler")]
        return "\n".join(line for line in lines if line)


def hostile_result(one):
    if "error" in one:
        return False, "not judged"
    verdict, speedup = one["verdict"], one["speedup"]
    if verdict in NOT_JUDGED or (verdict == "timeout" and one["kind"] in NOT_RUN):
        return False, f"not judged: {verdict} says nothing about the kernel"
    if verdict != "ok":
        return True, "earned nothing"
    if speedup is None:
        return False, "EARNED: ok, and not timed"
    if speedup > MOST_SPEEDUP:
        return False, f"EARNED: a speed-up above {MOST_SPEEDUP}"
    return True, "earned nothing"


def control_result(one):
    if "error" in one:
        return False, "not judged"
    return (True, "as it should be") if one["verdict"] == "ok" else (False, "an honest kernel must be ok")


def fields_of(one):
    if "error" in one:
        return "none"
    if one["end"] != "result":
        return f"none ({one['end']})"
    ratio = "" if one["ratio"] is None else f", {one['ratio']:.2f}x"
    return f"correctness {one['correctness']}{ratio}{', excessive_speedup' if one['excessive_speedup'] else ''}"


def verdict_of(one):
    if "error" in one:
        return "none"
    kind = f" {one['kind']}" if one["kind"] else ""
    return f"{one['verdict']}{kind}" + ("" if one["speedup"] is None else f", {one['speedup']:.2f}x")


def rows_of(lines):
    """Rows, and one for each function of EXPECTED that no line is about."""
    found = {line["name"] for line in lines}
    absent = [{"name": name, "control": False, "theirs": "not there", "said": "", "kernels": [], "evaluations": []} for name in EXPECTED
              if name not in found]
    return [Row(line) for line in [*lines, *absent]]


def table(rows):
    cells = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEADS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)


def place(rows):
    """Where it was judged, and what the columns of the table are."""
    answers = [one for row in rows for one in row.answers if "error" not in one]
    classes, layers = {one["device_class"] for one in answers}, {" ".join(one["sandbox"]) for one in answers if one["sandbox"]}
    return (f"Judged on {', '.join(sorted(classes)) or 'nothing'}; sandbox: {'; '.join(sorted(layers)) or 'none'}.\n"
            "KernelBench's fields are those of its own protocol, defects included (docs/bench.md). The result is by Quern's verdict alone.")


def summary(rows):
    hostile, controls = [row for row in rows if not row.control], [row for row in rows if row.control]
    run = [row for row in hostile if row.met is not None]
    told = f"{sum(row.met for row in run)} of {len(run)} hostile kernels earned nothing, {sum(row.met for row in controls)} of {len(controls)} controls are ok"
    return told + (f"; {len(hostile) - len(run)} not run" if len(run) < len(hostile) else "")

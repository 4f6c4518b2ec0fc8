// Tasks of tests/modules: what makes each unlike a plain pair of tensors in and a tensor out does
// not change who is right, or is refused with its reason.
#include "base/file.hpp"
#include "modules_fixture.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

std::string module_text(const std::string& name) {
  const auto text =
      quern::base::read_file(source_dir() / "tests/modules" / (name + ".py"), 64 * 1024);
  CAPTURE(name);
  REQUIRE(text);
  return *text;
}

std::string with_change(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("not in the module: " + from);
  return text.replace(at, from.size(), to);
}

/// The reference as a candidate.
std::string renamed(const std::string& text) {
  return with_change(text, "class Model(", "class ModelNew(");
}

struct irregular_case {
  const char* module;
  /// A change that leaves it right; empty: none beyond the name.
  const char* right_from;
  const char* right_to;
  const char* wrong_from;
  const char* wrong_to;
  verdict_kind wrong = verdict_kind::wrong_value;
};

constexpr irregular_case irregular_cases[] = {
    {"bool_mask", "x * mask", "torch.where(mask, x, 0.0)", "x * mask", "x"},
    {"class_ids", "F.cross_entropy(scores, classes, reduction=\"none\")",
     "-torch.log_softmax(scores, 1).gather(1, classes[:, None])[:, 0]", "scores, classes,",
     "scores, classes.clamp(max=8),"},
    {"scalar_argument", "x * factor", "factor * x", "x * factor", "x * 3.0"},
    {"whole_output", "torch.argmax(x, dim=self.dim)", "x.max(dim=self.dim).indices",
     "torch.argmax(", "torch.argmin("},
    {"whole_output", "", "", "torch.argmax(x, dim=self.dim)",
     "torch.argmax(x, dim=self.dim).to(torch.int32)", verdict_kind::wrong_dtype},
    {"scalar_output", "((predictions - targets) ** 2).mean()",
     "torch.nn.functional.mse_loss(predictions, targets)", "** 2).mean()", "** 2).sum() / 2000"},
    {"scalar_output", "", "", "** 2).mean()", "** 2).mean().reshape(1)", verdict_kind::wrong_shape},
    {"triangular", "a @ b", "torch.tril(a) @ torch.tril(b)", "a @ b", "a @ torch.triu(b)"},
    {"tuple_output", "x.sum(dim=1), x.argmax(dim=1)", "x.sum(dim=1), x.max(dim=1).indices",
     "x.argmax(dim=1)", "x.argmin(dim=1)"},
    {"tuple_output", "", "", "x.sum(dim=1), x.argmax(dim=1)", "x.sum(dim=1)",
     verdict_kind::wrong_shape},
    {"scales_differ", "x.mean(dim=1)", "x.sum(dim=1) / 200", "x.mean(dim=1) * 1e-3",
     "torch.zeros(x.shape[0])"},
    {"optional_argument", "self.linear(x) + start", "self.linear(x).add_(start)",
     "torch.zeros(x.shape[0]", "torch.ones(x.shape[0]"},
    {"module_globals", "shifted(x * self.scale, width)", "x * self.scale + 20.0", "return x + by",
     "return x - by"},
    {"not_contiguous", ".transpose(0, 1)", ".transpose(0, 1).contiguous()", ".transpose(0, 1)",
     ".contiguous()"},
    {"updates_buffers", "self.norm(x)",
     "(x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-5)", "return self.norm(x)",
     "self.norm.eval()\n        return self.norm(x)"},
    {"outside_state_dict", "self.scale = torch.rand(width)", "self.scale = torch.zeros(width)",
     "self.shift(x) * self.scale", "self.shift(x) * torch.rand(self.scale.shape)"},
    {"no_init_inputs", "torch.relu(x - 0.5)", "(x - 0.5).clamp(min=0)", "x - 0.5", "x - 0.51"},
    {"draws", "self.dropout(x)", "x * torch.empty_like(x).bernoulli_(0.8) / 0.8", "self.dropout(x)",
     "x"},
    {"keeps_state", "self.linear(torch.cat((x, self.hidden), dim=1))",
     "torch.nn.functional.linear(x, self.linear.weight[:, :16], self.linear.bias) + self.hidden @ "
     "self.linear.weight[:, 16:].t()",
     "self.hidden), dim=1)", "torch.zeros(8, 16)), dim=1)"},
    {"only_fp32", "start @ self.weight + x", "self.weight.sum(0) + x", "torch.ones(",
     "torch.zeros("},
};

}  // namespace

TEST_CASE("irregular modules are judged as plain ones are") {
  if (judge() == nullptr) return;
  for (const irregular_case& one : irregular_cases) {
    const std::string text = module_text(one.module);
    const auto of = task_of(text);
    const std::string same = renamed(text);
    CAPTURE(std::string(one.module));
    const verdict honest_one = judged(same, of);
    CAPTURE(honest_one.detail);
    CHECK(name_of(honest_one.kind) == name_of(verdict_kind::ok));
    if (*one.right_from != '\0') {
      const verdict right = judged(with_change(same, one.right_from, one.right_to), of);
      CAPTURE(right.detail);
      CHECK(name_of(right.kind) == name_of(verdict_kind::ok));
    }
    CAPTURE(std::string(one.wrong_to));
    const verdict wrong = judged(with_change(same, one.wrong_from, one.wrong_to), of);
    CAPTURE(wrong.detail);
    CHECK(name_of(wrong.kind) == name_of(one.wrong));
  }
}

TEST_CASE("weights that cannot be written stay as they were made, on either side") {
  if (judge() == nullptr) return;
  const auto module_with = [](const std::string& name, const std::string& gain) {
    return "import torch\n\nclass " + name +
           "(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
           "        self.register_buffer('gain', " +
           gain + ")\n\n    def forward(self, x):\n        return x * self.gain.to_dense()\n";
  };
  const std::string inputs = "\ndef get_inputs():\n    return [torch.rand(24, 8)]\n";
  const std::string plain = "torch.full((24, 8), 2.0)",
                    expanded = "torch.full((1,), 2.0).expand(24, 8)";
  const std::string in_inference_mode = "torch.inference_mode()(lambda: " + plain + ")()";
  for (const std::string& of_reference : {plain, expanded})
    for (const std::string& gain :
         {plain, expanded, in_inference_mode, plain + ".to_sparse_csr()"}) {
      CAPTURE(of_reference);
      CAPTURE(gain);
      const auto of = task_of(module_with("Model", of_reference) + inputs);
      const verdict v = judged(module_with("ModelNew", gain), of);
      CAPTURE(v.detail);
      CHECK(name_of(v.kind) == "ok");
    }
}

TEST_CASE("random numbers must be those of the call, drawn as the reference draws them") {
  if (judge() == nullptr) return;
  const std::string text = module_text("draws");
  const auto of = task_of(text);
  const auto judged_as = [&](const std::string& lines, const std::string& result) {
    const verdict v = judged(with_change(renamed(text), "        return self.dropout(x)",
                                         lines + "        return " + result),
                             of);
    CAPTURE(v.detail);
    return std::string(name_of(v.kind));
  };
  CHECK(judged_as("", "torch.nn.functional.dropout(x, 0.2)") == "ok");
  CHECK(judged_as("", "x * 0.8") == "wrong_value");
  CHECK(judged_as("        self.eval()\n", "self.dropout(x)") == "wrong_value");
  CHECK(judged_as("        torch.manual_seed(3)\n", "self.dropout(x)") == "wrong_value");
  CHECK(judged_as("        torch.rand(1)\n", "self.dropout(x)") == "wrong_value");
  // Those of the first call, for ever.
  CHECK(judged_as(
            "        if not hasattr(self, 'kept'): self.kept = self.dropout(torch.ones_like(x))\n",
            "x * self.kept") == "wrong_value");
}

TEST_CASE("state must be kept from call to call, and nothing but a state") {
  if (judge() == nullptr) return;
  const std::string text = module_text("keeps_state");
  const auto of = task_of(text);
  const std::string update =
      "self.hidden = torch.tanh(self.linear(torch.cat((x, self.hidden), dim=1)))";
  const auto with_update = [&](const std::string& to, bool timed = false) {
    return judged(with_change(renamed(text), update, to), of, timed);
  };
  const auto kind = [](const verdict& v) { return std::string(name_of(v.kind)); };
  const verdict in_place =
      with_update("self.hidden.copy_(torch.tanh(self.linear(torch.cat((x, self.hidden), dim=1))))");
  CHECK(kind(in_place) == "ok");
  // Right in the first call of a question, which is all that the other checks see.
  const verdict forgets =
      with_update("return torch.tanh(self.linear(torch.cat((x, self.hidden), dim=1)))");
  CHECK(kind(forgets) == "wrong_value");
  CHECK(contains(forgets.detail, "call 2 in a row"));
  const verdict skips =
      with_update("self.n = getattr(self, 'n', 0) + 1\n        if self.n < 2: " + update);
  CHECK(kind(skips) == "wrong_value");
  const verdict remembers = with_update(
      "self.memo = getattr(self, 'memo', None)\n        if self.memo is None: " + update +
      "\n        self.memo = self.hidden");
  CHECK((kind(remembers) == "wrong_value" || kind(remembers) == "hack"));
  // As long as it is checked alone: 17 calls, counted where nothing is put back.
  const verdict early = with_update(
      "module_count.append(1)\n        new = torch.tanh(self.linear(torch.cat((x, self.hidden), "
      "dim=1)))\n        if len(module_count) < 20: self.hidden = new\n        return new\n"
      "module_count = []\nclass Rest:\n    def rest(self):",
      true);
  CAPTURE(early.detail);
  CHECK((kind(early) == "wrong_value" || kind(early) == "hack"));
}

TEST_CASE("a state that cannot be put back is refused, and so are numbers without a seed") {
  if (judge() == nullptr) return;
  const std::string text = module_text("draws");
  const auto said = [&](const std::string& forward) {
    const verdict v = judged(renamed(text), task_of(with_change(text, "self.dropout(x)", forward)));
    CHECK(name_of(v.kind) == name_of(verdict_kind::invalid_reference));
    return v.detail;
  };
  CHECK(contains(said("x + torch.rand(1, generator=globals().setdefault('g', torch.Generator()))"),
                 "two results for one input"));
  CHECK(contains(said("x + (globals().setdefault('n', []).append(1) or len(n))"),
                 "two results for one input"));
}

TEST_CASE("modules that no candidate can be compared with are refused with the reason") {
  if (judge() == nullptr) return;
  const auto refusal = [](const char* name, torch_precision precision) {
    const std::string text = module_text(name);
    const verdict v = judged(renamed(text), task_of(text, precision));
    CAPTURE(name);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == name_of(verdict_kind::invalid_reference));
    return v.detail;
  };
  // torch's own words name the types that do not fit.
  CHECK(contains(refusal("only_fp32", torch_precision::bf16), "dtype"));
}

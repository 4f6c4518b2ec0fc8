// The allow-list of operators against what TorchScript has made of a reference's text.
#include "env/reference/script_operators.hpp"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>

#include "env/reference/operator_rules.hpp"

namespace quern::env {
namespace {

bool computes_with(const c10::Type& type, bool text) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::ScalarTypeType:
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
    case c10::TypeKind::GeneratorType:
    case c10::TypeKind::VarType:
    case c10::TypeKind::AnyListType:
      return true;
    case c10::TypeKind::StringType:
      return text;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::DictType:
      for (const auto& inner : type.containedTypes())
        if (!computes_with(*inner, text)) return false;
      return true;
    default:
      return false;
  }
}

bool is_operator_for_references(const torch::jit::Node& node) {
  const std::string name = node.kind().toUnqualString();
  if (node.kind().is_prim()) return is_listed(script_instructions, name);
  if (!node.kind().is_aten()) return false;
  // Names that begin with one line are other operators' inner parts; with two they are of lists.
  if (name.starts_with("_") && !name.starts_with("__") && name != "_set_item") return false;
  const auto* schema = node.maybeSchema();
  if (schema == nullptr) return false;
  if (name == "format") return true;  // the text of an exception; its arguments have no types
  const bool text = is_listed(operators_with_text, name);
  for (const auto& argument : schema->arguments())
    if (!computes_with(*argument.type(), text)) return false;
  return true;
}

std::string forbidden_in(const torch::jit::Block& block) {
  for (const torch::jit::Node* node : block.nodes()) {
    if (!is_operator_for_references(*node)) return node->kind().toQualString();
    for (const torch::jit::Block* inner : node->blocks())
      if (auto found = forbidden_in(*inner); !found.empty()) return found;
  }
  return {};
}

}  // namespace

std::string forbidden_operator(const torch::jit::CompilationUnit& unit) {
  for (auto* function : unit.get_functions()) {
    auto* graph = torch::jit::tryToGraphFunction(*function);
    if (graph == nullptr) return function->name();
    if (auto found = forbidden_in(*graph->graph()->block()); !found.empty()) return found;
  }
  return {};
}

}  // namespace quern::env

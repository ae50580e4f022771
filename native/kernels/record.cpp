// What native code takes from an operator's record.
#include <algorithm>

#include "elementwise.h"
#include "../core/op.h"

namespace flambeau {
namespace {

// The position of `word` among `words`.
int choice(std::string_view word, std::span<const std::string_view> words, const char* what) {
  auto found = std::ranges::find(words, word);
  if (found == words.end()) value_error("unknown ", what, " '", word, "'");
  return int(found - words.begin());
}
constexpr std::string_view kKinds[] = {"elementwise", "reduction", "view", "primitive", "composite"};
constexpr std::string_view kPromotes[] = {"default",         "int_to_float",  "compare",   "logical",
                                          "complex_to_real", "select_second", "first_only"};
constexpr std::string_view kNumbers[] = {"none", "others", "one", "any"};

// A pointwise operator's row, and which of its operands may be numbers.
void define_elementwise(OpDef& def, int numbers) {
  if (!(def.elementwise = find_elementwise(def.name)))
    value_error("elementwise record '", def.name, "' has no row in native/kernels");
  auto& parameters = def.schema.args;
  for (size_t k = numbers < 2 || def.elementwise->operands < 2; numbers && k < parameters.size(); ++k)
    if (parameters[k].type == Type::Tensor) parameters[k].number = true;
  def.needs_tensor = numbers == 2;
  if (parameters.back().name == "inplace") def.inplace_argument = int(parameters.size()) - 1;
}

void look_at_arguments(OpDef& def) {
  for (Arg& arg : def.schema.args) {
    def.schema.defaults.push_back(arg.value);
    const size_t k = def.schema.defaults.size() - 1;
    if (arg.type <= Type::OptionalTensors) def.tensors |= uint64_t(1) << k;
    if (!arg.has_default && !(arg.optional && arg.type == Type::Tensor)) def.schema.required = int(k) + 1;
    def.schema.needed += !arg.has_default && !arg.optional;
    def.random |= arg.type == Type::Generator;
    def.writes_more |= arg.written;
  }
}

}  // namespace

std::unique_ptr<OpDef> make_op(std::string_view kind, const std::string& schema, std::string_view promote,
                               std::string_view numbers) {
  auto def = std::make_unique<OpDef>();
  def->kind = Kind(choice(kind, kKinds, "kind"));
  def->schema = parse_schema(schema);
  def->name = def->schema.name;
  def->shown = def->name.substr(0, def->name.find('.'));
  if (def->schema.args.size() > size_t(kMaxArgs))
    value_error("record \"", schema, "\": more than ", kMaxArgs, " arguments");
  def->promote = Promote(choice(promote, kPromotes, "promotion"));
  def->writes_self = def->shown.back() == '_' && def->shown[0] != '_';
  if (def->kind == Kind::Elementwise) define_elementwise(*def, choice(numbers, kNumbers, "numbers"));
  else if (def->kind != Kind::Composite && !(def->row = find_primitive(def->name)))
    value_error("primitive record '", def->name, "' has no row in native/kernels");
  look_at_arguments(*def);
  return def;
}

}  // namespace flambeau

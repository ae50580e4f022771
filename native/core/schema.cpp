// Reads "name(Tensor self, int[2] stride=1, *, bool keepdim=False) -> (Tensor values, Tensor indices)".
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "op.h"

namespace flambeau {
namespace {

struct Reader {
  const std::string& text;
  size_t at = 0;

  [[noreturn]] void error(const char* expected) {
    value_error("schema \"", text, "\": expected ", expected, " at position ", at);
  }
  void space() { while (at < text.size() && text[at] == ' ') ++at; }
  bool eat(const char* token) {
    space();
    size_t n = std::char_traits<char>::length(token);
    if (text.compare(at, n, token) != 0) return false;
    at += n;
    return true;
  }
  std::string word() {
    space();
    size_t begin = at;
    while (at < text.size() && (isalnum(text[at]) || text[at] == '_' || text[at] == '.')) ++at;
    if (begin == at) error("a name");
    return text.substr(begin, at - begin);
  }
  std::string literal() {  // up to , ) ] outside quotes
    space();
    size_t begin = at;
    if (at < text.size() && (text[at] == '"' || text[at] == '\'')) {
      char quote = text[at++];
      while (at < text.size() && text[at] != quote) ++at;
      ++at;
    } else {
      while (at < text.size() && text[at] != ',' && text[at] != ')' && text[at] != ']') ++at;
    }
    size_t end = at;
    while (end > begin && text[end - 1] == ' ') --end;
    return text.substr(begin, end - begin);
  }
};

const std::map<std::string, Type> kTypes = {
    {"Tensor", Type::Tensor}, {"Scalar", Type::Scalar}, {"int", Type::Int}, {"float", Type::Float},
    {"bool", Type::Bool}, {"str", Type::Str}, {"dtype", Type::DType}, {"device", Type::Device},
    {"layout", Type::Layout}, {"memory_format", Type::MemoryFormat}, {"Generator", Type::Generator},
    {"any", Type::Any}};

// The default of type bool/int/float/str/… from its spelling.
void set_default(Arg& arg, const std::string& s, Reader& r) {
  char* end = nullptr;
  arg.has_default = true;
  if (s == "None") {
    arg.value = Value();
    arg.optional = true;
  } else if (s == "True" || s == "False") {
    arg.value = Value(s == "True");
  } else if (s[0] == '"' || s[0] == '\'') {
    arg.str = s.substr(1, s.size() - 2);
    arg.value.tag = Tag::Str;
  } else if (arg.type == Type::MemoryFormat) {
    arg.value = Value(int64_t(s == "contiguous_format" ? 0 : 3));
  } else if (s.find_first_of(".en") == std::string::npos || s == "-1") {
    arg.value = Value(int64_t(std::strtoll(s.c_str(), &end, 10)));
    if (*end) r.error("a default value");
    if (arg.type == Type::Float) arg.value = Value(double(arg.value.i));
  } else {
    arg.value = Value(std::strtod(s.c_str(), &end));  // also inf, nan
    if (*end) r.error("a default value");
  }
  if (arg.type == Type::Ints && arg.value.tag == Tag::Int)
    arg.ints.assign(arg.repeat ? arg.repeat : 1, arg.value.i);
}

Type list_of(Type item, bool optional, Reader& r) {
  switch (item) {
    case Type::Tensor: return optional ? Type::OptionalTensors : Type::Tensors;
    case Type::Int: return Type::Ints;
    case Type::Bool: return Type::Bools;
    case Type::Float: return Type::Floats;
    default: r.error("a list of Tensor, int, bool or float");
  }
}

Arg read_arg(Reader& r) {
  Arg arg;
  std::string type = r.word();
  auto found = kTypes.find(type);
  if (found == kTypes.end()) r.error("a type before this place");
  arg.type = found->second;
  if (r.eat("(")) {
    arg.written_if = r.word();
    if (!r.eat("!)")) r.error("!) after the name of what is written to");
    arg.written = true;
  }
  bool optional_item = r.eat("?");
  if (r.eat("[")) {
    if (!r.eat("]")) {
      arg.repeat = std::atoi(r.word().c_str());  // of tensors: they may also come one by one, as varargs
      if (!r.eat("]")) r.error("]");
    }
    arg.type = list_of(arg.type, optional_item, r);
    arg.optional = r.eat("?");
  } else {
    arg.optional = optional_item;
  }
  arg.name = r.word();
  if (r.eat("=")) {
    if (r.eat("[")) {  // a list of ints, perhaps empty
      arg.has_default = true;
      arg.value.tag = Tag::Ints;
      while (!r.eat("]")) {
        arg.ints.push_back(std::atoll(r.literal().c_str()));
        r.eat(",");
      }
    } else {
      set_default(arg, r.literal(), r);
    }
  }
  return arg;
}

void read_arguments(Reader& r, Schema& schema) {
  if (!r.eat("(")) r.error("(");
  bool keyword_only = false;
  while (!r.eat(")")) {
    if (r.eat("*")) {
      keyword_only = true;
    } else {
      Arg arg = read_arg(r);
      arg.keyword_only = keyword_only;
      schema.args.push_back(std::move(arg));
      if (!keyword_only) ++schema.npositional;
    }
    if (!r.eat(",")) {
      if (!r.eat(")")) r.error(", or )");
      break;
    }
  }
  for (Arg& arg : schema.args)  // a name that is no argument's says nothing
    if (std::ranges::none_of(schema.args, [&](const Arg& a) { return a.name == arg.written_if; }))
      arg.written_if.clear();
  for (Arg& arg : schema.args) {  // the vector does not move any more: point list and str defaults at their memory
    if (!arg.ints.empty() || arg.value.tag == Tag::Ints) arg.value = Value(Dims(arg.ints));
    if (arg.value.tag == Tag::Str) arg.value.str = {arg.str.data(), int64_t(arg.str.size())};
  }
}

void read_results(Reader& r, Schema& schema) {
  if (!r.eat("->")) r.error("->");
  if (!r.eat("(")) {
    std::string type = r.word();
    schema.list_result = r.eat("[");
    if (type == "None") schema.nresults = 0;
    return;
  }
  while (!r.eat(")")) {
    r.word();
    schema.results.push_back(r.at < r.text.size() && r.text[r.at] == ' ' ? r.word() : "");
    r.eat(",");
  }
  schema.nresults = int(schema.results.size());
}

}  // namespace

Schema parse_schema(const std::string& text) {
  Reader r{text};
  Schema schema;
  schema.text = text;
  schema.name = r.word();
  if (r.eat("::")) schema.name += "::" + r.word();  // a library's own operator
  read_arguments(r, schema);
  read_results(r, schema);
  return schema;
}

}  // namespace flambeau

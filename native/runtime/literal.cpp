#include "literal.h"

#include "../core/memory_format.h"

namespace flambeau {

DType read_dtype(Words& words) {
  const std::string_view name = words.text();
  for (int k = 0; k < kDTypes; ++k)
    if (name == kDTypeName[k]) return DType(k);
  words.fail(concat("'", name, "' is no dtype"));
}

static Value format_named(Words& words) {
  const std::string_view name = words.text();
  for (const FormatEntry& each : kFormats)
    if (name == each.name) return Value(int64_t(each.code));
  words.fail(concat("'", name, "' is no memory format or layout"));
}

Given read_given(Words& words) { return Given(words.within(0, int(Given::Given) + 1, "the kind of an argument")); }

Value read_literal(Words& words, Given kind) {
  Value v;
  switch (kind) {
    case Given::None: break;
    case Given::Bool: return Value(words.within(0, 2, "a bool") == 1);
    case Given::Int: return Value(words.next());
    case Given::Float: return Value(words.real());
    case Given::Complex:
      v.tag = Tag::Complex;
      v.c.re = words.real();
      v.c.im = words.real();
      break;
    case Given::Text: {
      const std::string_view text = words.text();
      v.tag = Tag::Str;
      v.str = {text.data(), int64_t(text.size())};
      break;
    }
    case Given::DType:
      v.tag = Tag::DType;
      v.dtype = read_dtype(words);
      break;
    case Given::Device:
      v.tag = Tag::Device;
      v.device = {words.within(0, 2, "a device") ? DeviceType::Meta : DeviceType::CPU, -1};
      break;
    case Given::Format: return format_named(words);
    default: words.fail("an argument is no literal");
  }
  return v;
}

}  // namespace flambeau

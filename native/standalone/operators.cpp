#include "operators.h"

#include "../core/op.h"

namespace flambeau::standalone {
namespace {

const struct {
  const char *kind, *schema, *promote, *numbers;
  bool keeps_format;
} kRecords[] = {
#include "operators.inc"  // from the records, by cmake/make_operators.py
};

}  // namespace

void define_operators() {
  static const bool once = [] {
    for (const auto& r : kRecords)
      add_op(make_op(r.kind, r.schema, r.promote, r.numbers))->keeps_format = r.keeps_format;
    return true;
  }();
  (void)once;
}

}  // namespace flambeau::standalone

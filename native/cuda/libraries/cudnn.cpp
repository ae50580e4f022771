#include "cudnn.h"

#include <utility>

namespace flambeau::cuda::cudnn {

Library& library_of(const Constants& constants) {
  static Library* opened = open_table<Library>(kName, constants);
  return *opened;
}

Handle* handle_of(Library& l, int device, const char* op) {
  return l.handles.of_device(device, [&](Handle** made) { check(l, l.create(made), op, "cudnnCreate"); });
}

int type_of(const std::string& dtype, const Constants& constants) {
  if (dtype == "float32") return 0;
  if (dtype == "float64") return 1;
  if (dtype == "float16") return 2;
  if (dtype == "bfloat16") return 9;
  throw Unsupported(concat(constants.op, ": cuDNN does not compute in ", dtype));
}

void check(const Library& l, Status status, const char* op, const char* where) {
  if (__builtin_expect(status == 0, 1)) return;
  const char* name = l.status_name(status);
  if (unsupported(status)) throw Unsupported(concat(op, ": cuDNN: ", name ? name : "?", " in ", where));
  library_failed(op, kName, name, status, where);
}

}  // namespace flambeau::cuda::cudnn

// Loads the LAPACK library when the first decomposition asks for it, so that programs without one do not pay for it.
#include "lapack.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace flambeau {

namespace lapack {
namespace {

void* library = nullptr;

// OpenBLAS makes its own threads as it is loaded; one is all it is asked for, and other libraries' copies of it, which
// read the same variable, are loaded by now or get it back.
void* open_alone(const std::string& path) {
  const char* name = "OPENBLAS_NUM_THREADS";
  const char* before = std::getenv(name);
  std::string kept = before ? before : "";
  setenv(name, "1", 1);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (before) setenv(name, kept.c_str(), 1);
  else unsetenv(name);
  return handle;
}

}  // namespace

void load() {
  if (library) return;  // only ever written with the interpreter lock held
  std::string path = hooks.lapack_library();
  library = open_alone(path);
  if (!library) runtime_error("LAPACK: cannot load ", path, ": ", dlerror());
  if (void* f = dlsym(library, "scipy_openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(f)(1);
}

void* symbol(char letter, const char* name) {
  std::string full = std::string("scipy_") + letter + name + "_";
  void* f = library ? dlsym(library, full.c_str()) : nullptr;
  if (!f) runtime_error("LAPACK: the library has no routine ", full);
  return f;
}

}  // namespace lapack
}  // namespace flambeau

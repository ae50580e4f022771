// _C.ModuleBase: what nn.Module needs at native speed. Defined in module_base.cpp.
#pragma once
struct _object;

namespace flambeau {

void add_module_base(_object* module);  // adds the type ModuleBase and its switch to the extension module

}  // namespace flambeau

// What save and load need of storages. Defined in storage.cpp.
#pragma once
struct _object;

namespace flambeau {

void add_storage(_object* module);  // _C.storage_bytes, _C.storage_view, _C.storage_id
void add_shared_memory(_object* module);  // _C.SharedMemory (shared_memory.cpp)
void add_shared_group(_object* module);   // _C.SharedGroup (shared_group.cpp)
void add_shared_heap(_object* module);    // _C.heap_write, _C.heap_adopt, _C.heap_restore (shared_heap.cpp)

}  // namespace flambeau

# find_package(Flambeau): the target Flambeau::flambeau, for programs that run exported models without Python.
# flambeau.utils.cmake_prefix_path says where this file is.
get_filename_component(_flambeau "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Flambeau::flambeau)
  add_library(Flambeau::flambeau SHARED IMPORTED)
  set_target_properties(Flambeau::flambeau PROPERTIES
    IMPORTED_LOCATION "${_flambeau}/lib/libflambeau.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_flambeau}/include")
endif()

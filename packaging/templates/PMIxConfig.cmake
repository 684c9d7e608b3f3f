# find_package(PMIx) gives the target PMIx::pmix, and PMIx_LIBRARIES and PMIx_INCLUDE_DIRS. The directory may be moved.
get_filename_component(_pmix_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET PMIx::pmix)
  add_library(PMIx::pmix SHARED IMPORTED)
  set_target_properties(PMIx::pmix PROPERTIES
    IMPORTED_LOCATION "${_pmix_prefix}/lib/libpmix.so.2"
    IMPORTED_SONAME "libpmix.so.2"
    INTERFACE_INCLUDE_DIRECTORIES "${_pmix_prefix}/include")
endif()
set(PMIx_LIBRARIES PMIx::pmix)
set(PMIx_INCLUDE_DIRS "${_pmix_prefix}/include")
unset(_pmix_prefix)

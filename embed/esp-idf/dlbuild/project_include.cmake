# Read by ESP-IDF for every project that has this component: add the folder that
# `dlbuild embed esp-idf` prints to EXTRA_COMPONENT_DIRS, then, in a component,
#
#   idf_component_register(SRCS main.c)
#   idf_dlbuild_model(kws TARGET board)

if(NOT DLBUILD_PYTHON)
  idf_build_get_property(_dlbuild_python PYTHON)
  set(DLBUILD_PYTHON "${_dlbuild_python}" CACHE FILEPATH "The Python that has dlbuild")
  unset(_dlbuild_python)
endif()
find_package(dlbuild CONFIG REQUIRED NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH
             PATHS "${CMAKE_CURRENT_LIST_DIR}/../../cmake")

# A macro: a function would not see the component's own variables.
macro(idf_dlbuild_model library)
  # Components are read once more before there is a compiler, to learn what they require.
  if(NOT CMAKE_BUILD_EARLY_EXPANSION)
    dlbuild_add_model(${library} ${ARGN})
    target_link_libraries(${COMPONENT_LIB} PRIVATE ${library})
  endif()
endmacro()

# The CMake package of dlbuild: models become C libraries of your project.
#
#   execute_process(COMMAND dlbuild embed cmake OUTPUT_VARIABLE dlbuild_DIR
#                   OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
#   find_package(dlbuild 0.1 CONFIG REQUIRED)
#   dlbuild_add_model(kws TARGET board)
#   target_link_libraries(firmware PRIVATE kws)
#
# dlbuild_DIR is found in a cross build too, where CMAKE_FIND_ROOT_PATH_MODE_PACKAGE hides all
# packages of this computer. DLBUILD_PYTHON names the Python that has dlbuild, if it is not the one
# that this package is installed for.

if(CMAKE_VERSION VERSION_LESS 3.20)
  set(dlbuild_FOUND FALSE)
  set(dlbuild_NOT_FOUND_MESSAGE "dlbuild needs CMake 3.20, for depfiles; this is ${CMAKE_VERSION}")
  return()
endif()

include("${CMAKE_CURRENT_LIST_DIR}/dlbuild-python.cmake")
_dlbuild_find_python(_dlbuild_fault)
if(_dlbuild_fault)
  set(dlbuild_FOUND FALSE)
  set(dlbuild_NOT_FOUND_MESSAGE "${_dlbuild_fault}")
  unset(_dlbuild_fault)
  return()
endif()
unset(_dlbuild_fault)

include("${CMAKE_CURRENT_LIST_DIR}/dlbuild-model.cmake")

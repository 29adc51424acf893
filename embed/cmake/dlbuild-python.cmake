# The Python that has dlbuild.

# Set DLBUILD_PYTHON, or FAULT to what is wrong. Tried in this order: what the user says, the Python
# beside which this package is installed, and what CMake finds, a virtual environment first.
function(_dlbuild_find_python FAULT)
  set(fault "")
  if(DLBUILD_PYTHON)
    _dlbuild_try_python("${DLBUILD_PYTHON}" fault)
    set(${FAULT} "${fault}" PARENT_SCOPE)
    return()
  endif()
  set(candidates "")
  set(folder "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  foreach(_ RANGE 8)
    cmake_path(GET folder PARENT_PATH folder)
    foreach(name IN ITEMS bin/python3 Scripts/python.exe)
      if(EXISTS "${folder}/pyvenv.cfg" AND EXISTS "${folder}/${name}")
        list(APPEND candidates "${folder}/${name}")
      endif()
    endforeach()
  endforeach()
  if(NOT candidates)
    if(NOT Python3_EXECUTABLE)
      set(Python3_FIND_VIRTUALENV FIRST)
      find_package(Python3 3.11 COMPONENTS Interpreter QUIET)
    endif()
    set(candidates "${Python3_EXECUTABLE}")
  endif()
  list(GET candidates 0 python)
  if(NOT python)
    set(fault "there is no Python of 3.11 or later; name one with -DDLBUILD_PYTHON=...")
  else()
    _dlbuild_try_python("${python}" fault)
  endif()
  if(NOT fault)
    set(DLBUILD_PYTHON "${python}" CACHE FILEPATH "The Python that has dlbuild")
  endif()
  set(${FAULT} "${fault}" PARENT_SCOPE)
endfunction()

# Set FAULT unless this Python has the dlbuild that this package belongs to.
function(_dlbuild_try_python PYTHON FAULT)
  execute_process(
    COMMAND "${PYTHON}" -P -m dlbuild version
    RESULT_VARIABLE status OUTPUT_VARIABLE version ERROR_VARIABLE said
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(fault "")
  if(NOT status EQUAL 0)
    set(fault "'${PYTHON} -m dlbuild' does not run; install dlbuild for it, or name another Python \
with -DDLBUILD_PYTHON=...\n${said}")
  else()
    include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/dlbuild-config-version.cmake")
    if(NOT version MATCHES "^${PACKAGE_VERSION}")
      set(fault "this CMake package is of dlbuild ${PACKAGE_VERSION}, but '${PYTHON}' has dlbuild \
${version}; set dlbuild_DIR to what '${PYTHON} -m dlbuild embed cmake' prints")
    endif()
  endif()
  set(${FAULT} "${fault}" PARENT_SCOPE)
endfunction()

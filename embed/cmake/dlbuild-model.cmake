# dlbuild_add_model(): one library for one model on one target of dlbuild.yaml.

#   dlbuild_add_model(<library> [MODEL <name>] [TARGET <name>] [RECIPE <dlbuild.yaml>]
#                     [OPTIONS <key=value>...] [ARCHIVE] [PORT <library>])
#
# MODEL    its name in the recipe; default: the library's name
# TARGET   its target there; may be left out if the recipe has one only
# RECIPE   default: dlbuild.yaml beside this CMakeLists.txt
# OPTIONS  override options of every build of the recipe
# ARCHIVE  link what dlbuild compiles with the target's toolchain, sizes checked; without it your
#          toolchain and flags compile the C
# PORT     a library of yours that has the functions of dlb_port.h; default: the port that copies
#          with memcpy, if the model needs one
#
# All models of a target are made by one run of dlbuild, since they share its memories.
function(dlbuild_add_model library)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ARCHIVE" "MODEL;TARGET;RECIPE;PORT" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "dlbuild_add_model(${library}): unknown or without a value: \
${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT arg_MODEL)
    set(arg_MODEL "${library}")
  endif()
  if(NOT arg_RECIPE)
    set(arg_RECIPE dlbuild.yaml)
  endif()
  cmake_path(ABSOLUTE_PATH arg_RECIPE NORMALIZE)
  cmake_path(GET arg_RECIPE FILENAME file)
  if(NOT file STREQUAL "dlbuild.yaml" OR NOT EXISTS "${arg_RECIPE}")
    message(FATAL_ERROR "dlbuild_add_model(${library}): RECIPE must name a dlbuild.yaml, and \
${arg_RECIPE} is none")
  endif()
  cmake_path(GET arg_RECIPE PARENT_PATH folder)

  # What decides the files that are made. Its digest names the folder: other options, other files.
  set(asked -C "${folder}")
  if(NOT arg_ARCHIVE)
    list(APPEND asked --sources)
  endif()
  foreach(option IN LISTS arg_OPTIONS)
    list(APPEND asked -D "${option}")
  endforeach()
  string(SHA256 id "${asked}")
  string(SUBSTRING "${id}" 0 8 id)
  set(out "${CMAKE_BINARY_DIR}/dlbuild/${id}")

  _dlbuild_read_outputs("${library}" "${arg_RECIPE}" "${id}" "${out}" "${asked}")
  include("${out}/outputs.cmake")
  set(target "${arg_TARGET}")
  if(NOT target)
    set(target "${DLBUILD_TARGETS}")
  endif()
  string(MAKE_C_IDENTIFIER "DLBUILD ${target}" prefix)
  if(NOT DEFINED "${prefix}_${arg_MODEL}_SOURCES")
    message(FATAL_ERROR "dlbuild_add_model(${library}): nothing is built for MODEL '${arg_MODEL}' \
and TARGET '${target}'\n  models: ${DLBUILD_MODELS}\n  targets: ${DLBUILD_TARGETS}\n  in: \
${arg_RECIPE}")
  endif()

  _dlbuild_add_step("${id}" "${out}" "${target}" "${arg_RECIPE}" "${asked}")
  foreach(kind IN ITEMS SOURCES HEADERS PORT IMAGES ARCHIVE)
    set(${kind} "${${prefix}_${arg_MODEL}_${kind}}")
  endforeach()
  list(GET HEADERS 0 header)
  cmake_path(GET header PARENT_PATH includes)
  file(MAKE_DIRECTORY "${includes}")
  # The step may be of another folder of the project, where this is not known.
  set_source_files_properties(${SOURCES} ${HEADERS} ${PORT} PROPERTIES GENERATED TRUE)
  set(port "${PORT}")
  if(arg_PORT)
    set(port "")
  endif()

  if(arg_ARCHIVE)
    add_library(${library} STATIC IMPORTED GLOBAL)
    add_dependencies(${library} dlbuild_${target}_${id})
    set_target_properties(${library} PROPERTIES IMPORTED_LOCATION "${ARCHIVE}")
    target_include_directories(${library} INTERFACE "${includes}")
    set(scope INTERFACE)
    if(port)
      add_library(${library}_port STATIC ${port})
      add_dependencies(${library}_port dlbuild_${target}_${id})
      target_link_libraries(${library} INTERFACE ${library}_port)
    endif()
  else()
    add_library(${library} STATIC ${SOURCES} ${HEADERS} ${port})
    add_dependencies(${library} dlbuild_${target}_${id})
    target_include_directories(${library} PUBLIC "${includes}")
    target_compile_features(${library} PRIVATE c_std_99)
    set(scope PUBLIC)
  endif()
  # Weights that are flashed apart: for a target of yours that depends on the library.
  set_property(TARGET ${library} PROPERTY DLBUILD_IMAGES "${IMAGES}")
  if(arg_PORT)
    target_link_libraries(${library} ${scope} ${arg_PORT})
  endif()
  if(NOT MSVC)
    target_link_libraries(${library} ${scope} m)
  endif()
endfunction()

# Write outputs.cmake: the files that will be made, once in each run of CMake. CMake runs again when
# the recipe changes.
function(_dlbuild_read_outputs library recipe id out asked)
  get_property(is_known GLOBAL PROPERTY _DLBUILD_OUTPUTS_${id})
  if(is_known)
    return()
  endif()
  execute_process(
    COMMAND "${DLBUILD_PYTHON}" -P -m dlbuild outputs --cmake ${asked} -B "${out}"
    RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "dlbuild_add_model(${library}): ${recipe}\n${said}")
  endif()
  file(WRITE "${out}/outputs.cmake" "${text}")
  include("${out}/outputs.cmake")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${DLBUILD_RECIPE_FILES})
  set_property(GLOBAL PROPERTY _DLBUILD_OUTPUTS_${id} TRUE)
endfunction()

# Add the target that runs dlbuild for one of its targets, unless another library has done so.
function(_dlbuild_add_step id out target recipe asked)
  set(step dlbuild_${target}_${id})
  if(TARGET ${step})
    return()
  endif()
  set(files "")
  string(MAKE_C_IDENTIFIER "DLBUILD ${target}" prefix)
  foreach(model IN LISTS DLBUILD_MODELS)
    foreach(kind IN ITEMS SOURCES HEADERS BINARIES PORT IMAGES ARCHIVE)
      list(APPEND files ${${prefix}_${model}_${kind}})
    endforeach()
  endforeach()
  set(stamp "${out}/${target}.stamp")

  # A stamp as the output, the files as by-products: files whose content stays keep their times, and
  # Makefiles would start a step again for ever whose own outputs are older than its inputs.
  cmake_policy(PUSH)
  cmake_policy(SET CMP0116 NEW)
  add_custom_command(
    OUTPUT "${stamp}"
    BYPRODUCTS ${files}
    COMMAND "${DLBUILD_PYTHON}" -P -m dlbuild build ${asked} -B "${out}" --target "${target}"
            --stamp "${stamp}" --depfile "${stamp}.d"
    DEPENDS "${recipe}"
    DEPFILE "${stamp}.d"
    COMMENT "dlbuild: models of ${target}"
    VERBATIM)
  cmake_policy(POP)
  add_custom_target(${step} DEPENDS "${stamp}")

  # Makefiles do not ask whether by-products are there, nor forget inputs that are gone.
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    file(WRITE "${stamp}.files" "${files}")
    add_custom_target(${step}_check
      COMMAND "${CMAKE_COMMAND}" -D "STAMP=${stamp}"
              -D "MEMORY=${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${step}.dir/compiler_depend.internal"
              -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/dlbuild-check.cmake"
      VERBATIM)
    add_dependencies(${step} ${step}_check)
  endif()
endfunction()

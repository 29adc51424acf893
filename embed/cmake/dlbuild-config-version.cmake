# Which version this package is, read where Python reads it. While the major version is 0, another
# minor version may differ in what it offers.
foreach(_dlbuild_init IN ITEMS ../../../__init__.py ../../dlbuild/__init__.py)
  if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/${_dlbuild_init}")
    file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/${_dlbuild_init}" _dlbuild_line REGEX "^__version__ = ")
    string(REGEX REPLACE "^__version__ = \"([0-9.]+).*" "\\1" PACKAGE_VERSION "${_dlbuild_line}")
    break()
  endif()
endforeach()
unset(_dlbuild_init)
unset(_dlbuild_line)

set(PACKAGE_VERSION_COMPATIBLE FALSE)
set(PACKAGE_VERSION_EXACT FALSE)
if(PACKAGE_FIND_VERSION_RANGE)
  # A range says itself how far it goes.
  if(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION_MIN
     AND ((PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "INCLUDE"
           AND PACKAGE_VERSION VERSION_LESS_EQUAL PACKAGE_FIND_VERSION_MAX)
          OR (PACKAGE_FIND_VERSION_RANGE_MAX STREQUAL "EXCLUDE"
              AND PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION_MAX)))
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
  endif()
elseif(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  set(PACKAGE_VERSION_EXACT TRUE)
elseif(PACKAGE_VERSION VERSION_GREATER PACKAGE_FIND_VERSION)
  string(REGEX MATCH "^[0-9]+" _dlbuild_major "${PACKAGE_VERSION}")
  if(_dlbuild_major EQUAL PACKAGE_FIND_VERSION_MAJOR)
    string(REGEX MATCH "^0\\.[0-9]+" _dlbuild_minor "${PACKAGE_VERSION}")
    if(NOT _dlbuild_minor OR PACKAGE_FIND_VERSION_COUNT LESS 2
       OR _dlbuild_minor STREQUAL "0.${PACKAGE_FIND_VERSION_MINOR}")
      set(PACKAGE_VERSION_COMPATIBLE TRUE)
    endif()
    unset(_dlbuild_minor)
  endif()
  unset(_dlbuild_major)
endif()

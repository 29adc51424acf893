# Makefiles alone need this, before each build.

# Remove a stamp if one of the files that it stands for is missing, so that they are made again.
file(READ "${STAMP}.files" files)
foreach(file IN LISTS files)
  if(NOT EXISTS "${file}")
    file(REMOVE "${STAMP}")
    break()
  endif()
endforeach()

# CMake adds what a depfile names to what it named before, and never forgets an input that is gone,
# for which each build would start anew. Without its memory it reads the depfile alone.
if(EXISTS "${MEMORY}")
  file(STRINGS "${MEMORY}" inputs REGEX "^ ")
  foreach(input IN LISTS inputs)
    string(STRIP "${input}" input)
    if(NOT EXISTS "${input}")
      file(REMOVE "${MEMORY}")
      break()
    endif()
  endforeach()
endif()

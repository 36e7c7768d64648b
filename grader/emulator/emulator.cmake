# How a student's translated files are compiled and linked:
#   EMULATOR_COMPILE_OPTIONS, EMULATOR_LINK_OPTIONS
# The project that compiles them adds `-include cuda_runtime.h`, and the runtime library when it links.

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/compile_options.txt EMULATOR_COMPILE_OPTIONS REGEX "^-")
list(
    APPEND
    EMULATOR_COMPILE_OPTIONS
    # The debug information names files as the student knows them.
    -ffile-prefix-map=${CMAKE_BINARY_DIR}=.)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/watch_options_clang.txt watch REGEX "^[-\"]")
else()
    file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/watch_options_gnu.txt watch REGEX "^[-\"]")
endif()
list(TRANSFORM watch REPLACE "\"" "")
list(APPEND EMULATOR_COMPILE_OPTIONS ${watch})
set(EMULATOR_LINK_OPTIONS "")
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # A __device__ function in a header that two files include is defined twice, as nvcc allows.
    list(APPEND EMULATOR_LINK_OPTIONS -Wl,-z,muldefs)
endif()

# add_binding(name folder backend cuda): compiles folder/binding.cpp for a backend into an object
# file, installed as grader/_prebuilt/<backend>/<name>/binding.o beside the fingerprint of its
# sources. The target `cuda` has the <cuda_runtime.h> of that backend.
# It is the slow half of a submission's module (pybind11's templates), so it is built only once.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)

set(KERNEL_GRADER_NATIVE ${CMAKE_CURRENT_LIST_DIR})

function(add_binding name folder backend cuda)
  set(target binding_${name})
  add_library(${target} OBJECT ${folder}/binding.cpp)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 17
    CXX_STANDARD_REQUIRED ON
    CXX_VISIBILITY_PRESET hidden    # pybind11's types must not leak out of the module
    POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PRIVATE ${KERNEL_GRADER_NATIVE} ${folder})
  target_compile_options(${target} PRIVATE -O1 -Wall -Wextra -Werror)
  target_link_libraries(${target} PRIVATE pybind11::pybind11 ${cuda})

  execute_process(
    COMMAND ${Python_EXECUTABLE} ${KERNEL_GRADER_NATIVE}/fingerprint.py ${folder}
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/${name}.fingerprint
    COMMAND_ERROR_IS_FATAL ANY)
  install(FILES $<TARGET_OBJECTS:${target}>
    DESTINATION grader/_prebuilt/${backend}/${name} RENAME binding.o)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.fingerprint
    DESTINATION grader/_prebuilt/${backend}/${name} RENAME fingerprint)
endfunction()

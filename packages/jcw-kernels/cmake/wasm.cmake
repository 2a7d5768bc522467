# jcw.wasm and jcw-relaxed.wasm: jcw.h as WebAssembly modules, of which wasm/index.mjs loads one. By Debian's emscripten:
#   emcmake cmake -S . -B build/wasm -DJCW_PYTHON=OFF && cmake --build build/wasm && cmake --install build/wasm --prefix wasm
# They import nothing but a clock and the environment, in the names that WASI gives them.
function(jcw_module name)
  add_executable(${name} cpp/interface.cpp ${ARGN})
  target_include_directories(${name} PRIVATE include)
  target_compile_definitions(${name} PRIVATE JCW_VERSION="${JCW_VERSION}")
  target_link_libraries(${name} PRIVATE jcw_engine)
  target_link_options(${name} PRIVATE --no-entry -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH
    -sEXPORTED_FUNCTIONS=_jcw_error,_jcw_free,_jcw_load,_jcw_profile,_jcw_run,_jcw_shapes,_jcw_version,_malloc,_free)
  set_target_properties(${name} PROPERTIES SUFFIX .wasm)
  install(FILES $<TARGET_FILE:${name}> DESTINATION .)
endfunction()
jcw_module(jcw)

# The same with relaxed SIMD, which multiplies and adds in one step where the host's processor does. Of two tables of kernels
# the linker takes the one that is given as an object, and leaves that of the engine's archive where it is.
jcw_kernel_objects(wasm_relaxed isa_wasm -msimd128 -mrelaxed-simd)
jcw_module(jcw-relaxed $<TARGET_OBJECTS:jcw_wasm_relaxed>)
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-msimd128 -mrelaxed-simd")
check_cxx_source_compiles("
  #include <wasm_simd128.h>
  int main() {
    const v128_t one = wasm_f32x4_splat(1);
    return wasm_f32x4_extract_lane(wasm_f32x4_relaxed_madd(one, one, one), 0);
  }" JCW_RELAXED_MADD)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT JCW_RELAXED_MADD)  # Debian's has it under another name and number
  find_package(Python REQUIRED COMPONENTS Interpreter)
  target_compile_definitions(jcw_wasm_relaxed PRIVATE JCW_DRAFT_OF_RELAXED_SIMD)
  set(JCW_RELAXED_OPCODES ${CMAKE_CURRENT_SOURCE_DIR}/cmake/relaxed_opcodes.py)
  add_custom_command(TARGET jcw-relaxed POST_BUILD COMMAND ${Python_EXECUTABLE} ${JCW_RELAXED_OPCODES} $<TARGET_FILE:jcw-relaxed>)
  set_property(TARGET jcw-relaxed APPEND PROPERTY LINK_DEPENDS ${JCW_RELAXED_OPCODES})
endif()

# jcw.wasm: jcw.h as a WebAssembly module, which wasm/index.mjs loads. By Debian's emscripten:
#   emcmake cmake -S . -B build/wasm -DJCW_PYTHON=OFF && cmake --build build/wasm && cmake --install build/wasm --prefix wasm
# It imports nothing but a clock and the environment, in the names that WASI gives them.
add_executable(jcw_module cpp/interface.cpp)
target_include_directories(jcw_module PRIVATE include)
target_compile_definitions(jcw_module PRIVATE JCW_VERSION="${JCW_VERSION}")
target_link_libraries(jcw_module PRIVATE jcw_engine)
target_link_options(jcw_module PRIVATE --no-entry -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH
  -sEXPORTED_FUNCTIONS=_jcw_error,_jcw_free,_jcw_load,_jcw_profile,_jcw_run,_jcw_shapes,_jcw_version,_malloc,_free)
set_target_properties(jcw_module PROPERTIES OUTPUT_NAME jcw SUFFIX .wasm)
install(FILES $<TARGET_FILE:jcw_module> DESTINATION .)

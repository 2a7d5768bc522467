# libjcw: the engine behind jcw.h, for find_package(jcw) and pkg-config. `cmake --install build --prefix DIR` installs
# libraries, header, and what tells other projects of them.
include(CheckLinkerFlag)
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(jcw_interface OBJECT cpp/interface.cpp)
target_link_libraries(jcw_interface PRIVATE jcw_flags)
target_include_directories(jcw_interface PRIVATE include)
target_compile_definitions(jcw_interface PRIVATE JCW_VERSION="${JCW_VERSION}")
target_compile_options(jcw_interface PRIVATE -Wconversion)

set(JCW_OBJECTS $<TARGET_OBJECTS:jcw_interface> $<TARGET_OBJECTS:jcw_engine>)
get_property(JCW_KERNELS GLOBAL PROPERTY JCW_KERNELS)
foreach(isa IN LISTS JCW_KERNELS)
  list(APPEND JCW_OBJECTS $<TARGET_OBJECTS:jcw_${isa}>)
endforeach()

# What a linker for C has to be told: those of CMake learn it from the target, all others from pkg-config.
set(JCW_RUNTIME ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER JCW_RUNTIME INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
list(REMOVE_DUPLICATES JCW_RUNTIME)

function(jcw_library target kind)
  add_library(${target} ${kind} ${JCW_OBJECTS})
  add_library(jcw::${target} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME jcw LINKER_LANGUAGE CXX)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:jcw_flags>)
endfunction()

jcw_library(jcw SHARED)
target_link_libraries(jcw PRIVATE Threads::Threads)
# A program is built against one minor version; within it functions are only added.
set_target_properties(jcw PROPERTIES VERSION ${JCW_VERSION} SOVERSION 0)
# Instances of the standard library's templates would be exported with the functions of jcw.h.
set(JCW_SYMBOLS "${PROJECT_SOURCE_DIR}/cmake/jcw.map")
check_linker_flag(CXX "-Wl,--version-script=${JCW_SYMBOLS}" JCW_HAS_VERSION_SCRIPT)
if(JCW_HAS_VERSION_SCRIPT)
  target_link_options(jcw PRIVATE "-Wl,--version-script=${JCW_SYMBOLS}")
  set_target_properties(jcw PROPERTIES LINK_DEPENDS "${JCW_SYMBOLS}")
endif()

jcw_library(jcw_static STATIC)
target_link_libraries(jcw_static PUBLIC Threads::Threads INTERFACE ${JCW_RUNTIME})

if(SKBUILD)  # the wheel holds none of it
  return()
endif()

set(JCW_PACKAGE "${CMAKE_INSTALL_LIBDIR}/cmake/jcw")
install(TARGETS jcw jcw_static EXPORT jcwTargets)
install(FILES include/jcw.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT jcwTargets NAMESPACE jcw:: DESTINATION "${JCW_PACKAGE}")
configure_package_config_file(cmake/jcwConfig.cmake.in jcwConfig.cmake INSTALL_DESTINATION "${JCW_PACKAGE}")
write_basic_package_version_file(jcwConfigVersion.cmake VERSION ${JCW_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/jcwConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/jcwConfigVersion.cmake"
        DESTINATION "${JCW_PACKAGE}")

list(TRANSFORM JCW_RUNTIME PREPEND -l OUTPUT_VARIABLE JCW_RUNTIME_FLAGS)
list(JOIN JCW_RUNTIME_FLAGS " " JCW_RUNTIME_FLAGS)
file(RELATIVE_PATH JCW_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /p)
configure_file(cmake/jcw.pc.in jcw.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/jcw.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# jcw-VERSION.aar, for Gradle: classes.jar with libjcw_jni.so for Java and Kotlin, libjcw.so with jcw.h for native code by Prefab.
#   cmake -S . -B build/arm64 -DJCW_PYTHON=OFF -DJCW_ANDROID=ON -DANDROID_ABI=arm64-v8a -DANDROID_PLATFORM=android-21 \
#     -DCMAKE_TOOLCHAIN_FILE=$NDK/build/cmake/android.toolchain.cmake && cmake --build build/arm64 --target aar
# Without an NDK the libraries in it are for this machine, or that of another toolchain file: to be tested, not to be shipped.
find_package(Java 9 REQUIRED COMPONENTS Development)
include(UseJava)

set(JCW_ABI_aarch64 arm64-v8a)
set(JCW_ABI_x86_64 x86_64)
set(JCW_ABI "${JCW_ABI_${CMAKE_SYSTEM_PROCESSOR}}")
set(JCW_API 21)
set(JCW_NDK 0)
if(DEFINED ANDROID_ABI)  # what the NDK's toolchain file says of itself
  set(JCW_ABI "${ANDROID_ABI}")
  set(JCW_API "${ANDROID_PLATFORM_LEVEL}")
  set(JCW_NDK "${ANDROID_NDK_MAJOR}")
  # A shared runtime would be one more library to ship.
  if(ANDROID_STL AND NOT ANDROID_STL STREQUAL "c++_static")
    message(FATAL_ERROR "ANDROID_STL is ${ANDROID_STL}, expected c++_static: leave it out")
  endif()
elseif(ANDROID)
  message(FATAL_ERROR "Use the NDK's own toolchain file, build/cmake/android.toolchain.cmake")
endif()
if(NOT JCW_ABI MATCHES "^(arm64-v8a|x86_64)$")
  message(FATAL_ERROR "The ABI is '${JCW_ABI}', expected arm64-v8a or x86_64: there are no kernels for others")
endif()

# Java 8 is what Android 5 runs. A newer compiler calls it obsolete.
set(CMAKE_JAVA_COMPILE_FLAGS --release 8 -Xlint:all,-options)
if(JCW_WERROR)
  list(APPEND CMAKE_JAVA_COMPILE_FLAGS -Werror)
endif()
file(GLOB JCW_JAVA CONFIGURE_DEPENDS android/java/io/github/jcw/*.java)
add_jar(jcw_classes SOURCES ${JCW_JAVA} OUTPUT_NAME classes)
get_target_property(JCW_CLASSES jcw_classes JAR_FILE)

set(JCW_JNI_SYMBOLS "${PROJECT_SOURCE_DIR}/android/jni.map")
add_library(jcw_jni SHARED android/jni.cpp)
target_compile_options(jcw_jni PRIVATE -Wconversion -fno-exceptions -fno-rtti)
target_link_libraries(jcw_jni PRIVATE jcw_static jcw_flags)
target_link_options(jcw_jni PRIVATE "-Wl,--version-script=${JCW_JNI_SYMBOLS}")
set_target_properties(jcw_jni PROPERTIES LINK_DEPENDS "${JCW_JNI_SYMBOLS}")
if(NOT ANDROID)  # the NDK has the header where its compiler looks
  file(REAL_PATH "${Java_JAVAC_EXECUTABLE}" JCW_JAVAC)
  cmake_path(GET JCW_JAVAC PARENT_PATH JCW_JDK)
  find_path(JCW_JNI_INCLUDE jni.h HINTS "${JCW_JDK}/../include" REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  target_include_directories(jcw_jni SYSTEM PRIVATE "${JCW_JNI_INCLUDE}" "${JCW_JNI_INCLUDE}/linux")
endif()

# Phones have pages of 4 or of 16 KiB, and no versions in the names of libraries.
target_link_options(jcw PRIVATE -Wl,-z,max-page-size=16384)
target_link_options(jcw_jni PRIVATE -Wl,-z,max-page-size=16384)
set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)

# Prefab: https://google.github.io/prefab. Version 1 of its packages, which every version of it reads. The runtime of C++ is
# inside the library and hidden, which is to be called "none".
foreach(name AndroidManifest.xml prefab.json abi.json)
  configure_file(android/aar/${name}.in aar-files/${name} @ONLY)
endforeach()
file(TOUCH "${CMAKE_CURRENT_BINARY_DIR}/aar-files/R.txt")  # names no resources, and has to be there
set(JCW_GENERATED "${CMAKE_CURRENT_BINARY_DIR}/aar-files")
set(JCW_MODULE prefab/modules/jcw)
function(jcw_into_aar folder)
  install(${ARGN} DESTINATION ${folder} COMPONENT aar EXCLUDE_FROM_ALL)
endfunction()
jcw_into_aar(. FILES "${JCW_GENERATED}/AndroidManifest.xml" "${JCW_GENERATED}/R.txt" "${JCW_CLASSES}" android/aar/proguard.txt)
jcw_into_aar(jni/${JCW_ABI} TARGETS jcw_jni LIBRARY)
jcw_into_aar(prefab FILES "${JCW_GENERATED}/prefab.json")
jcw_into_aar(${JCW_MODULE} FILES android/aar/module.json)
jcw_into_aar(${JCW_MODULE}/include FILES include/jcw.h)
jcw_into_aar(${JCW_MODULE}/libs/android.${JCW_ABI} FILES "${JCW_GENERATED}/abi.json")
jcw_into_aar(${JCW_MODULE}/libs/android.${JCW_ABI} TARGETS jcw LIBRARY)

# Builds for several ABIs that are given one folder have all of them in the AAR of the last.
set(JCW_AAR_FOLDER "${CMAKE_CURRENT_BINARY_DIR}/aar" CACHE PATH "What is packed into the AAR")
add_custom_target(aar
  COMMAND "${CMAKE_COMMAND}" --install "${CMAKE_CURRENT_BINARY_DIR}" --component aar --strip --prefix "${JCW_AAR_FOLDER}"
  COMMAND "${CMAKE_COMMAND}" -E chdir "${JCW_AAR_FOLDER}" "${CMAKE_COMMAND}" -E tar cf
          "${CMAKE_CURRENT_BINARY_DIR}/jcw-${JCW_VERSION}.aar" --format=zip
          AndroidManifest.xml R.txt classes.jar jni prefab proguard.txt
  VERBATIM)
add_dependencies(aar jcw jcw_jni jcw_classes)

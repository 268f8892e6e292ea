# Compiles cuda/device/kernels to machine code of every supported GPU and embeds it: target scalewatch_cubins.
#
# No CUDA toolkit is needed: the compiler is an installed nvcc 12.8 or 12.9, or else NVRTC 12.9 from PyPI, which is fetched once
# (90 MB) into SCALEWATCH_CUDA_TOOLS, shared by all build folders. Later CUDA versions have dropped sm_70. With OFF, or with
# AUTO where neither is to be had, the library holds no kernels and the client measures no GPU tensors.

set(SCALEWATCH_CUDA AUTO CACHE STRING "Build the CUDA kernels: ON, OFF, or AUTO (where a compiler can be had)")
set_property(CACHE SCALEWATCH_CUDA PROPERTY STRINGS ON OFF AUTO)
set(SCALEWATCH_CUDA_TOOLS ${CMAKE_SOURCE_DIR}/build/tools CACHE PATH "Where NVIDIA's compiler and disassembler from PyPI lie")
set(SCALEWATCH_CUBINS "" CACHE PATH "Folder of sm_*.cubin files that another build made, to embed instead of compiling")

set(SCALEWATCH_CUDA_ARCHITECTURES 70 75 80 86 89 90 100 120)
set(SCALEWATCH_NVRTC_VERSION 12.9.86)
set(SCALEWATCH_NVDISASM_VERSION 13.2.51 CACHE INTERNAL "")

# Sets `variable` to the folder of a package from PyPI, fetched if it is not there, or to NOTFOUND.
function(scalewatch_fetch package version variable)
  set(folder ${SCALEWATCH_CUDA_TOOLS}/${package}-${version})
  if(NOT EXISTS ${folder})
    message(STATUS "Fetching ${package} ${version} from PyPI into ${SCALEWATCH_CUDA_TOOLS}")
    # Under another name until it is whole: builds may run side by side.
    string(RANDOM LENGTH 8 suffix)
    set(failed TRUE)
    foreach(python python3 /usr/bin/python3)
      execute_process(COMMAND ${python} -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile
                              --only-binary :all: --retries 1 --timeout 30 --target ${folder}.${suffix} ${package}==${version}
                      RESULT_VARIABLE failed ERROR_VARIABLE error OUTPUT_QUIET TIMEOUT 600)
      if(failed EQUAL 0)
        file(RENAME ${folder}.${suffix} ${folder} RESULT ignored)  # fails where another build was faster
        file(REMOVE_RECURSE ${folder}.${suffix})
        break()
      endif()
      file(REMOVE_RECURSE ${folder}.${suffix})
    endforeach()
    if(NOT EXISTS ${folder})
      string(STRIP "${error}" error)
      message(STATUS "Could not fetch ${package} ${version}: ${error}")
      set(folder NOTFOUND)
    endif()
  endif()
  set(${variable} ${folder} PARENT_SCOPE)
endfunction()

# Sets SCALEWATCH_NVCC to an installed nvcc that can compile for all architectures, or leaves it empty.
function(scalewatch_find_nvcc)
  find_program(SCALEWATCH_NVCC_PROGRAM nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(SCALEWATCH_NVCC_PROGRAM)
  set(SCALEWATCH_NVCC "" PARENT_SCOPE)
  if(SCALEWATCH_NVCC_PROGRAM)
    execute_process(COMMAND ${SCALEWATCH_NVCC_PROGRAM} --version OUTPUT_VARIABLE text ERROR_QUIET)
    if(text MATCHES "release 12\\.[89]")
      set(SCALEWATCH_NVCC ${SCALEWATCH_NVCC_PROGRAM} PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Commands that make cubins/sm_*.cubin in the build folder; sets SCALEWATCH_CUBIN_FOLDER, or leaves it empty.
macro(scalewatch_compile_cubins)
  set(SCALEWATCH_CUBIN_FOLDER "")
  set(kernels ${CMAKE_SOURCE_DIR}/cuda/device/kernels)
  scalewatch_find_nvcc()
  if(SCALEWATCH_NVCC)
    message(STATUS "CUDA kernels: compiled by ${SCALEWATCH_NVCC}")
  else()
    scalewatch_fetch(nvidia-cuda-nvrtc-cu12 ${SCALEWATCH_NVRTC_VERSION} SCALEWATCH_NVRTC)
    if(SCALEWATCH_NVRTC)
      message(STATUS "CUDA kernels: compiled by NVRTC ${SCALEWATCH_NVRTC_VERSION}")
    endif()
  endif()
  if(SCALEWATCH_NVCC OR SCALEWATCH_NVRTC)
    set(SCALEWATCH_CUBIN_FOLDER ${CMAKE_BINARY_DIR}/cubins)
    file(GLOB sources CONFIGURE_DEPENDS ${kernels}/*.cu ${kernels}/*.cuh)
    list(APPEND sources ${CMAKE_SOURCE_DIR}/cuda/device/abi.h)
    foreach(architecture ${SCALEWATCH_CUDA_ARCHITECTURES})
      set(cubin ${SCALEWATCH_CUBIN_FOLDER}/sm_${architecture}.cubin)
      if(SCALEWATCH_NVCC)
        set(compile ${SCALEWATCH_NVCC} -cubin -arch=sm_${architecture} -std=c++20 --fmad=false --expt-relaxed-constexpr
                    -I ${CMAKE_SOURCE_DIR} -o ${cubin} ${kernels}/scalewatch.cu)
      else()
        set(compile python3 -B ${kernels}/compile.py ${SCALEWATCH_NVRTC}/nvidia/cuda_nvrtc/lib ${architecture}
                    ${CMAKE_SOURCE_DIR} ${kernels}/scalewatch.cu ${cubin})
      endif()
      add_custom_command(OUTPUT ${cubin} COMMAND ${CMAKE_COMMAND} -E make_directory ${SCALEWATCH_CUBIN_FOLDER}
                         COMMAND ${compile} DEPENDS ${sources} ${kernels}/compile.py
                         COMMENT "Compiling CUDA kernels for sm_${architecture}" VERBATIM)
    endforeach()
  endif()
endmacro()

if(NOT SCALEWATCH_CUDA)
  set(SCALEWATCH_CUBIN_FOLDER "")
elseif(SCALEWATCH_CUBINS)
  set(SCALEWATCH_CUBIN_FOLDER ${SCALEWATCH_CUBINS})
  message(STATUS "CUDA kernels: from ${SCALEWATCH_CUBINS}")
else()
  scalewatch_compile_cubins()
  if(NOT SCALEWATCH_CUBIN_FOLDER AND SCALEWATCH_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA kernels: none, for there is no nvcc 12.8 or 12.9 and NVRTC could not be fetched")
  elseif(NOT SCALEWATCH_CUBIN_FOLDER)
    message(FATAL_ERROR "SCALEWATCH_CUDA=ON needs an installed nvcc 12.8 or 12.9, or ${SCALEWATCH_CUDA_TOOLS} with NVRTC from PyPI")
  endif()
endif()

set(SCALEWATCH_CUBIN_FOLDER "${SCALEWATCH_CUBIN_FOLDER}" CACHE INTERNAL "Folder of the embedded sm_*.cubin files; empty = none")

# Embeds the files. The assembler reads them, so the object depends on them.
set(SCALEWATCH_CUBIN_BLOBS "")
set(SCALEWATCH_CUBIN_ENTRIES "")
set(SCALEWATCH_CUBIN_COUNT 0)
set(cubin_files "")
if(SCALEWATCH_CUBIN_FOLDER)
  foreach(architecture ${SCALEWATCH_CUDA_ARCHITECTURES})
    set(cubin ${SCALEWATCH_CUBIN_FOLDER}/sm_${architecture}.cubin)
    list(APPEND cubin_files ${cubin})
    math(EXPR SCALEWATCH_CUBIN_COUNT "${SCALEWATCH_CUBIN_COUNT} + 1")
    math(EXPR major "${architecture} / 10")
    math(EXPR minor "${architecture} % 10")
    set(name scalewatch_cubin_${architecture})
    string(APPEND SCALEWATCH_CUBIN_BLOBS
      "asm(\".section .rodata\\n.balign 16\\n.hidden ${name}\\n.hidden ${name}_end\\n.global ${name}\\n.global ${name}_end\\n\"\n"
      "    \"${name}: .incbin \\\"${cubin}\\\"\\n${name}_end:\\n.previous\");\n"
      "extern \"C\" const unsigned char ${name}[];\nextern \"C\" const unsigned char ${name}_end[];\n\n")
    string(APPEND SCALEWATCH_CUBIN_ENTRIES
      "\n      Cubin{${major}, ${minor}, ${name}, static_cast<std::size_t>(${name}_end - ${name})},")
  endforeach()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/cubins.cc.in ${CMAKE_BINARY_DIR}/cuda/cubins.cc @ONLY)
add_library(scalewatch_cubins STATIC ${CMAKE_BINARY_DIR}/cuda/cubins.cc)
scalewatch_target(scalewatch_cubins)
set_source_files_properties(${CMAKE_BINARY_DIR}/cuda/cubins.cc PROPERTIES OBJECT_DEPENDS "${cubin_files}")

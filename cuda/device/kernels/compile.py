#!/usr/bin/env python3
"""Compiles a CUDA source with NVRTC: compile.py FOLDER_OF_LIBNVRTC ARCHITECTURE INCLUDE_ROOT SOURCE CUBIN

--fmad=false: a product and a sum are fused only where the source says so, so that the tests on the CPU get the same bits.
-default-device: constexpr functions of abi.h are for both sides.
"""
import ctypes
import os
import sys


def compile_source(library_folder, architecture, root, source):
    """Returns (cubin or None, log)."""
    nvrtc = ctypes.CDLL(os.path.join(library_folder, 'libnvrtc.so.12'))
    program = ctypes.c_void_p()

    def call(function, *arguments):
        code = getattr(nvrtc, function)(*arguments)
        if code != 0:
            raise RuntimeError(f'{function} failed with code {code}')

    def text(size_of, get):
        size = ctypes.c_size_t()
        call(size_of, program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call(get, program, buffer)
        return buffer.raw

    with open(source, 'rb') as file:
        call('nvrtcCreateProgram', ctypes.byref(program), file.read(), os.path.basename(source).encode(), 0, None, None)
    options = [f'--gpu-architecture=sm_{architecture}', '--std=c++20', f'--include-path={root}', '--fmad=false',
               '-default-device']
    encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
    log = text('nvrtcGetProgramLogSize', 'nvrtcGetProgramLog').rstrip(b'\0').decode()
    return (None if failed else text('nvrtcGetCUBINSize', 'nvrtcGetCUBIN')), log


def main():
    library_folder, architecture, root, source, target = sys.argv[1:]
    cubin, log = compile_source(library_folder, architecture, root, source)
    sys.stderr.write(log)
    if cubin is None:
        sys.exit(1)
    with open(target + '.tmp', 'wb') as file:
        file.write(cubin)
    os.replace(target + '.tmp', target)


if __name__ == '__main__':
    main()

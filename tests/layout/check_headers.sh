#!/usr/bin/env bash
# The public headers compile alone: the C one as C11 and C++17, the C++ one as C++17 and C++20.
# usage: check_headers.sh SOURCE_DIR CC CXX
set -euo pipefail
include=$1/include cc=$2 cxx=$3
flags=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include")
echo '#include <maxsim_jit/maxsim_jit.h>' | "$cc" -std=c11 "${flags[@]}" -x c -
echo '#include <maxsim_jit/maxsim_jit.h>' | "$cxx" -std=c++17 "${flags[@]}" -x c++ -
for standard in c++17 c++20; do
  echo '#include <maxsim_jit/maxsim_jit.hpp>' | "$cxx" -std=$standard "${flags[@]}" -x c++ -
done
echo 'headers compile alone'

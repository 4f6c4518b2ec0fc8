#!/usr/bin/env bash
# Installs what Quern needs on Debian 12 or Ubuntu 24.04: apt packages and LibTorch from PyPI in .venv.
# May be run again and again: what is there already is left alone.
#
#   tools/setup.sh            packages, and LibTorch (small without a GPU, with CUDA's libraries on a GPU host)
#   tools/setup.sh --cuda     also CUDA's compilers (nvcc, NVRTC) where there is no GPU: a host that only compiles
#   tools/setup.sh --pytorch  also .venv-python: torch for Python, with Triton (lane pytorch; 5 GB on disk)
#   tools/setup.sh --python   the same, with transformers and tokenizers (goldens and export tests)
#   tools/setup.sh --tensorboard  also .venv-tensorboard, whose TensorBoard reads what tests write (180 MB on disk)
#   tools/setup.sh --browser  also Chromium and its driver, which tests drive (Debian; 400 MB on disk)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

torch_version=2.11.0
want_python=no want_cuda=no want_pytorch=no want_browser=no want_tensorboard=no
for arg in "$@"; do
  case "$arg" in
    --python) want_python=yes ;;
    --pytorch) want_pytorch=yes ;;
    --cuda) want_cuda=yes ;;
    --browser) want_browser=yes ;;
    --tensorboard) want_tensorboard=yes ;;
    -h|--help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "setup: unknown argument '$arg'; known: --browser, --cuda, --python, --pytorch, --tensorboard, --help" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*"; }

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: not root and no sudo; run this as root once, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi

# Packages of apt, by their names.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then say "apt: everything is there"; return; fi
  say "apt: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Ubuntu's chromium-browser is a snap, which containers cannot run: the tests that need a browser are skipped there.
install_browser() {
  if grep -qx 'ID=debian' /etc/os-release; then
    install_packages chromium chromium-driver fonts-dejavu-core
  else
    say "no browser: apt has Chromium on Debian alone; tests that need one are skipped"
  fi
}

has_gpu() { [ -e /dev/nvidiactl ] && command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }

# Makes DIR a virtual environment with the given requirements, unless its stamp says that it has them.
make_venv() {
  local dir=$1; shift
  local stamp="$*"
  if [ -f "$dir/.quern-stamp" ] && [ "$(cat "$dir/.quern-stamp")" = "$stamp" ]; then
    say "$dir: up to date"; return
  fi
  say "$dir: installing $stamp"
  rm -rf "$dir"
  /usr/bin/python3 -m venv "$dir"
  "$dir/bin/pip" install -q --disable-pip-version-check "$@"
  printf '%s' "$stamp" > "$dir/.quern-stamp"
}

# Adds packages to a virtual environment, unless its second stamp says that it has them.
add_to_venv() {
  local dir=$1; shift
  local stamp="$*"
  if [ -f "$dir/.quern-stamp-more" ] && [ "$(cat "$dir/.quern-stamp-more")" = "$stamp" ]; then
    say "$dir: has $stamp"; return
  fi
  say "$dir: adding $stamp"
  "$dir/bin/pip" install -q --disable-pip-version-check "$@"
  printf '%s' "$stamp" > "$dir/.quern-stamp-more"
}

has_nvcc() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

# CMake looks for CUDA's libraries in lib64, and under the names that have no version.
link_cuda_libraries() {
  local cuda
  for cuda in .venv/lib/python3*/site-packages/nvidia/cu13; do
    [ -e "$cuda/lib64" ] || ln -s lib "$cuda/lib64"
    local library
    for library in "$cuda"/lib/lib*.so.*; do
      [ -e "${library%%.so.*}.so" ] || ln -s "$(basename "$library")" "${library%%.so.*}.so"
    done
  done
}

mapfile -t packages < <(grep -vE '^(#|$)' tools/apt-packages.txt)
install_packages "${packages[@]}"
if [ "$want_browser" = yes ]; then install_browser; fi
if has_gpu; then
  say "a GPU is here: the full LibTorch"
  if has_nvcc; then
    make_venv .venv "torch==$torch_version"
  else
    say "no nvcc: the one of PyPI"
    # torch brings NVRTC, the runtime and its headers; the rest is the compiler and the headers that it needs.
    make_venv .venv "torch==$torch_version" "cuda-toolkit[nvcc,cccl,crt,nvvm,nvrtc,cudart]==13.0.2"
    link_cuda_libraries
  fi
elif [ "$want_cuda" = yes ] && ! has_nvcc; then
  say "no GPU: LibTorch for the CPU, and CUDA's compilers of PyPI"
  make_venv .venv --no-deps "torch==$torch_version" nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96 \
    nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cuda-nvrtc==13.0.88
  link_cuda_libraries
else
  say "no GPU: LibTorch for the CPU (1.3 GB on disk)"
  make_venv .venv --no-deps "torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
fi
if [ "$want_pytorch" = yes ] || [ "$want_python" = yes ]; then
  make_venv .venv-python "torch==$torch_version" numpy==2.4.6 einops==0.8.2 setuptools==80.9.0
fi
if [ "$want_python" = yes ]; then
  add_to_venv .venv-python transformers==5.17.0 tokenizers==0.23.3 safetensors==0.8.0
fi
if [ "$want_tensorboard" = yes ]; then make_venv .venv-tensorboard tensorboard==2.21.0; fi
say "done"

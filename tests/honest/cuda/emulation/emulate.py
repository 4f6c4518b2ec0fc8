#!/usr/bin/env python3
"""Checks the honest candidates without a GPU: compiles each with nvcc, and runs on the processor,
in emulation (include/emulate.hpp), those that name no instruction it does not know.

    emulate.py [--build BUILD] [--work FOLDER] [--nvcc PATH] [--no-nvcc] [--no-run] [NAME...]

NAME is a part of a candidate's file name. Needs a build of Quern with LibTorch (for what the
references say) and g++ with AddressSanitizer.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
CANDIDATES = HERE.parent
ROOT = HERE.parents[3]
CPP = {'f32': 'float', 'f64': 'double', 'i32': 'int32_t', 'i64': 'int64_t', 'u8': 'uint8_t',
       'bf16': '__nv_bfloat16', 'f16': '__half'}
PRELUDE = '''#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
'''
# Sizes to check beside the hidden ones, for paths that only round sizes take.
ALSO = {
    'transpose': [[64, 128]],
    'linear_f16': [[130, 192, 136]],
    'causal_attention_bf16': [[1, 2, 200, 64]],
    'softmax_long_bf16': [[2, 20000]],
    'linear_decode_bf16': [[9, 5, 520]],
    'matmul_small': [[64, 96, 128], [68, 100, 36]],
    'matmul_bf16': [[128, 64, 128], [40, 72, 264]],
    'row_sum': [[2, 18436]],
    'layer_norm': [[5, 512]],
    'softmax_rows': [[3, 2052]],
    'bias_gelu': [[5, 516]],
}
# Wrappers of single instructions that emulate.hpp has its own version of.
KNOWN = {'cp_async_16', 'cp_async_4', 'cp_async_16_zero', 'cp_async_commit', 'cp_async_wait', 'mma_bf16', 'mma_f16',
         'load_matrix_x4', 'load_matrix_x4_transposed', 'mbarrier_init', 'mbarrier_expect', 'mbarrier_arrive',
         'bulk_copy', 'mbarrier_wait', 'mbarrier_fence', 'bulk_store', 'bulk_store_wait', 'load_acquire',
         'store_release', 'wgmma_f16_n128', 'wgmma_bf16_n128', 'wgmma_fence', 'wgmma_commit', 'wgmma_wait',
         'async_proxy_fence'}


def task_of(entry):
    return yaml.safe_load((ROOT / 'env/suites' / entry['suite'] / f"{entry['task']}.task.yaml").read_text())


def prototype(task):
    args = [f"const {CPP[i['dtype']]}* {i['name']}" for i in task['inputs']]
    args += [f"{CPP[o['dtype']]}* {o['name']}" for o in task['outputs']]
    args += [f'int64_t {s}' for s in task['sizes']]
    return 'extern "C" void kernel(' + ', '.join(args) + ', void* workspace, cudaStream_t stream)'


def matching(text, at, opening, closing):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == opening) - (text[i] == closing)
        if depth == 0:
            return i
    raise ValueError('unbalanced ' + opening)


def without_comments(text):
    return re.sub(r'//[^\n]*|/\*.*?\*/', '', text, flags=re.S)


def translate_launches(text):
    while '<<<' in text:
        at = text.index('<<<')
        begin = at
        if text[begin - 1] == '>':
            depth = 0
            while True:
                begin -= 1
                depth += (text[begin] == '>') - (text[begin] == '<')
                if depth == 0:
                    break
        while re.match(r'[\w:.]', text[begin - 1]):
            begin -= 1
        name = text[begin:at]
        end = text.index('>>>', at)
        configuration = text[at + 3:end]
        opened = text.index('(', end)
        closed = matching(text, opened, '(', ')')
        call = f'{name}{text[opened:closed + 1]}'
        text = f'{text[:begin]}emu::launch({configuration}, [=] {{ {call}; }}){text[closed + 1:]}'
    return text


def translate_shared(text):
    text = re.sub(r'extern\s+__shared__\s+(?:__align__\(\d+\)\s*|alignas\(\d+\)\s*)?([\w:\s]+?)\s*(\w+)\s*\[\s*\]\s*;',
                  r'\1* \2 = static_cast<\1*>(emu::dynamic_shared());', text)
    count = [0]

    def one(match):
        out = ''
        for declarator in re.split(r',(?![^<(\[]*[>)\]])', match.group(2)):
            name, dims = re.match(r'\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)$', declarator.strip()).groups()
            count[0] += 1
            out += f'auto& {name} = emu::shared<{match.group(1).strip()}{dims}, {count[0]}>(); '
        return out
    return re.sub(r'__shared__\s+(?:__align__\(\d+\)\s*|alignas\(\d+\)\s*)?((?:unsigned\s+|long\s+)*[\w:]+(?:<[^;>]*>)?)\s+([^;]+);', one, text)


def without_known(text):
    """Leaves out the wrappers of instructions; says which remain."""
    for match in reversed(list(re.finditer(
            r'(?:template\s*<[^>]*>\s*)?(?:static\s+|inline\s+|__forceinline__\s+)*__device__[^;{}()]*?\b(\w+)\s*\([^{};]*\)\s*\{', text))):
        if match.group(1) not in KNOWN:
            continue
        closed = matching(text, match.end() - 1, '{', '}')
        text = text[:match.start()] + text[closed + 1:]
    return text


def translate(text, task):
    text = without_known(without_comments(text))
    if re.search(r'\basm\b|<cub/|<thrust/|<cuda.h>', text):
        return None
    text = translate_shared(translate_launches(text))
    text = text.replace('__shared__', '')
    text = re.sub(r'\((?:const )?void\*\)\s*(?=\w+(?:<[^()]*>)?\s*,\s*(?:dim3|grid|blocks))', '', text)
    text = re.sub(r'(emu_cooperative|cudaLaunchCooperativeKernel)\s*\(\s*(?:reinterpret_cast<(?:const )?void\*>\(([^()]*)\)|\((?:const )?void\*\)\s*([\w<>, ]+?)),',
                  lambda m: f'{m.group(1)}({m.group(2) or m.group(3)},', text)
    sizes = ', '.join(f's[{i}]' for i in range(len(task['sizes'])))
    tensors = [f"static_cast<const {CPP[i['dtype']]}*>(t[{k}])" for k, i in enumerate(task['inputs'])]
    tensors += [f"static_cast<{CPP[o['dtype']]}*>(t[{k + len(task['inputs'])}])" for k, o in enumerate(task['outputs'])]
    has_workspace = 'workspace_bytes' in text
    return ('#include "emulate.hpp"\n' + text + f'''
static std::int64_t emulated_workspace(const std::int64_t* s) {{ return {f"workspace_bytes({sizes})" if has_workspace else "0"}; }}
static void emulated_call(void** t, const std::int64_t* s, void* workspace) {{
  kernel({', '.join(tensors)}, {sizes}, workspace, nullptr);
}}
#include "main.inc"
''')


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more)


def build_cases(arguments, wanted):
    """Cases of tasks; `wanted` gives for each "suite/task" the sizes to check beside the hidden ones."""
    folder = arguments.work / 'cases'

    def is_there(name):
        index, file = folder / name / 'index', ROOT / 'env/suites' / f'{name}.task.yaml'
        lines = index.read_text().split('\n') if index.exists() else []
        have = {' '.join(l.split()[2:]) for l in lines if l.startswith('case')}
        return lines and index.stat().st_mtime > file.stat().st_mtime and all(' '.join(map(str, s)) in have for s in wanted[name])
    missing = [n for n in sorted(wanted) if not is_there(n)]
    if not missing:
        return folder
    program = arguments.build / 'bin/quern_honest_cases'
    if not program.exists():
        # The flags of a file beside, and what the test of the suites is linked with.
        commands = json.loads((arguments.build / 'compile_commands.json').read_text())
        flags = next(shlex.split(c['command']) for c in commands if 'cuda_references_test.cpp' in c['file'] or 'env_cuda_references' in c['command'])
        keep = [f for i, f in enumerate(flags[1:], 1) if f.startswith(('-I', '-D', '-std', '-f', '-m')) or flags[i - 1] in ('-isystem', '-idirafter') or f in ('-isystem', '-idirafter')]
        libraries = run(['ninja', '-C', str(arguments.build), '-t', 'commands', 'bin/env_cuda_references']).stdout.strip().split('\n')[-1]
        libraries = [w for w in shlex.split(libraries) if w.endswith(('.a', '.so')) or '.so.' in w or w.startswith('-l')]
        libraries = [w for w in libraries if 'quern_test_main' not in w]
        made = run(['g++', '-O1', *keep, str(HERE / 'cases.cpp'), '-o', str(program), *libraries], cwd=arguments.build)
        if made.returncode:
            sys.exit(made.stderr)
    done = run([str(program), str(folder), *[':'.join([str(ROOT / 'env/suites' / f'{n}.task.yaml'), *[','.join(map(str, s)) for s in wanted[n]]]) for n in missing]])
    if done.returncode:
        sys.exit(done.stderr)
    return folder


def sanitizing(arguments):
    return ['g++', '-std=c++20', '-O1', '-g1', '-w', '-ffp-contract=off', '-fsanitize=address,undefined',
            '-fno-sanitize-recover=undefined', '-isystem', arguments.cuda + '/include']


def precompile(arguments):
    """The emulator's header takes most of the time of a compilation."""
    folder, header = arguments.work / 'precompiled', HERE / 'include/emulate.hpp'
    folder.mkdir(exist_ok=True)
    made = folder / 'emulate.hpp.gch'
    if not made.exists() or made.stat().st_mtime < header.stat().st_mtime:
        out = run([*sanitizing(arguments), '-x', 'c++-header', str(header), '-o', str(made)])
        if out.returncode:
            sys.exit(out.stderr)
    return folder


def check(arguments, entry, cases):
    file = CANDIDATES / entry['file']
    source = file.read_text()
    task = task_of(entry)
    problems, notes = [], []
    flat = re.sub(r'\s+', ' ', re.sub(r'__restrict__\s*', '', source)).replace('( ', '(')
    if not source.startswith('// '):
        problems.append('the first line is no comment')
    linkage = 'extern "C" '
    in_block = linkage + '{' in flat and prototype(task).removeprefix(linkage) in flat
    if prototype(task) not in flat and not in_block:
        problems.append('not the prototype: ' + prototype(task))
    base = arguments.work / entry['file']
    if arguments.nvcc:
        whole = base.with_suffix('.nvcc.cu')
        whole.write_text(PRELUDE + '#line 1 "' + file.name + '"\n' + source)
        if entry['form'] == 'device_only':
            out = run([arguments.nvcc, '-std=c++20', '-arch=sm_90a', '-cubin', '-Xptxas', '-v', '-Wno-deprecated-gpu-targets',
                       str(whole), '-o', str(base) + '.cubin'])
        else:
            out = run([arguments.nvcc, '-std=c++20', '-gencode', 'arch=compute_90a,code=sm_90a', '-shared', '-Xcompiler', '-fPIC', '-Xptxas', '-v',
                       str(whole), '-o', str(base) + '.so'])
        if out.returncode:
            problems.append('nvcc: ' + out.stdout + out.stderr)
        if 'spill' in out.stderr and re.search(r'[1-9]\d* bytes spill', out.stderr):
            notes.append('spills ' + re.search(r'(\d+) bytes spill stores', out.stderr).group(1))
        warnings = [l for l in (out.stdout + out.stderr).split('\n') if 'warning' in l]
        problems += warnings
    if arguments.run:
        text = translate(source, task) if entry.get('emulated', True) else None
        if text is None:
            notes.append('not emulated')
        else:
            cpp = base.with_suffix('.emulated.cpp')
            cpp.write_text(text)
            out = run([*sanitizing(arguments), '-I', str(arguments.work / 'precompiled'), '-I', str(HERE / 'include'),
                       '-I', str(HERE), str(cpp), '-o', str(base) + '.emulated'])
            if out.returncode:
                problems.append('g++: ' + out.stderr[:3000])
            else:
                try:
                    out = run([str(base) + '.emulated', str(cases / entry['suite'] / entry['task'])], timeout=300,
                              env={'ASAN_OPTIONS': 'detect_stack_use_after_return=0:detect_leaks=0', 'UBSAN_OPTIONS': 'print_stacktrace=1'})
                    if out.returncode:
                        problems.append(out.stdout + out.stderr[:2500])
                    else:
                        notes.append(out.stdout.strip())
                except subprocess.TimeoutExpired:
                    problems.append('emulation takes too long')
    return problems, notes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('names', nargs='*')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/dev')
    parser.add_argument('--work', type=pathlib.Path, default=pathlib.Path('/tmp/quern-honest'))
    parser.add_argument('--cuda', default='/usr/local/cuda')
    parser.add_argument('--no-nvcc', action='store_true')
    parser.add_argument('--no-run', dest='run', action='store_false')
    parser.add_argument('--jobs', type=int, default=2)
    arguments = parser.parse_args()
    arguments.nvcc = None if arguments.no_nvcc else arguments.cuda + '/bin/nvcc'
    arguments.work.mkdir(parents=True, exist_ok=True)
    entries = json.loads((CANDIDATES / 'manifest.json').read_text())['candidates']
    listed = {e['file'] for e in entries}
    there = {f.name for f in CANDIDATES.glob('*.cu')}
    failed = 0
    for name in sorted(listed ^ there):
        print(f'{name}: {"no such file" if name in listed else "not in manifest.json"}')
        failed += 1
    entries = [e for e in entries if e['file'] in there and (not arguments.names or any(n in e['file'] for n in arguments.names))]
    wanted = {}
    for e in entries:
        sizes = wanted.setdefault(f"{e['suite']}/{e['task']}", [])
        sizes += [s for s in ALSO.get(e['task'], []) if s not in sizes]
    cases = build_cases(arguments, wanted) if arguments.run else None
    if arguments.run:
        precompile(arguments)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for entry, (problems, notes) in zip(entries, pool.map(lambda e: check(arguments, e, cases), entries)):
            print(f"{entry['file']}: {'; '.join(notes) if not problems else 'FAILED'}", flush=True)
            for problem in problems:
                print('    ' + problem.strip().replace('\n', '\n    '))
            failed += bool(problems)
    print(f'{len(entries)} candidates, {failed} problems')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""Assembles cuda/kernels/ptx/*.ptx as a driver does, and says what the kernels need.

Fails where the assembler complains, where a kernel spills registers, and where the
registers, shared memory and occupancy differ from the committed table; --write writes
the table. No GPU and no CUDA toolkit is needed: the assembler, ptxas, comes
from a wheel of PyPI and is kept under the user's cache. PTXAS names another one.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor

VERSION = "13.5.37"
KERNELS = pathlib.Path(__file__).resolve().parent.parent / "cuda" / "kernels"
TABLE = KERNELS / "ptxas.md"

# What one multiprocessor has, from the CUDA C++ programming guide's table of
# technical specifications: warps, blocks, bytes of shared memory. Each has 65,536 registers.
ARCHITECTURES = {
    "sm_80": (64, 32, 164 << 10),  # A100
    "sm_90": (64, 32, 228 << 10),  # H100
    "sm_100": (64, 32, 228 << 10),  # B200
    "sm_120": (48, 24, 100 << 10),  # RTX 50
}


def assembler():
    if "PTXAS" in os.environ:
        return os.environ["PTXAS"]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    path = cache / "privgrad" / f"ptxas-{VERSION}" / "ptxas"
    if path.exists():
        return str(path)
    print(f"fetching ptxas {VERSION} from PyPI to {path.parent}")
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        pip += ["--python-version=3", "--platform=manylinux_2_17_x86_64", "--dest", folder, f"nvidia-cuda-nvcc=={VERSION}"]
        if subprocess.run(pip).returncode:
            sys.exit("cannot fetch ptxas: install pip, or set PTXAS to the ptxas of CUDA 13")
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as z:
            (name,) = [n for n in z.namelist() if n.endswith("/bin/ptxas")]
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"ptxas.{os.getpid()}")
            partial.write_bytes(z.read(name))
    partial.chmod(0o755)
    partial.replace(path)
    return str(path)


def assemble(ptxas, architecture, module):
    """Gives (kernel, registers, shared bytes, spilled bytes) for each kernel."""
    r = subprocess.run([ptxas, "-v", f"-arch={architecture}", "-o", os.devnull, str(module)], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{module.name} for {architecture}:\n{r.stdout}{r.stderr}")
    found = []
    for text in re.split(r"Compiling entry function '", r.stdout + r.stderr)[1:]:
        number = lambda pattern: sum(int(n) for n in re.findall(pattern, text))
        found.append((text[: text.index("'")], number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes spill")))
    return found


def block(module, kernel):
    """The threads of a block, from the launch bounds."""
    text = module.read_text()
    head = text[text.index(f".entry {kernel}(") :]
    head = head[: head.index("\n{")]
    m = re.search(r"\.maxntid\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", head)
    if not m:
        sys.exit(f"{kernel} in {module.name} has no launch bounds: say __launch_bounds__(threads)")
    threads = 1
    for n in m.groups():
        threads *= int(n or 1)
    return threads


def occupancy(architecture, threads, registers, shared):
    """Blocks that fit a multiprocessor, and their share of its warps, without dynamic shared memory."""
    warps, blocks, memory = ARCHITECTURES[architecture]
    own = (threads + 31) // 32
    per_warp = (registers * 32 + 255) // 256 * 256
    # Each of the four parts of a multiprocessor has a quarter of the registers.
    by_registers = 65536 // 4 // per_warp * 4 // own
    by_shared = memory // ((shared + 1024 + 127) // 128 * 128)
    fit = min(blocks, warps // own, by_registers, by_shared)
    return fit, 100 * fit * own // warps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table")
    write = parser.parse_args().write
    ptxas = assembler()
    modules = sorted((KERNELS / "ptx").glob("*.ptx"))
    jobs = [(a, m) for m in modules for a in ARCHITECTURES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(jobs, pool.map(lambda job: assemble(ptxas, *job), jobs)))

    failed = False
    rows = {}
    for a in ARCHITECTURES:
        kernels = spilled = most = 0
        for m in modules:
            for kernel, registers, shared, spill in results[a, m]:
                threads = block(m, kernel)
                blocks, share = occupancy(a, threads, registers, shared)
                row = rows.setdefault((m.stem, kernel), [f"{threads}", f"{shared:,}"])
                row.append(f"{registers} · {blocks} · {share} %")
                kernels, most = kernels + 1, max(most, registers)
                if spill:
                    print(f"{a}: {kernel} in {m.name} spills {spill} bytes", file=sys.stderr)
                    spilled += 1
        print(f"{a}: {kernels} kernels in {len(modules)} modules, at most {most} registers, {spilled} spill")
        failed |= spilled > 0

    table = "# What the kernels need\n\n"
    table += f"Printed by `make ptx-table` with ptxas {VERSION}: threads a block, bytes of static shared memory, and for each architecture registers a\n"
    table += "thread, blocks that fit a multiprocessor, and the share of its warps that they are.\n\n"
    table += "| module | kernel | threads | shared | " + " | ".join(ARCHITECTURES) + " |\n"
    table += "|---|---|--:|--:|" + "--:|" * len(ARCHITECTURES) + "\n"
    for (module, kernel), row in sorted(rows.items()):
        table += f"| {module} | {kernel} | " + " | ".join(row) + " |\n"
    if write:
        TABLE.write_text(table)
    elif not TABLE.exists() or TABLE.read_text() != table:
        old = TABLE.read_text() if TABLE.exists() else ""
        sys.stderr.writelines(difflib.unified_diff(old.splitlines(True), table.splitlines(True), str(TABLE.name), "now", n=0))
        print("the kernels need something else than cuda/kernels/ptxas.md says: run make ptx-table, look at it, and commit it", file=sys.stderr)
        failed = True
    sys.exit(failed)


main()

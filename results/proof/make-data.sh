#!/usr/bin/env bash
# The logs of the proof, into runs/data/proof, as many at a time as there are cores: all eleven, or those that are named.
#   results/proof/make-data.sh
#   results/proof/make-data.sh hopper-medium pen-expert
# Needs ../shared/data, the project's workshop. Files that are there are left alone; all are compared with the hashes of the runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
cores=$(nproc)  # before the next line, which nproc would heed
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# The policies of make_dataset.py are products in NumPy, whose last digits are those of OpenBLAS's kernel for the machine: a recording made with
# another kernel is another one. The runs' logs were made with this one, which needs AVX-512.
export OPENBLAS_CORETYPE=SKYLAKEX
out=runs/data/proof

make_one() {
    local name=$1 task=${1%%-*} policies=../shared/data/policies new=$out/new/$1.hdf5
    case $name in
        *-medium-replay) # by the version whose files have the runs' hashes: later ones write one more setting into them
            local env=${task^}-v4 && env=${env/Halfcheetah/HalfCheetah}
            PYTHONPATH=$out/collecting/src .venv/bin/python -m tether collect "$env" --out "$new" --level medium-replay --seed 30 \
                --work "$out/collecting/$name" ;;
        *-medium-expert) .venv/bin/python ../shared/data/make_dataset.py "$new" 400000 --seed 30 $policies/{"$task"-medium,"$task"-expert}.npz ;;
        *-medium) .venv/bin/python ../shared/data/make_dataset.py "$new" 300000 --seed 30 "$policies/$name.npz" ;;
        *-expert) .venv/bin/python ../shared/data/make_dataset.py "$new" 100000 --seed 30 "$policies/$name.npz" ;;
    esac
    mv "$new" "$out/$name.hdf5"
}
export -f make_one
export out

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=({hopper,halfcheetah,walker2d}-medium{-replay,,-expert} {pen,door}-expert)
for name in "${wanted[@]}"; do
    [ -d "results/proof/$name" ] || { echo "no log $name; there is: $(cd results/proof && echo */ | tr -d /)" >&2; exit 2; }
done
mkdir -p $out/new
missing=$(for name in "${wanted[@]}"; do [ -e "$out/$name.hdf5" ] || echo "$name"; done)
if grep -q replay <<< "$missing" && [ ! -e $out/collecting ]; then git clone --quiet --no-checkout . $out/collecting && git -C $out/collecting checkout --quiet 8505f3f; fi
xargs -r -P "$cores" -I{} bash -c 'set -euo pipefail; make_one {} > "$out/{}.log" 2>&1 && echo "made {}" || { tail -n 3 "$out/{}.log"; exit 255; }' <<< "$missing"

for name in "${wanted[@]}"; do
    run=$(find "results/proof/$name" -name result.json | head -n 1)
    .venv/bin/python - "$run" "$out/$name.hdf5" <<'PYTHON'
import hashlib, json, sys
run, path = sys.argv[1:]
same = json.load(open(run))["dataset"]["sha256"] == hashlib.sha256(open(path, "rb").read()).hexdigest()
print(f"{path}: {'the rows of the runs' if same else 'ANOTHER FILE than the runs had: a sweep will refuse to go on with those'}")
sys.exit(not same)
PYTHON
done

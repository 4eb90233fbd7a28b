#!/usr/bin/env bash
# Everything worth measuring on a GPU, without a network: bench/gpu.sh FILE.jsonl
#
# Appends one JSON line for each measurement to FILE. PYTHON is the interpreter, by default that of .venv.
# SIZE=tiny tries the script out in a minute or two on any machine; its figures mean nothing.
set -euo pipefail
out=$(realpath "${1:?usage: bench/gpu.sh FILE.jsonl}")
cd "$(dirname "$0")/.."
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
export PYTHONPATH="$PWD:$PWD/envs"

if [ "${SIZE:-full}" = tiny ]; then
  tests=(tests/test_reward.py)
  exact=(--originals 4)
  trained=("--originals 2 --iterations 4")
else
  tests=(tests/test_edit_distance.py tests/test_rollout.py tests/learn/test_learner.py tests/certify/test_optimum.py tests/test_solve.py)
  exact=()
  trained=("--originals 1000" "--originals 10000")
fi

"$python" -m pytest -m "not slow" "${tests[@]}"
"$python" bench/rollouts.py >>"$out"
"$python" bench/edit_distance.py >>"$out"
"$python" bench/exact.py "${exact[@]}" >>"$out"
for options in "${trained[@]}"; do
  # shellcheck disable=SC2086
  "$python" bench/trained.py $options >>"$out"
done

# reploid-plan from outside: documents, descriptions of devices, stages, errors. None of it needs a GPU.
. tests/cli/lib.sh
plan=$(dirname "$run")/reploid-plan
devices=tests/golden/devices
h200() { "$plan" --device "$devices/h200.json" "$@"; }

# ---- documents ----
capture h200 random:tiny
ok 'a plan' code_is 0
ok 'quiet' quiet
cp "$tmp/out" "$tmp/plan.json"
capture h200 random:tiny
ok 'twice the same bytes' cmp -s "$tmp/out" "$tmp/plan.json"
of() { # of EXPRESSION [FILE]: over p, the plan
	python3 -c 'import hashlib, json, sys
p = json.load(open(sys.argv[1], encoding="utf-8"))
r = ('"$1"')
sys.exit(0 if r is True else "not true: " + repr(r)[:300])' "${2:-$tmp/plan.json}"
}
ok 'schema and digest' of 'p["schema"] == "reploid-plan/1" and p["digest"] == "sha256:" + hashlib.sha256(
	json.dumps({k: v for k, v in p.items() if k != "digest"}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()'
ok 'the device' of 'p["device"]["name"] == "NVIDIA H200" and p["settings"]["variant"] == "fused" and p["costs"]["barrier_ns"] == {"value": 1700, "from": "description"}'
ok 'every dispatch is whole' of 'all(set(w) >= {"kernel", "pipeline", "groups", "binds", "push", "barrier", "read", "written", "flops", "ns"}
	for q in ("prefill", "decode") for w in p[q]["work"] if w["kind"] == "dispatch")'
ok 'totals are sums' of 'all(p[q]["barriers"] == sum(w["barrier"] for w in p[q]["work"]) and p[q]["read"] == sum(w["read"] for w in p[q]["work"])
	for q in ("prefill", "decode"))'
ok 'kernels are listed once' of '(lambda n: n == sorted(set(n)) and set(n) == {w["kernel"] for q in ("prefill", "decode") for w in p[q]["work"] if "kernel" in w})(
	[k["name"] for k in p["kernels"]])'
ok 'reasons' of 'any("rejected" in w for w in p["decode"]["work"])'
ok 'memory adds up' of 'all(h["taken"] >= sum(h[c] for c in ("weights", "kv-cache", "state", "activations", "table", "other")) ==
	sum(b["size"] for b in p["buffers"] if b["heap"] == h["heap"]) for h in p["memory"])'
capture h200 -c 256 -b 64 -d 100 --variant subgroup random:tiny
ok 'settings' of 'p["settings"]["ctx"] == 256 and p["settings"]["batch"] == 64 and p["prefill"]["rows"] == 64 and p["decode"]["at"] == 100 and
	p["settings"]["variant"] == "subgroup"' "$tmp/out"
capture "$plan" --device "$devices/lavapipe.json" "$models/tiny.gguf"
ok 'a file, a CPU device' of 'p["model"]["format"] == "gguf" and p["device"]["kind"] == "cpu" and p["costs"]["read_bytes_per_s"]["from"] == "default"' "$tmp/out"
capture "$plan" --device "$devices/lavapipe.json" embedded
ok 'the embedded model' of 'p["model"]["family"] == "qwen3_5"' "$tmp/out"

# ---- explained ----
capture h200 --explain random:tiny
ok 'explained' code_is 0
ok 'the plan is named' has_line "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["digest"])' "$tmp/plan.json")"
ok 'layers of a kind' has_line 'layers 0-2 (3)'
ok 'fused operations' has_line 'post_norm gate_proj up_proj activation'
ok 'what was rejected' has_line 'rejected two products and elementwise'
ok 'memory' has_line "heap 0, the device's own:"
ok 'assumptions' has_line 'flops_per_s'

# ---- stages ----
capture h200 --stage 0-1 random:tiny
ok 'the first stage' of 'p["settings"]["stage"] == [0, 1] and {w.get("layer", -1) for w in p["decode"]["work"]} == {-1, 0, 1}' "$tmp/out"
capture h200 --stage 3 random:tiny
ok 'the last stage' of 'p["settings"]["stage"] == [3, 3] and any(w.get("ops", "").endswith("logits") for w in p["decode"]["work"])' "$tmp/out"

# ---- devices ----
capture "$plan" --describe-device
if [ "$status" -eq 40 ]; then
	skip 'describe-device' 'no Vulkan device'
else
	ok 'describe-device' code_is 0
	cp "$tmp/out" "$tmp/here.json"
	capture "$plan" random:tiny
	cp "$tmp/out" "$tmp/live.json"
	capture "$plan" --device "$tmp/here.json" random:tiny
	ok 'from the driver or from its description: the same plan' cmp -s "$tmp/out" "$tmp/live.json"
fi
sed 's/"max_shared": [0-9]*/"max_shared": 16384/' "$devices/h200.json" >"$tmp/small.json"
capture "$plan" --device "$tmp/small.json" random:tiny
ok 'facts decide' of 'p["digest"] != json.load(open("'"$tmp/plan.json"'"))["digest"]' "$tmp/out"

# ---- errors ----
fails 'no model' 2 'name a model' h200
fails 'no such model' 3 'none.gguf' h200 "$tmp/none.gguf"
fails 'two models' 2 'one model at a time' h200 random:tiny random:tiny
fails 'no such device file' 3 'none.json' "$plan" --device "$tmp/none.json" random:tiny
fails 'the C engine' 11 'has no dispatches to plan' "$plan" --device cpu random:tiny
sed 's/"subgroup"/"subgroups"/' "$devices/h200.json" >"$tmp/bad.json"
fails 'a member that is unknown' 10 'subgroups is no member of a device description' "$plan" --device "$tmp/bad.json" random:tiny
sed 's/150754820096/1000000/' "$devices/h200.json" >"$tmp/tiny.json"
fails 'no room' 41 'the model with one sequence needs' "$plan" --device "$tmp/tiny.json" random:tiny
fails 'too long a context' 15 'the model was made for' h200 -c 16000000 random:tiny
fails 'stage: no range' 2 '--stage 3-1: expected the first and the last layer' h200 --stage 3-1 random:tiny
fails 'stage: too far' 2 'the model has layers 0 to 3' h200 --stage 2-4 random:tiny
fails 'describe and plan' 2 '--describe-device stands alone' "$plan" --describe-device random:tiny
head -c 3000 "$models/tiny.gguf" >"$tmp/cut.gguf"
fails 'a broken model' 10 'cut.gguf' h200 "$tmp/cut.gguf"
capture h200 --json "$tmp/none.gguf"
ok 'an error as JSON' json 'o[0]["type"] == "error" and o[0]["code"] == 3 and o[0]["error"] == "not-found"'

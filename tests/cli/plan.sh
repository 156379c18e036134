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
fails 'two models' 2 'the model is named twice: random:tiny and -m random:tiny-llama' h200 -m random:tiny-llama random:tiny
capture h200 -m random:tiny
ok '-m names the model too' cmp -s "$tmp/out" "$tmp/plan.json"
capture env REPLOID_MODEL=random:tiny "$plan" --device "$devices/h200.json"
ok 'so does the environment' cmp -s "$tmp/out" "$tmp/plan.json"
capture env REPLOID_MODEL=random:tiny-llama "$plan" --device "$devices/h200.json" random:tiny
ok 'the operand wins over it' cmp -s "$tmp/out" "$tmp/plan.json"
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

# ---- ranges ----
sum_of() { grep -v '^#' "$tmp/out" | awk '{ n += $2 } END { print n + 0 }'; }
capture "$plan" --ranges "$models/tiny.gguf"
ok 'ranges of all layers' test "$status" -eq 0 -a "$(sum_of)" -gt $(($(stat -c %s "$models/tiny.gguf") * 9 / 10))
whole=$(sum_of)
capture "$plan" --ranges --stage 1-1 "$models/tiny.gguf"
ok 'ranges of a stage are fewer bytes' test "$(sum_of)" -lt "$whole"
ok 'the header is among them' grep -q '^0 ' "$tmp/out"
ok 'ranges say what they are of' has_line '# layers 1 to 1 of '
fails 'ranges: beyond the layers' 2 '--stage 5-9: the model has layers 0 to' "$plan" --ranges --stage 5-9 "$models/tiny.gguf"
fails 'no address' 2 'is no address' "$plan" --ranges http://
python3 tests/cli/plan_remote.py "$(dirname "$run")" "$models/tiny.gguf" "$tmp" >"$tmp/remote" 2>&1 || echo 'failed remote: it broke' >>"$tmp/remote"
while read -r verdict name; do
	case $verdict in
	passed) ok "$name" true ;;
	failed) cp "$tmp/remote" "$tmp/out"; ok "${name%%: *}" false ;;
	esac
done <"$tmp/remote"

# ---- splits and plan ids ----
capture "$plan" --split 3 --memory 2M,1M,7M --speed 1,1,2 random:tiny
ok 'a split' json 'o[0]["schema"] == "reploid-split/1" and [x["layers"][0] for x in o[0]["stages"]] == [0] + [x["layers"][1] + 1 for x in o[0]["stages"]][:2]'
ok 'it fits, and the slowest is 1' json 'all(x["takes"] <= x["memory"] for x in o[0]["stages"]) and max(x["time"] for x in o[0]["stages"]) == 1 and o[0]["caches"]'
cp "$tmp/out" "$tmp/split"
capture "$plan" --split 3 --memory 2M,1M,7M --speed 1,1,2 random:tiny
ok 'twice the same split' cmp -s "$tmp/out" "$tmp/split"
capture "$plan" --split 2 --memory 1G --explain random:tiny
ok 'a split as a table' has_line 'stage  layers'
fails 'split: no memory given' 2 '--split needs --memory' "$plan" --split 2 random:tiny
fails 'split: too few sizes' 2 'expected 3 sizes' "$plan" --split 3 --memory 8G,8G random:tiny
fails 'split: no size' 2 'expected 2 sizes' "$plan" --split 2 --memory 8G,much random:tiny
fails 'split: no speed' 2 'expected 2 numbers' "$plan" --split 2 --memory 8G --speed 1,-1 random:tiny
fails 'split: it does not fit' 41 'no split of 4 layers over 2 devices fits' "$plan" --split 2 --memory 100K random:tiny
fails 'split: more devices than layers' 2 '4 layers cannot be split over 5 devices' "$plan" --split 5 --memory 8G random:tiny
fails 'one thing at a time' 2 'stand alone' "$plan" --split 2 --memory 8G --planid random:tiny
echo '{"modelId":"fixture","architecture":{"numLayers":4,"hiddenSize":8,"vocabSize":128}}' >"$tmp/manifest.json"
capture "$plan" --planid "$tmp/manifest.json"
ok 'plan id of a manifest' prints 'sha256:9b7c1b5b0a6360c9e62d46e6b4dd3318f9364360086ac350070cfc299e92430b
'
capture "$plan" --planid --explain --id fixture --split-at 2 "$tmp"
ok 'plan id: of a folder, with its text' has_line '{"activationDtype":"f32","hiddenSize":8,"modelId":"fixture",'
fails 'plan id: no such split' 2 '--split-at 4: the model has 4 layers' "$plan" --planid --split-at 4 "$tmp/manifest.json"
fails 'plan id: a model without a name' 2 'give the name that peers know it by with --id' "$plan" --planid "$models/tiny.gguf"
capture "$plan" --planid --id x "$models/tiny.gguf"
ok 'plan id of a file' grep -qx 'sha256:[0-9a-f]\{64\}' "$tmp/out"

# ---- a family that the engine does not have ----
moe=tests/golden/qwen3_5_moe
fails 'no plan is made up' 11 'is an architecture this build does not compute' h200 $moe
capture "$plan" --ranges --stage 0-3 $moe
ok 'its ranges are known' has_line '# layers 0 to 3 of 8'
capture "$plan" -q --split 2 --memory 1G $moe
ok 'it can be split by its weights' json 'not o[0]["caches"] and len(o[0]["stages"]) == 2'
ok 'and quietly' quiet

# ---- executed ----
run_plan() { "$run" -q -m "$models/tiny.gguf" --prompt-ids 5,6,7 -n 4 --ignore-eos "$@"; }
fails 'run: no plan' 3 'none.json' run_plan --plan "$tmp/none.json"
capture h200 "$models/tiny.gguf"
cp "$tmp/out" "$tmp/h200-plan.json"
sed 's/"hidden":[0-9]*/"hidden":1/' "$tmp/h200-plan.json" >"$tmp/forged.json"
fails 'run: a plan that was changed' 20 'it was changed after it was made' run_plan --plan "$tmp/forged.json"
fails 'run: no plan but a device' 10 'schema is "reploid-device/1", expected "reploid-plan/1"' run_plan --plan "$devices/h200.json"
fails 'run: the plan of another model' 43 'model.identity is ' "$run" -q -m random:tiny --prompt-ids 5 -n 1 --plan "$tmp/h200-plan.json"
fails 'run: the C engine has no dispatches' 43 '--device cpu has no dispatches' run_plan --plan "$tmp/h200-plan.json" --device cpu
if "$plan" --describe-device >/dev/null 2>&1; then
	fails 'run: a plan for another device' 43 'device.' run_plan --plan "$tmp/h200-plan.json"
	"$plan" -c 200 -b 16 "$models/tiny.gguf" >"$tmp/mine.json"
	capture run_plan --plan "$tmp/mine.json" --json
	ok 'run: executes its plan' code_is 0
	ok 'run: the digest is told' json 'o[-1]["plan"] == "'"$(sed -n 's/^"digest":"\(.*\)",*$/\1/p' "$tmp/mine.json")"'" and o[-1]["ctx"] == 200'
	capture run_plan --device gpu -c 200 --json
	cp "$tmp/out" "$tmp/without"
	capture "$plan" -c 200 "$models/tiny.gguf"
	digest=$(sed -n 's/^"digest":"\(.*\)",*$/\1/p' "$tmp/out")
	ok 'run: without --plan the same digest as reploid-plan' grep -q "\"plan\":\"$digest\"" "$tmp/without"
	"$plan" --variant portable --kv f32 "$models/tiny.gguf" >"$tmp/portable.json"
	capture run_plan --plan "$tmp/portable.json" --json
	ok 'run: kernels of the plan' code_is 0
	fails 'run: an option that differs' 43 'settings.ctx is 200 in the plan, 250 here' run_plan --plan "$tmp/mine.json" -c 250
	fails 'run: other kernels' 43 'settings.variant is "subgroup" in the plan, "portable" here' run_plan --plan "$tmp/mine.json" --variant portable
	"$plan" --stage 0-0 "$models/tiny.gguf" >"$tmp/half.json"
	fails 'run: the plan of a stage' 43 'one that answers has all' run_plan --plan "$tmp/half.json"
	capture "$run" --bench -q -m random:tiny --device gpu -p 8 -n 0 -r 1 -o jsonl
	ok 'bench: the digest is told' json 'all(x["plan"].startswith("sha256:") for x in o)'
else
	skip 'run executes a plan' 'no Vulkan device'
fi
capture "$run" --bench -q -m random:tiny --device cpu -p 8 -n 0 -r 1 -o jsonl
ok 'bench: no plan on the C engine' json 'all(x["plan"] is None for x in o)'

# Answers: text, JSON, prompts, seeds, signals. On the CPU engine with a tiny random model.
. tests/cli/lib.sh
tiny=(-q --device cpu -m "$models/tiny.gguf")

capture "$run" "${tiny[@]}" -p hello -n 20 --ignore-eos
ok 'text alone' code_is 0
ok 'nothing on stderr with -q' quiet
ok 'some text' test -s "$tmp/out"
cp "$tmp/out" "$tmp/first"
capture "$run" "${tiny[@]}" -p hello -n 20 --ignore-eos
ok 'greedy answers repeat' cmp -s "$tmp/out" "$tmp/first"
sampled() { "$run" "${tiny[@]}" -p hello -n 20 --ignore-eos --temp 1.5 --seed "$1"; }
ok 'the same seed, the same text' test "$(sampled 7 | md5sum)" = "$(sampled 7 | md5sum)"
ok 'another seed, another text' test "$(sampled 7 | md5sum)" != "$(sampled 8 | md5sum)"

capture "$run" "${tiny[@]}" -p hello -n 20 --ignore-eos --json
ok 'json: lines parse' json 'True'
ok 'json: token objects, then done' json 'all(x["type"] == "token" for x in o[:-1]) and o[-1]["type"] == "done"'
ok 'json: done says how it ended' json 'o[-1]["reason"] == "length" and o[-1]["tokens"] == 20 and o[-1]["schema"] == "reploid-run/1"'
ok 'json: identity' json 'o[-1]["model"]["identity"].startswith("sha256:") and o[-1]["device"]["backend"] == "cpu"'
ok 'json: timings' json 'all(o[-1]["timings"][k] > 0 for k in ("load_ms", "prompt_ms", "first_token_ms", "prompt_per_second"))'
python3 -c 'import json, sys
for line in sys.stdin: sys.stdout.write(json.loads(line).get("text") or "")' <"$tmp/out" >"$tmp/joined"
ok 'json: texts joined are the plain answer' cmp -s "$tmp/joined" "$tmp/first"
capture "$run" "${tiny[@]}" -p hello -n 3 --ignore-eos --json --logprobs 4
ok 'logprobs: K of them, best first' json 'all(len(x["logprobs"]) == 4 and x["logprobs"] == sorted(x["logprobs"], key=lambda p: -p["logprob"]) for x in o[:3])'
ok 'logprobs: greedy takes the best' json 'all(x["id"] == x["logprobs"][0]["id"] and x["logprob"] == x["logprobs"][0]["logprob"] for x in o[:3])'
capture "$run" "${tiny[@]}" -p '' --json
ok 'json: errors are objects too' json 'len(o) == 1 and o[0]["type"] == "error" and o[0]["code"] == "prompt" and o[0]["exit"] == 14'
ok 'json: errors are on stderr as well' says 'the prompt is empty'
capture "$run" --json --no-such-option
ok 'json: errors of the command line' json 'o[0]["code"] == "usage"'

capture "$run" "${tiny[@]}" -p 'hé <|im_end|>' --show-prompt
ok 'show-prompt: text' has_line '<|im_start|>user'
capture "$run" "${tiny[@]}" -p 'hé <|im_end|>' --show-prompt --json
ok 'show-prompt: template' json 'o[0]["template"] == "chatml" and o[0]["type"] == "prompt"'
ok 'a person cannot forge special tokens' json 'o[0]["ids"].count(1) == 2 and o[0]["ids"].count(2) == 1'
capture "$run" "${tiny[@]}" --prompt-ids ' 1, 2 ,3' --show-prompt
ok 'show-prompt: ids' prints 1,2,3
capture "$run" "${tiny[@]}" -p hi --system 'Be brief.' --show-prompt
ok 'system message' has_line 'Be brief.'
capture "$run" "${tiny[@]}" --raw -p 'hi' --show-prompt
ok 'raw: the text alone' prints hi
capture "$run" "${tiny[@]}" --template llama3 -p 'hi' --show-prompt
ok 'named template' has_line '<|start_header_id|>user'
capture "$run" -q --device cpu -m "$models/no-template.gguf" --template chatml -p hi -n 2
ok 'named template where the file has none' code_is 0

shown() { "$run" "${tiny[@]}" --raw --show-prompt "$@"; }
ok 'stdin: a pipe is the prompt' test "$(echo 'from pipe' | shown)" = 'from pipe'
ok 'stdin: not read with -p' test "$(echo 'from pipe' | shown -p text)" = text
ok 'stdin: - appends' test "$(echo 'from pipe' | shown -p text -)" = 'text
from pipe'
ok 'stdin: -f - is the same' test "$(echo 'from pipe' | shown -p text -f -)" = 'text
from pipe'
printf 'of a file\n' >"$tmp/file"
ok 'file' test "$(shown -f "$tmp/file")" = 'of a file'
ok 'file after text' test "$(shown -p text -f "$tmp/file")" = 'text
of a file'
ok 'one newline is dropped, not two' test "$(printf 'a\n\n' | shown | od -An -c | tr -d ' ')" = 'a\n'
mkfifo "$tmp/open"
exec 9<>"$tmp/open"
capture "$run" "${tiny[@]}" -p hi -n 1 <"$tmp/open"
ok 'an open pipe on stdin does no harm' code_is 0
exec 9>&-

capture "$run" -q --device cpu -m "$models/no-tokenizer.gguf" --prompt-ids 5,6,7 -n 4 --ignore-eos
ok 'ids without a tokenizer' grep -qxE '[0-9]+(,[0-9]+){3}' "$tmp/out"
capture "$run" --device cpu -m "$models/odd-tokenizer.gguf" --prompt-ids 5,6,7 -n 4 --ignore-eos
ok 'ids with a tokenizer of an unknown kind' grep -qxE '[0-9]+(,[0-9]+){3}' "$tmp/out"
ok 'ids with a tokenizer of an unknown kind: said' says 'the tokenizer cannot be used'
capture "$run" "${tiny[@]}" --prompt-ids 5,6,7 -n 4 --ignore-eos --json
ok 'ids in, ids and text out' json 'len(o) >= 5 and o[-1]["prompt_tokens"] == 3'

first=$(head -c 200 "$tmp/first" | python3 -c 'import sys; t = sys.stdin.buffer.read().decode("utf-8", "ignore"); print(t[2:4])')
capture "$run" "${tiny[@]}" -p hello -n 20 --ignore-eos --stop "$first" --json
ok 'stop: reason' json 'o[-1]["reason"] == "stop"'
ok 'stop: never written' json '"'"$first"'" not in "".join(x.get("text") or "" for x in o)'

cp -r "$models/tiny.gguf" "$tmp/m.gguf"
mkdir -p "$XDG_DATA_HOME/reploid/models/my-model"
cp "$models/tiny.gguf" "$XDG_DATA_HOME/reploid/models/my-model/"
capture "$run" -q --device cpu -m my-model -p hi -n 1
ok 'a model by its id' code_is 0
mkdir -p "$tmp/store/models" && mv "$XDG_DATA_HOME/reploid/models/my-model" "$tmp/store/models/"
REPLOID_HOME=$tmp/store capture "$run" -q --device cpu -m my-model -p hi -n 1
ok 'the store of REPLOID_HOME' code_is 0

capture "$run" --device cpu -m "$models/tiny.gguf" -p hi -n 2 --stats
ok 'stats on stderr' says 'tokens/s'
ok 'one plain line where no terminal is' says 'loading tiny.gguf'
ok 'no control characters' test "$(tr -d '\n\40-\176' <"$tmp/err" | wc -c)" -eq 0

fails 'cpu: no keys and values in f16' 11 'use --kv f32' "$run" -q --device cpu -m "$models/tiny.gguf" -p hi -n 1 --kv f16
fails 'kv: a wrong word' 2 "'f8' is none of f32|f16" "$run" -q -m "$models/tiny.gguf" -p hi -n 1 --kv f8

# A Vulkan device, lavapipe where there is no other.
answer_on() { "$run" -q -m "$models/tiny.gguf" --device "$1" -p hello -n 12 --ignore-eos --json; }
capture answer_on gpu
if code_is 40; then
	skip 'gpu' 'no Vulkan device'
else
	ok 'gpu: answers' json 'o[-1]["tokens"] == 12 and o[-1]["device"]["backend"] == "vulkan"'
	gpu=$(sed -n 's/.*"id":\([0-9]*\).*/\1/p' "$tmp/out" | xargs)
	capture answer_on cpu
	ok 'gpu: the same ids as the C engine' test "$gpu" = "$(sed -n 's/.*"id":\([0-9]*\).*/\1/p' "$tmp/out" | xargs)"
	capture "$run" -q -m "$models/tiny.gguf" --device gpu --variant portable -p hello -n 2
	ok 'gpu: portable kernels' code_is 0
	for kv in f32 f16; do
		REPLOID_KV=$kv capture "$run" -q -m "$models/tiny.gguf" --device gpu -p hello -n 12 --ignore-eos --json
		ok "gpu: the same ids with keys and values in $kv" test "$gpu" = "$(sed -n 's/.*"id":\([0-9]*\).*/\1/p' "$tmp/out" | xargs)"
	done
	ok 'kernels are kept' test -n "$(ls "$XDG_CACHE_HOME/reploid")"
fi
capture "$run" --list-devices --json
ok 'list-devices' json 'o[-1]["name"] == "cpu" and all(x["type"] == "device" and x["schema"] == "reploid-devices/1" for x in o)'
capture env VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent "$run" --list-devices
ok 'list-devices without a driver: the C engine' has_line 'cpu  the C engine'
ok 'list-devices without a driver: says why' says 'Vulkan'

# Signals (signals.py drives the program through pipes).
for test in reading-INT reading-TERM generating-INT generating-TERM ignored-INT; do
	capture python3 tests/cli/signals.py "$test" "$run" "${tiny[@]}"
	ok "signals: $test" code_is 0
done
fails 'a profile is of a GPU' 11 'a profile is of a Vulkan device' "$run" --device cpu -m "$models/tiny.gguf" -p hi -n 2 --profile
capture "$run" --device gpu -m random:tiny --prompt-ids 1,2,3,4 -n 3 --ignore-eos --profile
if code_is 40; then
	skip 'profile' 'no Vulkan device'
else
	ok 'profile: the table' says 'us a pass'
	ok 'profile: the answer' code_is 0
	capture "$run" --device gpu -m random:tiny --prompt-ids 1,2,3,4 -n 3 --ignore-eos --profile --json -q
	ok 'profile: JSON' python3 -c 'import json, sys
p = json.loads(open(sys.argv[1]).read().splitlines()[-1])
assert p["type"] == "profile" and p["prompt"]["passes"] == 1 and p["generation"]["passes"] == 2
for phase in "prompt", "generation":
	rows = [k for k in p["kernels"] if k["phase"] == phase]
	assert rows and abs(sum(k["share"] for k in rows) - 1) < 1e-6 and all(k["count"] > 0 for k in rows)' "$tmp/out"
	ok 'profile: quiet' quiet
fi

# Options: spellings, errors, the environment and the configuration file.
. tests/cli/lib.sh

capture "$run" --version
ok 'version' prints "reploid-run 0.1.0
"
capture "$run" --help
ok 'help is data' code_is 0
ok 'help goes to stdout' quiet
ok 'help shows defaults and twins' has_line 'REPLOID_TOP_K'
for width in 60 72 110; do
	COLUMNS=$width capture "$run" -h
	ok "help fits $width columns" test "$(wc -L <"$tmp/out")" -lt "$width"
done
capture "$run" --exit-codes
ok 'exit codes' has_line "130	cancelled"

fails 'unknown option, near' 2 'did you mean --temp?' "$run" --tempp 1
fails 'unknown option, far' 2 'unknown option --frobnicate' "$run" --frobnicate
fails 'unknown letter' 2 'unknown option -Z' "$run" -Z
fails 'value missing' 2 '-m (--model) needs a value' "$run" -m
fails 'range named' 2 '--temp: 1000 is out of range, 0 to 100' "$run" --temp=1000
fails 'negative number' 2 '-n (--tokens): -1 is out of range' "$run" -n -1
fails 'not a number' 2 "--top-k: 'many' is not a whole number" "$run" --top-k many
fails 'wrong choice' 2 "'mistral' is none of qwen|chatml|llama3|gemma4|none" "$run" --template mistral
fails 'operand' 2 'give the prompt with -p TEXT' "$run" 'what is this'
fails 'logprobs without json' 2 '--logprobs needs --json' "$run" -p x --logprobs 3
fails 'two prompts' 2 '--prompt-ids is the whole prompt' "$run" -p x --prompt-ids 1
fails 'empty stop' 2 '--stop: the text is empty' "$run" -p x --stop ''
fails 'raw and template' 2 '--raw means no template' "$run" -p x --raw --template qwen
fails 'ids that are none' 2 "expected whole numbers with commas between, found 'x" "$run" -m "$models/tiny.gguf" --prompt-ids 1,x
fails 'environment twin' 2 "REPLOID_TEMP: 'hot' is not a number" env REPLOID_TEMP=hot "$run" -p x
fails 'device word' 2 'device' "$run" -m "$models/tiny.gguf" -p x --device fast

ids() { "$run" -q --device cpu -m "$models/tiny.gguf" --json "$@" 2>"$tmp/err" | python3 -c 'import json, sys
o = [json.loads(l) for l in sys.stdin]
print(o[-1]["reason"], o[-1]["seed"], o[-1]["tokens"], *[x["id"] for x in o[:-1]])'; }
plain=$(ids --prompt-ids 5,6 -n 3 --ignore-eos)
ok 'twin gives the same' test "$plain" = "$(REPLOID_TOKENS=3 REPLOID_IGNORE_EOS=on ids --prompt-ids 5,6)"
ok 'flag wins over twin' test "$plain" = "$(REPLOID_TOKENS=7 ids --prompt-ids=5,6 -n3 --ignore-eos)"
printf '# defaults\nrun.tokens = 3\nignore-eos = on\nserve.port = 1\n' >"$tmp/config"
ok 'configuration file' test "$plain" = "$(ids --config "$tmp/config" --prompt-ids 5,6)"
ok 'twin wins over file' test "$plain" = "$(REPLOID_CONFIG=$tmp/config REPLOID_TOKENS=3 ids --prompt-ids 5,6)"
mkdir -p "$XDG_CONFIG_HOME/reploid"
printf 'run.no-such = 1\n' >"$XDG_CONFIG_HOME/reploid/config"
fails 'configuration: unknown name' 2 "config:1: reploid-run has no option 'no-such'" "$run" -p x
rm -r "$XDG_CONFIG_HOME/reploid"
fails 'configuration named but missing' 3 'no-such-file' "$run" --config "$tmp/no-such-file" -p x
ok 'prompt ids of the environment give way' test "$(ids -p hi -n 2 --ignore-eos)" = "$(REPLOID_PROMPT_IDS=1,2 ids -p hi -n 2 --ignore-eos)"

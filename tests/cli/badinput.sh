# Bad input: each a clear message and its own exit code.
. tests/cli/lib.sh

bad() { # bad NAME CODE TEXT: a model file of make_models.py that must be refused
	fails "model: $1" "$2" "$3" "$run" -q --device cpu -m "$models/$1.gguf" --prompt-ids 5,6 -n 2
	ok "model: $1: names the file" says "$1.gguf"
}
bad empty 10 'is no model file'
bad text 10 'is no model file'
bad cut-header 10 'bytes left'
bad cut-data 10 'past the end of the file'
bad long-string 10 'long-string'
bad many-keys 10 'claims'
bad huge-dim 10 'past the end of the file'
bad huge-product 10 'does not fit'
bad past-end 10 'past the end of the file'
bad overlap 10 'overlap'
bad twice 10 'there twice'
bad bad-name 10 'not UTF-8'
bad bad-key 10 'not UTF-8'
bad key-type 10 'unknown type 77'
bad tensor-type 11 'type 199'
bad architecture 11 'unheard-of'
bad missing 12 'blk.1.ffn_up.weight is missing'
bad shape 12 'blk.1.ffn_up.weight has shape'
bad heads 12 'heads'
bad eos 12 '100000'

fails 'no such file' 3 'no such file or folder' "$run" -m "$tmp/none.gguf" -p x
fails 'no such id' 3 'data/reploid/models' "$run" -m no-such-model -p x
mkdir "$tmp/folder"
fails 'folder without a model' 3 'no model in this folder' "$run" -m "$tmp/folder" -p x
fails 'no embedded model' 3 'REPLOID_DATA' env REPLOID_DATA="$tmp/folder" "$run" -p x
fails 'no prompt file' 3 'prompt: ' "$run" -m "$models/tiny.gguf" -f "$tmp/none.txt"
fails 'prompt file is a folder' 4 'is a folder' "$run" -m "$models/tiny.gguf" -f "$tmp"
ln -s loop "$tmp/loop" # not even root can open it
fails 'prompt file that cannot be opened' 4 'cannot open' "$run" -m "$models/tiny.gguf" -f "$tmp/loop"
mkfifo "$tmp/pipe.gguf"
fails 'model that is no file' 4 'pipe.gguf' "$run" -m "$tmp/pipe.gguf" -p x

tiny=(-q --device cpu -m "$models/tiny.gguf")
fails 'template absent' 13 '--template' "$run" -q --device cpu -m "$models/no-template.gguf" -p hi
fails 'template unknown' 13 '--template' "$run" -q --device cpu -m "$models/odd-template.gguf" -p hi
fails 'no tokenizer' 12 '--prompt-ids' "$run" -q --device cpu -m "$models/no-tokenizer.gguf" -p hi
fails 'empty prompt' 14 'the prompt is empty' "$run" "${tiny[@]}" -p ''
fails 'empty standard input' 14 'the prompt is empty' "$run" "${tiny[@]}"
fails 'prompt not UTF-8' 14 'not UTF-8: byte 3 (0xff)' "$run" "${tiny[@]}" -p $'abc\xffdef'
fails 'system not UTF-8' 14 'the system message is not UTF-8' "$run" "${tiny[@]}" -p hi --system $'\xc3'
printf 'a\0b' >"$tmp/nul"
fails 'prompt with NUL' 14 'NUL byte' "$run" "${tiny[@]}" -f "$tmp/nul"
fails 'id outside the vocabulary' 14 'id 99999 is outside the vocabulary, 0 to 259' "$run" "${tiny[@]}" --prompt-ids 1,99999
fails 'no ids' 14 'expected whole numbers' "$run" "${tiny[@]}" --prompt-ids ''
head -c 2000 /dev/zero | tr '\0' 'z' >"$tmp/long"
fails 'prompt longer than any context' 15 'all the model was made for; shorten it' "$run" "${tiny[@]}" -f "$tmp/long"
fails 'prompt as long as the context' 15 'shorten it or raise --ctx' "$run" "${tiny[@]}" --ctx 3 --prompt-ids 5,6,7
fails 'no Vulkan driver' 40 'Vulkan' env VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent "$run" -q --device gpu -m "$models/tiny.gguf" -p x
fails 'no such device' 40 '99' "$run" -q --device 99 -m "$models/tiny.gguf" -p x
# Caches for a context of 16 million positions need gigabytes.
limited() { bash -c 'ulimit -v 2000000; exec "$@"' - "$@"; }
if limited "$run" --version >"$tmp/out" 2>&1; then
	fails 'too little memory' 41 'memory' limited "$run" -q --device cpu -m "$models/long-context.gguf" --ctx 16000000 -p x
	ok 'too little memory: says how much' grep -q '[0-9]' "$tmp/err"
else
	skip 'too little memory' 'a sanitizer build needs more address space than any limit allows'
fi

status=0
"$run" "${tiny[@]}" -p hi -n 5 --ignore-eos >/dev/full 2>"$tmp/err" || status=$?
ok 'output on a full device' code_is 6
ok 'output on a full device: message' says 'standard output'
status=0
"$run" "${tiny[@]}" -p hi >&- 2>"$tmp/err" || status=$?
ok 'output closed' code_is 5
ok 'output closed: message' says 'standard output is closed'
{ "$run" "${tiny[@]}" -p hi -n 200 --ignore-eos 2>"$tmp/err"; echo $? >"$tmp/code"; } | head -c 1 >/dev/null
status=$(cat "$tmp/code")
# The reader may be gone before the first write or after some; a short answer may even fit the pipe.
ok 'reader gone' test "$status" -eq 5 -o "$status" -eq 0

# reploid-fetch from outside: options, files of this machine, the catalogue, repair. Servers that misbehave are in tests/net.
. tests/cli/lib.sh
fetch=$(dirname "$run")/reploid-fetch
verify=$(dirname "$run")/reploid-verify
export XDG_DATA_HOME=$tmp/data-home # a store of its own
store=$XDG_DATA_HOME/reploid
embedded=$PWD/manifests/embedded
file=$models/tiny.gguf

is_file() { cmp -s "$1" "$2"; }
nothing_left() { [ -z "$(find "$1" -name '*.part' -o -name '*.journal')" ]; }

# ---- options ----
fails 'nothing to fetch' 2 'nothing to fetch' "$fetch"
fails 'two things' 2 'one thing is fetched at a time' "$fetch" a b
fails 'unknown scheme' 2 'neither an http, https or file address' "$fetch" ftp://h/x
fails 'absent path' 3 'no-such/file' "$fetch" ./no-such/file
fails 'absent id' 3 'no such id in the catalogue' "$fetch" no-such-id
fails 'hash that is none' 2 '--sha256: expected 64' "$fetch" "file://$file" --sha256 abc
fails 'offline' 34 '--offline forbids' "$fetch" https://h.example/m.gguf --offline
fails 'address without a name' 2 'give one with -o' "$fetch" https://h.example/ --offline
fails 'header that is none' 2 '--header: expected' "$fetch" https://127.0.0.1:1/x -o "$tmp/x" -H 'no colon'
fails 'secrets in the clear' 31 'use https' "$fetch" http://h.example/x -o "$tmp/x" -H 'A: b'
fails 'hub without a name' 2 'expected hf:org/repo' "$fetch" hf:org
fails 'hub offline' 34 '--offline forbids' "$fetch" hf:org/repo --offline
fails 'list and source' 2 'stand alone' "$fetch" --list x
fails 'gc asks' 2 'give -y' env REPLOID_HOME="$tmp/gc" sh -c 'mkdir -p "$REPLOID_HOME/models/m" && : >"$REPLOID_HOME/models/m/x.0.part" && exec "$0" --gc' "$fetch"
fails 'catalogue in the clear' 2 'use https' "$fetch" --list --catalog http://h.example/models.json
printf '{' >"$tmp/bad.json"
fails 'catalogue that is none' 10 'bad.json: line 1' "$fetch" --list --catalog "$tmp/bad.json"

# ---- the catalogue that comes along ----
capture "$fetch" --list
ok 'list' has_line 'qwen-3-5-2b-q4k-ehaf16'
capture "$fetch" --list --json
ok 'list as JSON' json 'len(o) == 4 and all(x["state"] == "absent" for x in o) and sum(x["type"] == "adapter" for x in o) == 1'
fails 'model without a source, offline' 34 'manifest.json' "$fetch" qwen-3-6-35b-a3b-text-source-q4_0-af32 --offline
ok 'nothing is left of it' test ! -e "$store/models/qwen-3-6-35b-a3b-text-source-q4_0-af32"

# ---- files of this machine ----
capture "$fetch" "$file"
ok 'file: path alone on standard output' prints "$store/models/tiny/tiny.gguf
"
ok 'file: copied' is_file "$file" "$store/models/tiny/tiny.gguf"
capture "$fetch" "file://$file" -o "$tmp/new/deep/t.gguf" --sha256 "$(sha256sum <"$file" | cut -c1-64)" -q
ok 'file address, new folders' is_file "$file" "$tmp/new/deep/t.gguf"
ok 'quiet' quiet
fails 'wrong hash' 20 'expected 0000' "$fetch" "$file" -o "$tmp/w/wrong" --sha256 "$(printf '%064d' 0)"
ok 'wrong hash: nothing published' test ! -e "$tmp/w/wrong"
ok 'wrong hash: nothing left' nothing_left "$tmp/w"
capture "$fetch" "$file" -n -o "$tmp/dry"
ok 'dry run' has_line 'to fetch'
ok 'dry run writes nothing' test ! -e "$tmp/dry"
mkdir "$tmp/folder"
capture "$fetch" "$file" -o "$tmp/folder"
ok 'into a folder' is_file "$file" "$tmp/folder/tiny.gguf"
fails 'onto itself' 2 'the file itself' "$fetch" "$file" -o "$file"
ln -s "$tmp/outside" "$tmp/folder/link"
capture "$fetch" "$file" -o "$tmp/folder/link"
ok 'a link is replaced, not followed' test ! -e "$tmp/outside" -a ! -L "$tmp/folder/link"
mkdir -p "$tmp/linked/models" && ln -s /tmp "$tmp/linked/models/tiny"
fails 'link in the store' 4 'no folder of its own' "$fetch" "$file" --store "$tmp/linked"

# ---- a model of a catalogue, from a folder and from a server ----
if [ ! -f "$embedded/pieces.json" ]; then
	skip 'models' 'the embedded model is not here'
	exit 0
fi
cat >"$tmp/serve.py" <<'EOF'
import functools, http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): open(sys.argv[2], 'a').write('x\n')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=sys.argv[1]))
print(server.server_port, flush=True)
server.serve_forever()
EOF
python3 "$tmp/serve.py" "$embedded" "$tmp/hits" >"$tmp/port" 2>"$tmp/server.err" &
server=$!
trap 'kill $server' EXIT
for _ in $(seq 100); do [ -s "$tmp/port" ] && break; sleep 0.05; done
mkdir "$tmp/data"
python3 tests/cli/make_catalog.py "$embedded" guide "http://127.0.0.1:$(cat "$tmp/port")/" >"$tmp/foreign.json"
fails 'manifest of another model' 10 'modelId' "$fetch" guide --catalog "$tmp/foreign.json" -o "$tmp/foreign"
id=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["modelId"])' "$embedded/manifest.json")
python3 tests/cli/make_catalog.py "$embedded" "$id" "http://127.0.0.1:$(cat "$tmp/port")/" >"$tmp/data/models.json"
same_model() { # FOLDER: all that the index and the catalogue name
	local f
	for f in manifest.json pieces.json $(python3 -c 'import json, sys; print(*[f["path"] for f in json.load(open(sys.argv[1]))["files"]])' "$embedded/pieces.json"); do
		cmp -s "$embedded/$f" "$1/$f" || return 1
	done
	nothing_left "$1"
}
capture "$fetch" "$id" --catalog "$tmp/data/models.json" --offline --mirror "$embedded" -o "$tmp/copy"
ok 'model: from a folder, offline' same_model "$tmp/copy"
fails 'model: run does not fetch unasked' 3 'give -y' env REPLOID_DATA="$tmp/data" "$run" -m "$id" -p hello
ok 'model: nothing was fetched' test ! -e "$store/models/$id"
capture env REPLOID_DATA="$tmp/data" "$run" -m "$id" -p hello -n 2 --device cpu -y
ok 'model: run fetches it' same_model "$store/models/$id"
ok 'model: and answers' code_is 0
capture env REPLOID_DATA="$tmp/data" "$fetch" --list --json
ok 'model: listed' json 'o[0]["state"] == "present" and o[0]["bytes"] > 0'
before=$(wc -l <"$tmp/hits")
capture env REPLOID_DATA="$tmp/data" "$run" -m "$id" -p hello -n 2 --device cpu
ok 'model: present, run leaves the network alone' test "$status" -eq 0 -a "$before" -eq "$(wc -l <"$tmp/hits")"
capture env REPLOID_DATA="$tmp/data" "$fetch" "$id" --offline
ok 'model: present, fetch says where' prints "$store/models/$id
"
shard=$(ls "$store/models/$id" | grep '\.bin$' | head -n 1)
rm "$store/models/$id/$shard"
capture env REPLOID_DATA="$tmp/data" "$fetch" "$id" --store "$tmp/other" --mirror "$tmp/copy" --offline
ok 'model: seeds of a mirror' same_model "$tmp/other/models/$id"
capture env REPLOID_DATA="$tmp/data" "$fetch" "$id" --json
ok 'model: what is missing is fetched' same_model "$store/models/$id"
ok 'model: events' json 'o[-1]["type"] == "done" and any(x["type"] == "file" for x in o) and all(x["schema"] == "reploid-fetch/1" for x in o)'

# ---- repair ----
repaired() {
	"$verify" --no-cache --bad-pieces "$store/models/$id" 2>/dev/null | REPLOID_DATA=$tmp/data timeout 60 "$fetch" --only - "$@"
}
if [ -x "$verify" ]; then
	printf 'XXXX' | dd of="$store/models/$id/$shard" bs=1 seek=1000 conv=notrunc 2>/dev/null
	capture repaired
	ok 'repair: from the catalogue' same_model "$store/models/$id"
	capture repaired
	ok 'repair: nothing to do' test "$status" -eq 0 -a ! -s "$tmp/out"
else
	skip 'repair' 'reploid-verify is not built'
fi
fails 'repair: no list' 10 'reploid-pieces/1 as the first line' "$fetch" --only "$tmp/bad.json"

# reploid-verify from outside: models, files, bad pieces, the cache of hashes. Sums and lists are in tests/coreutils.
. tests/cli/lib.sh
verify=$(dirname "$run")/reploid-verify
embedded=$REPLOID_DATA/embedded
store=$XDG_DATA_HOME/reploid
mkdir -p "$store"

if [ ! -x "$verify" ] || [ ! -f "$embedded/manifest.json" ]; then
	skip 'all of verify' 'reploid-verify is not built or the embedded model is not here'
	exit 0
fi
byte() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; } # byte FILE OFFSET VALUE
sha256_of() { sha256sum "$1" | cut -c1-64; }

# ---- models ----
capture "$verify" --no-cache "$embedded"
ok 'model: every file and the whole' has_line "$embedded: OK"
ok 'model: good' code_is 0
capture "$verify" --no-cache embedded
ok 'model: by id' has_line "embedded: OK"
for form in 'sha256 pieces' 'sha256 tensors' 'sha256 none' "blake3:$verify pieces" "blake3:$verify tensors"; do
	set -- $form
	good=9
	[ "$2" != none ] || good=8
	rm -rf "$tmp/m"
	python3 tests/cli/reshard.py "$embedded" "$tmp/m" 1300007 "$1" "$2"
	for threads in 1 4; do
		capture "$verify" --no-cache --threads "$threads" --json "$tmp/m"
		ok "shards, ${1%%:*} $2, $threads threads: good" json 'o[-1]["failed"] == 0 and o[-2]["status"] == "ok" and o[-2]["roots"] == 109 and o[-2]["tensors"] == 109'
	done
	byte "$tmp/m/shard_00003.bin" 777777 '\377\001'
	capture "$verify" --no-cache "$tmp/m"
	ok "shards, ${1%%:*} $2: a changed byte" code_is 20
	ok "shards, ${1%%:*} $2: the shard is named" has_line "$tmp/m/shard_00003.bin: FAILED"
	ok "shards, ${1%%:*} $2: the tensor is named" says 'tensor model.'
	ok "shards, ${1%%:*} $2: the others are good" [ "$(grep -c ': OK' "$tmp/out")" -eq "$good" ]
done

# Only the root knows: the byte is changed and every other hash made right.
python3 - "$tmp/m" "$verify" <<'END'
import hashlib, json, sys
m = json.load(open(sys.argv[1] + "/manifest.json"))
m["hashAlgorithm"] = "sha256"
for s in m["shards"]:
    s["hash"] = hashlib.sha256(open(sys.argv[1] + "/" + s["filename"], "rb").read()).hexdigest()
json.dump(m, open(sys.argv[1] + "/manifest.json", "w"))
END
rm -f "$tmp/m/pieces.json"
capture "$verify" --no-cache "$tmp/m"
ok 'roots: alone they find it' code_is 20
ok 'roots: every file is good' [ "$(grep -c '^.*/m/.*: OK' "$tmp/out")" -eq 9 ]
ok 'roots: the whole is not' has_line "$tmp/m: FAILED"

# ---- what is wrong is named, with its code ----
fresh() {
	rm -rf "$tmp/m"
	cp -r "$embedded" "$tmp/m"
}
fresh
capture "$verify" --no-cache --identity "sha256:$(sha256_of "$tmp/m/manifest.json")" "$tmp/m"
ok 'identity: right' code_is 0
capture "$verify" --no-cache --identity "$(printf '%064d' 7)" "$tmp/m"
ok 'identity: wrong' code_is 20
capture "$verify" --no-cache --identity 12 "$tmp/m"
ok 'identity: malformed' code_is 2
truncate -s -1 "$tmp/m/shard_00000.bin"
capture "$verify" --no-cache "$tmp/m"
ok 'a short shard' says 'is 7989903 bytes long, expected 7989904'
ok 'a short shard: code' code_is 20
rm "$tmp/m/shard_00000.bin"
capture "$verify" --no-cache "$tmp/m"
ok 'a missing shard' has_line 'shard_00000.bin: FAILED open or read'
ok 'a missing shard: code' code_is 3
fresh
sed -i 's/"shard_00000.bin"/"..\/m\/shard_00000.bin"/' "$tmp/m/manifest.json"
capture "$verify" --no-cache "$tmp/m"
ok 'a name that leaves the folder' says 'expected the name of a file in this folder'
ok 'a name that leaves the folder: code' code_is 10
fresh
sed -i 's/"hashAlgorithm"/"hashAlgorithm":"md5","x"/' "$tmp/m/manifest.json"
capture "$verify" --no-cache "$tmp/m"
ok 'an unknown hash' says 'hashAlgorithm is'
fresh
sed -i 's/"maxPieceBytes": *[0-9]*/"maxPieceBytes": 1/' "$tmp/m/pieces.json"
capture "$verify" --no-cache "$tmp/m"
ok 'a malformed index' code_is 10
fresh
echo '{"schema":"doppler.verified-pieces/v1"' >"$tmp/m/pieces.json"
capture "$verify" --no-cache "$tmp/m"
ok 'an index cut short' code_is 10
capture "$verify" --no-cache "$tmp/nothing"
ok 'nothing there' code_is 3
capture "$verify"
ok 'no operand' code_is 2
mkdir "$tmp/empty"
capture "$verify" --no-cache "$tmp/empty"
ok 'an empty folder fails' [ "$status" -ne 0 ]

# ---- the catalogue ----
fresh
catalogue() { # catalogue KEY VALUE: a catalogue of the model in $tmp/m, with one value of an object in it changed
	python3 - "$tmp/m" "$tmp/models.json" "$@" <<'END'
import hashlib, json, os, sys
folder, out = sys.argv[1:3]
def entry(path, role):
    data = open(folder + "/" + path, "rb").read()
    return {"path": path, "role": role, "sizeBytes": len(data), "hashAlgorithm": "sha256", "hash": hashlib.sha256(data).hexdigest()}
files = [entry("manifest.json", "model-manifest"), entry("tokenizer.json", "tokenizer"), entry("pieces.json", "model-piece-index")]
if len(sys.argv) > 3:
    next(f for f in files if f["path"] == sys.argv[3])["hash"] = sys.argv[4]
model = {"id": json.load(open(folder + "/manifest.json"))["modelId"], "name": "x", "identity": "sha256:" + files[0]["hash"], "provider": "doppler",
    "contextLength": 4096, "quantization": "q4k", "size": "Q4K", "adapters": [], "source": {"baseUrl": "https://models.example/m/", "files": files}}
json.dump([model], open(out, "w"))
END
}
catalogue
capture "$verify" --no-cache --json --catalog "$tmp/models.json" "$tmp/m"
ok 'catalogue: good' json 'o[-1]["failed"] == 0 and o[-2]["catalogue"] is True'
ok 'catalogue: vouches for the tokenizer' json '[x["sha256"] for x in o if x.get("path", "").endswith("tokenizer.json")] != [None]'
for file in manifest.json pieces.json tokenizer.json; do
	catalogue "$file" "$(printf '%064d' 5)"
	capture "$verify" --no-cache --catalog "$tmp/models.json" "$tmp/m"
	ok "catalogue: another $file" code_is 20
	ok "catalogue: another $file is named" says "$tmp/m/$file: "
done
catalogue manifest.json "$(printf '%064d' 5)"
capture "$verify" --no-cache --catalog "$tmp/models.json" --identity "$(sha256_of "$tmp/m/manifest.json")" "$tmp/m"
ok 'catalogue: --identity is stronger' code_is 0
catalogue
byte "$tmp/m/shard_00000.bin" 6 x
capture "$verify" --bad-pieces --catalog "$tmp/models.json" "$tmp/m"
ok 'catalogue: where to fetch from' has_line 'source https://models.example/m/shard_00000.bin'
echo '[{"id":"a","id":"b"}]' >"$tmp/models.json"
capture "$verify" --no-cache --catalog "$tmp/models.json" "$tmp/m"
ok 'catalogue: malformed' code_is 10

# ---- single files ----
capture "$verify" --no-cache "$models/tiny.gguf"
ok 'gguf: structure' prints "$models/tiny.gguf: OK
"
ok 'gguf: nothing vouches for its bytes' says 'no hash of it is known'
capture "$verify" --no-cache --sha256 "$(sha256_of "$models/tiny.gguf")" "$models/tiny.gguf"
ok 'gguf: by its hash' code_is 0
capture "$verify" --no-cache --sha256 "$(printf '%064d' 1)" "$models/tiny.gguf"
ok 'gguf: not its hash' code_is 20
head -c 3000 "$models/tiny.gguf" >"$tmp/cut.gguf"
capture "$verify" --no-cache "$tmp/cut.gguf"
ok 'gguf: cut short' code_is 10
ok 'gguf: cut short, FAILED' prints "$tmp/cut.gguf: FAILED
"
echo text >"$tmp/text"
capture "$verify" --no-cache "$tmp/text"
ok 'no model, nothing known' code_is 11
capture "$verify" --no-cache --json "$models/tiny.gguf"
ok 'gguf: json' json 'o[0]["type"] == "file" and o[0]["vouched"] is False and o[1]["format"] == "gguf" and o[2]["type"] == "summary"'
ok 'json: what is in force' json 'set(o[-1]["confined"]) == {"files", "calls"}'

# ---- bad pieces ----
fresh
capture "$verify" --bad-pieces "$tmp/m"
ok 'bad pieces: none' prints 'reploid-pieces/1
'
byte "$tmp/m/shard_00000.bin" 5000000 x
capture "$verify" --bad-pieces "$tmp/m"
ok 'bad pieces: one' [ "$(grep -c '^piece 4194304 3795600 sha256:' "$tmp/out")" -eq 1 ]
ok 'bad pieces: its file' has_line "file 7989904 sha256:$(sha256_of "$embedded/shard_00000.bin") $tmp/m/shard_00000.bin"
ok 'bad pieces: making the list is success' code_is 0
cp "$embedded/shard_00000.bin" "$tmp/elsewhere.bin"
(cd "$tmp" && cp m/pieces.json other.json && sed -i 's/shard_00000.bin/elsewhere.bin/' other.json && byte elsewhere.bin 10 y)
capture "$verify" --bad-pieces --index "$tmp/other.json" "$tmp/elsewhere.bin"
ok 'bad pieces: of a plain file' [ "$(grep -c '^piece ' "$tmp/out")" -eq 1 ]
ok 'bad pieces: the first' grep -q '^piece 0 4194304 sha256:' "$tmp/out"
truncate -s 4194304 "$tmp/elsewhere.bin"
capture "$verify" --bad-pieces --index "$tmp/other.json" "$tmp/elsewhere.bin"
ok 'bad pieces: a missing tail' [ "$(grep -c '^piece ' "$tmp/out")" -eq 2 ]
capture "$verify" --bad-pieces "$tmp/text"
ok 'bad pieces: nothing known' code_is 11

# What was kept when a file was fetched (the store's trees) repairs it, whatever happened to it since.
cat "$embedded/shard_00000.bin" "$embedded/shard_00000.bin" "$embedded/tokenizer.json" >"$tmp/whole.bin"
python3 - "$tmp/whole.bin" "$store" <<'END'
import hashlib, json, os, sys
data = open(sys.argv[1], "rb").read()
pieces = [hashlib.sha256(data[at:at + (4 << 20)]).hexdigest() for at in range(0, len(data), 4 << 20)]
os.makedirs(sys.argv[2] + "/trees", exist_ok=True)
json.dump({"schema": "reploid.local-pieces/v1", "size": len(data), "pieceBytes": 4 << 20, "sha256": hashlib.sha256(data).hexdigest(), "pieces": pieces,
    "sources": ["https://models.example/whole.bin"]}, open(f"{sys.argv[2]}/trees/{len(data)}-{'0' * 32}.json", "w"))
END
tree_size=$(stat -c %s "$tmp/whole.bin")
bad_of() { capture "$verify" --bad-pieces "$tmp/copy.bin"; [ "$(grep -c '^piece ' "$tmp/out")" -eq "$1" ]; }
cp "$tmp/whole.bin" "$tmp/copy.bin"
capture "$verify" --no-cache "$tmp/copy.bin"
ok 'tree: good' code_is 0
ok 'tree: nothing bad' bad_of 0
byte "$tmp/copy.bin" 5000000 xy
capture "$verify" --no-cache "$tmp/copy.bin"
ok 'tree: a changed piece' code_is 20
ok 'tree: a changed piece is listed' bad_of 1
ok 'tree: with its source' has_line 'source https://models.example/whole.bin'
ok 'tree: with the hash of the whole' has_line "file $tree_size sha256:$(sha256_of "$tmp/whole.bin") $tmp/copy.bin"
head -c 9000000 "$tmp/whole.bin" >"$tmp/copy.bin"
ok 'tree: cut short' bad_of 2
{ cat "$tmp/whole.bin"; echo more; } >"$tmp/copy.bin"
capture "$verify" --bad-pieces "$tmp/copy.bin"
ok 'tree: too long' says 'has 5 bytes too many'
rm -r "$store/trees"

# ---- the cache of hashes ----
fresh
rm -f "$store/hashes"
sleep 1.1
capture "$verify" "$tmp/m"
ok 'cache: kept in the store' [ -s "$store/hashes" ]
ok 'cache: nobody else may read it' [ "$(stat -c %a "$store/hashes")" = 600 ]
capture "$verify" --json "$tmp/m"
ok 'cache: nothing is read twice' json 'o[-1]["bytes_read"] == 0 and o[-1]["cached"] == 2 and o[-1]["failed"] == 0'
capture "$verify" --json --paranoid "$tmp/m"
ok 'cache: --paranoid reads all' json 'o[-1]["bytes_read"] > 8000000 and o[-1]["cached"] == 0'
capture "$verify" --json --no-cache "$tmp/m"
ok 'cache: --no-cache reads all' json 'o[-1]["bytes_read"] > 8000000'
byte "$tmp/m/shard_00000.bin" 5000000 z
touch -r "$embedded/manifest.json" "$tmp/m/shard_00000.bin"
capture "$verify" "$tmp/m"
ok 'cache: a change under an old date is seen' code_is 20
cp "$embedded/shard_00000.bin" "$tmp/m/"
capture "$verify" "$tmp/m"
capture "$verify" --json "$tmp/m"
ok 'cache: what was changed just now is read again' json 'o[-1]["bytes_read"] >= 7989904'
sleep 1.1
capture "$verify" "$tmp/m"
cp "$store/hashes" "$tmp/hashes"
for damage in 's/^65/x65/; s/^[0-9]/-/' 's/ - / /' '1s/1/2/' '$s/.$//' 's/^\([0-9]*\) /99999999999999999999999 /'; do
	sed "$damage" "$tmp/hashes" >"$store/hashes"
	capture "$verify" --json "$tmp/m"
	ok "cache: malformed counts as empty ($damage)" json 'o[-1]["bytes_read"] > 8000000 and o[-1]["failed"] == 0'
done
cp "$tmp/hashes" "$store/hashes"
chmod 666 "$store/hashes"
capture "$verify" --json "$tmp/m"
ok 'cache: not one that others may write' json 'o[-1]["bytes_read"] > 8000000'
rm -f "$store/hashes"
ln -s "$tmp/hashes" "$store/hashes"
capture "$verify" --json "$tmp/m"
ok 'cache: not through a link' json 'o[-1]["bytes_read"] > 8000000'
rm -f "$store/hashes"

# ---- the page cache ----
cat >"$tmp/resident.py" <<'END'
# How many MiB of a file lie in the page cache.
import ctypes, mmap, os, sys
size = os.path.getsize(sys.argv[1])
m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), size, access=mmap.ACCESS_COPY)
seen = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
if ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), ctypes.c_size_t(size), seen) != 0:
    print("unknown")
print(sum(page & 1 for page in seen) * mmap.PAGESIZE >> 20, flush=True)
os._exit(0)
END
truncate -s 300M "$tmp/huge"
if [ "$(stat -f -c %T "$tmp")" = tmpfs ] || [ "$(cat "$tmp/huge" | wc -c >"$tmp/null"; python3 "$tmp/resident.py" "$tmp/huge")" != 300 ]; then
	skip 'page cache' 'this file system shows no pages of it'
else
	capture "$verify" --print "$tmp/huge"
	ok 'page cache: what was there stays' [ "$(python3 "$tmp/resident.py" "$tmp/huge")" = 300 ]
	for options in '' --blake3 '--threads 1'; do
		rm "$tmp/huge"
		truncate -s 300M "$tmp/huge"
		capture "$verify" --print $options "$tmp/huge"
		ok "page cache: what was not does not stay $options" [ "$(python3 "$tmp/resident.py" "$tmp/huge")" = 0 ]
	done
fi
rm -f "$tmp/huge"

# ---- keys of the environment ----
mkdir "$tmp/signed"
echo text >"$tmp/signed/file"
(cd "$tmp/signed" && sha256sum file >SUMS && cp SUMS BARE && sha256sum "$PWD/file" >BARE.absolute)
capture "$verify" --keygen "$tmp/signed/key"
capture "$verify" --sign "$tmp/signed/key" "$tmp/signed/SUMS"
cd "$tmp/signed" || exit 1
export REPLOID_PUBKEY=$tmp/signed/key.pub
capture "$verify" -c BARE
ok 'key in the environment: a list needs no signature' code_is 0
capture "$verify" --signed -c BARE
ok 'key in the environment: --signed demands one' code_is 3
capture "$verify" --signed -c SUMS
ok 'key in the environment: it is used' code_is 0
capture env REPLOID_SIGNED=on "$verify" -c BARE
ok 'REPLOID_SIGNED demands one' code_is 3
capture "$verify" -x SUMS.minisig SUMS
ok 'key in the environment: with -x' code_is 0
capture "$verify" --signed SUMS
ok 'key in the environment: with --signed' code_is 0
capture "$verify" --sha256 "$(sha256_of file)" file
ok 'key in the environment: a file is only checked against its hash' code_is 0
capture "$verify" --print file
ok 'key in the environment: sums are printed' code_is 0
capture env REPLOID_PUBKEY=nonsense "$verify" -c BARE
ok 'a bad key in the environment is not looked at' code_is 0
capture env REPLOID_PUBKEY=nonsense "$verify" --signed -c SUMS
ok 'a bad key in the environment is, where a signature is checked' [ "$status" -ne 0 ]
unset REPLOID_PUBKEY
capture "$verify" -P key.pub -c BARE
ok 'a key on the command line demands a signature' code_is 3
capture "$verify" -P key.pub -c SUMS
ok 'a key on the command line: signed' code_is 0
capture "$verify" --signed -c SUMS
ok '--signed without a key' code_is 2
ok '--signed without a key: what to do' says 'name it with --pubkey'
capture "$verify" -P key.pub --print file
ok '--print checks no signatures' code_is 2
cd "$OLDPWD" || exit 1

# ---- records: the examples that the fuzzers start from ----
for name in certificate attestation whole-receipt grant; do
	tail -c +2 "tests/fuzz/seeds/records/$name" >"$tmp/$name.json"
	capture "$verify" --at 1767225600000 "$tmp/$name.json"
	ok "record: $name, without being told" code_is 0
	ok "record: $name, what is proved" has_line '  verified: signature '
done
capture "$verify" --record --at 1767225600000 "$tmp/certificate.json" "$tmp/grant.json" "$tmp/attestation.json"
ok 'record: several' code_is 0
capture "$verify" --record --json --at 1767225600000 "$tmp/whole-receipt.json" "$tmp/grant.json" "$tmp/whole-receipt.json"
ok 'record: twice the same' code_is 21
ok 'record: twice the same, the second' json '[x.get("reason") for x in o[:3]] == [None, None, "duplicate"]'
ok 'record: kinds' json '[x["kind"] for x in o[:2]] == ["whole-model-receipt", "partition-grant"]'
capture "$verify" --record "$tmp/certificate.json"
ok 'record: by the clock it is over' says '(expired)'
sed 's/"bytes": 5/"bytes": 6/' "$tmp/attestation.json" >"$tmp/changed.json"
capture "$verify" --record --at 1767225600000 "$tmp/changed.json"
ok 'record: a changed number' says '(bad-signature)'
ok 'record: a changed number: code' code_is 21

# ---- confinement: a library in the program tries ----
mkdir "$tmp/probe"
echo x >"$tmp/probe/there"
tries() { # tries NAME COMMAND...: only reading may work, and the program ends as it does without
	local name=$1
	shift
	capture env LD_PRELOAD="$PWD/build/tests/cli/probe.so" PROBE="$tmp/probe" "$@"
	ok "confined: $name: it was tried" [ "$(grep -c '^probe: ' "$tmp/err")" -eq 14 ]
	ok "confined: $name: only reading works" [ "$(grep '^probe: .*: done' "$tmp/err")" = 'probe: read: done' ]
	ok "confined: $name: nothing happened" [ "$(ls "$tmp/probe"; cat "$tmp/probe/there"; stat -c %a "$tmp/probe/there")" = "there
x
$(printf '%o' $((0666 & ~$(umask))))" ]
	ok "confined: $name: and the work is done" code_is 0
}
case $verify in
*/san-*) skip 'confined' 'a sanitizer wants to be loaded first' ;;
*)
	capture "$verify" --json --no-cache "$models/tiny.gguf"
	if ! json 'o[-1]["confined"] == {"files": True, "calls": True}'; then
		skip 'confined' 'this kernel has no Landlock or no seccomp filters'
	elif ! make build/tests/cli/probe.so >"$tmp/out" 2>&1; then
		ok 'confined: the library builds' false
	else
		tries 'sums' "$verify" --print "$models/tiny.gguf"
		tries 'a list' "$verify" -c "$tmp/signed/BARE.absolute"
		tries 'a file without the cache' "$verify" --no-cache "$models/tiny.gguf"
		tries 'bad pieces' "$verify" --bad-pieces "$embedded"
		# with the cache its folder may be written, and nothing else
		tries 'a model with the cache' "$verify" --paranoid "$embedded"
		ok 'confined: the cache was kept' [ -s "$store/hashes" ]
	fi
	;;
esac
rm -f "$store/hashes"

# ---- the rest ----
capture "$verify" --print "$tmp/m/manifest.json" </dev/null
ok 'print' prints "$(sha256_of "$tmp/m/manifest.json")  $tmp/m/manifest.json
"
mkfifo "$tmp/fifo" "$tmp/fifo2"
(sleep 0.3; printf abc; sleep 0.3; printf def) >"$tmp/fifo" &
(sleep 0.1; printf '') >"$tmp/fifo2" &
capture "$verify" --print "$tmp/fifo" "$tmp/fifo2"
ok 'print: named pipes' prints "$(printf abcdef | sha256sum | cut -c1-64)  $tmp/fifo
$(printf '' | sha256sum | cut -c1-64)  $tmp/fifo2
"
interrupt() { # nobody writes to the pipe
	status=0
	timeout -s INT --preserve-status 0.5 "$verify" --print "$tmp/fifo" "$models/tiny.gguf" >"$tmp/out" 2>"$tmp/err" || status=$?
}
interrupt
ok 'a signal ends the wait for a pipe' code_is 130
capture "$verify" --print --blake3 --tag /dev/null
ok 'print: BLAKE3' prints 'BLAKE3 (/dev/null) = af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262
'
cp "$tmp/out" "$tmp/list"
capture "$verify" --blake3 -c "$tmp/list"
ok 'check: BLAKE3' prints '/dev/null: OK
'
capture "$verify" --json -c "$tmp/list"
ok 'check: json' code_is 1
sha256sum "$tmp/list" "$tmp/text" >"$tmp/list2"
capture "$verify" --json -c "$tmp/list2"
ok 'check: json, good' json '[x["status"] for x in o[:2]] == ["ok", "ok"] and o[2]["type"] == "summary"'
capture "$verify" --print "$tmp/text" >/dev/full
ok 'a full disk' [ "$("$verify" --print "$tmp/text" 2>&1 >/dev/full; echo "$?")" != 0 ]
for shell in bash zsh fish; do
	capture "$verify" --completion "$shell"
	ok "completion: $shell" has_line bad-pieces
done

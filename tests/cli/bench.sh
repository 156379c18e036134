# --bench: names, formats, sweeps, errors. What a time is does not matter here.
. tests/cli/lib.sh

bench() { "$run" --bench -m random:tiny --device cpu -r 2 "$@"; }

capture bench -p 8 -n 4 -pg 8,4 -d 0,16
ok 'bench runs' code_is 0
for name in pp8 tg4 pp8+tg4 'pp8 @ d16' 'tg4 @ d16' 'pp8+tg4 @ d16'; do
	ok "row $name" grep -Eq "\| +$(printf %s "$name" | sed 's/+/\\+/') \| +[0-9]+\.[0-9]{2} ± [0-9]+\.[0-9]{2} \|" "$tmp/out"
done
ok 'six rows' test "$(grep -c '^| qwen3_5 3.358M Q4_K ' "$tmp/out")" -eq 6
ok 'the title' grep -Eq '^\| model +\| +size \| +params \| backend +\| device +\| +test \| +t/s \|' "$tmp/out"
lines_up() { [ "$(grep '^|' "$tmp/out" | sed 's/±/+/' | awk '{ print length($0), gsub(/\|/, "|") }' | sort -u | wc -l)" -eq 1 ]; }
ok 'columns line up' lines_up
ok 'the version' has_line 'build: 0.1.0'
ok 'bandwidth is told' says 'GB/s'

capture bench -q -p 8 -n 4 -o jsonl --threads 1,2 --streams 1,3
ok 'jsonl' json '[(x["n_threads"], x["n_streams"], x["n_prompt"], x["n_gen"], x["ids"]) for x in o] == [
	(t, s, p, g, "greedy" if g else "random") for t in (1, 2) for s in (1, 3) for p, g in ((8, 0), (0, 4))]'
ok 'samples' json 'all(len(x["samples_ts"]) == len(x["samples_ns"]) == 2 for x in o)'
ok 'averages' json 'all(abs(sum(x["samples_ts"]) / 2 / x["avg_ts"] - 1) < 1e-9 for x in o)'
ok 'rates are of all streams' json 'all(abs(t * n / 1e9 - x["n_streams"] * (x["n_prompt"] + x["n_gen"])) < 1e-6 for x in o
	for t, n in zip(x["samples_ts"], x["samples_ns"]))'
ok 'facts' json 'all(x["schema"] == "reploid-bench/1" and x["model_filename"] == "random:tiny" and x["backends"] == "CPU" and
	x["model_n_params"] == 3357836 and x["model_size"] == 2009648 and x["read_bandwidth"] > 0 for x in o)'
ok 'bandwidth of generation alone' json 'all((x["bandwidth_percent"] is not None) == (x["n_gen"] > 0) for x in o)'
ok 'quiet' quiet

capture bench -q -p 0 -n 12 -o jsonl --streams 3
ok 'streams side by side' json '[(x["ids"], x["n_streams"]) for x in o] == [("greedy", 3)]'
capture bench -q -p 0 -n 4 -o jsonl --ids sampled
ok 'sampled ids' json '[x["ids"] for x in o] == ["sampled"]'
capture bench -q -p 2-8*2 -n 0 -o json -oe csv
ok 'json is one array' python3 -c 'import json, sys
assert [x["n_prompt"] for x in json.load(open(sys.argv[1]))] == [2, 4, 8]' "$tmp/out"
ok 'csv on standard error' python3 -c 'import csv, sys
o = list(csv.DictReader(open(sys.argv[1])))
assert [x["n_prompt"] for x in o] == ["2", "4", "8"] and o[0]["bandwidth_percent"] == "" and float(o[0]["avg_ts"]) > 0' "$tmp/err"
capture bench -q -p 4 -n 0 -o csv
ok 'csv' python3 -c 'import csv, sys
o = list(csv.reader(open(sys.argv[1])))
assert len(o) == 2 and len(o[0]) == len(o[1]) and o[0][0] == "schema"' "$tmp/out"
capture bench -q -p 4 -n 0 -m "$models/tiny.gguf"
ok 'two models' test "$(grep -c ' pp4 ' "$tmp/out")" -eq 2
capture "$run" --bench -q -p 4 -n 2 -r 1
ok 'the embedded model is the default' code_is 0
paths() { "$run" --bench -q -m random:tiny -r 3 "$@"; }
capture paths --path cpu,cpu --pair -p 8 -n 4 -o jsonl --bound 0
ok 'a pair: rows' json '[(x["device"][:3], x["n_prompt"], x["pair_ratio"] is None) for x in o] == [
	("CPU", 8, True), ("CPU", 8, False), ("CPU", 0, True), ("CPU", 0, False)]'
ok 'a pair: the median of ratios' json 'all(abs(sorted(p / q for p, q in zip(b["samples_ts"], a["samples_ts"]))[1] / b["pair_ratio"] - 1) < 1e-9
	for a, b in (o[:2], o[2:]))'
ok 'a pair: the code is the verdict' json "$status"' == any(x["pair_ratio"] is not None and x["pair_ratio"] < 1 for x in o)'
capture paths --path cpu,cpu --pair -p 8 -n 0
ok 'a pair: no bound, no verdict' code_is 0
ok 'a pair: column' has_line 'times the first'
capture "$run" --bench --help
ok 'help of its own' has_line '--n-prompt'
ok 'help names it' has_line 'usage: reploid-run --bench [-m MODEL]'

fails 'bench: not a number' 2 "-p (--n-prompt): 'many' is no number" bench -p many
fails 'bench: range the wrong way' 2 "-n (--n-gen): '4-1'" bench -n 4-1
fails 'bench: nothing to do' 2 'nothing to time' bench -p 0 -n 0
fails 'bench: no pair' 2 "--pp-tg: '8' is no pair" bench --pp-tg 8
fails 'bench: sampled is for one' 2 '--ids sampled is for one stream' bench --streams 2 --ids sampled
fails 'bench: first' 2 '--bench must be the first argument' "$run" -q --bench
fails 'bench: other options' 2 'unknown option --temp' bench --temp 1
fails 'bench: an operand' 2 'the model is -m MODEL' bench model.gguf
fails 'bench: formats' 2 "'sql' is none of md|csv|json|jsonl" bench -o sql
fails 'bench: too long' 15 'made for 4096' bench -p 5000 -n 0
fails 'bench: no such model' 3 'there are tiny' "$run" --bench -m random:none
fails 'bench: device' 2 'fast' "$run" --bench -m random:tiny --device cpu,fast -p 2 -n 0 -r 1
fails 'bench: a pair of one' 2 'give --path A,B' paths --pair --path cpu
fails 'bench: path and device' 2 'leave out --device' paths --path cpu --device cpu
fails 'bench: half a path' 2 "'cpu,:portable' is no list" paths --path cpu,:portable
fails 'bench: a bound of nothing' 2 '--bound needs --pair' paths --bound 5

fails 'kernels: one prompt' 2 '--bench kernels takes one -p' bench kernels -p 1,2
fails 'kernels: of a GPU' 11 'a profile is of a Vulkan device' bench kernels -p 4 -n 2
kernels() { "$run" --bench kernels -m random:tiny --device gpu -r 2 -p 20 -n 3 "$@"; }
capture kernels -o jsonl -q
if code_is 40; then
	skip 'kernels' 'no Vulkan device'
else
	ok 'kernels: run' code_is 0
	ok 'kernels: every one passes' json '{x["check"] for x in o} == {"pass"} and all(x["nmse"] <= x["nmse_bound"] for x in o)'
	ok 'kernels: of both phases' json '{x["phase"] for x in o} == {"prompt", "generation"}'
	ok 'kernels: times' json 'all(x["us_median"] > 0 and x["schema"] == "reploid-bench-kernels/1" for x in o)'
	ok 'kernels: shares' json 'all(abs(sum(x["share"] for x in o if x["phase"] == p) - 1) < 1e-6 for p in ("prompt", "generation"))'
	ok 'kernels: bytes' json 'all(x["gb_per_s"] > 0 and x["bandwidth_percent"] > 0 for x in o if x["operations"] == "up_proj")'
	capture kernels -q -o csv --variant portable
	ok 'kernels: csv' python3 -c 'import csv, sys
o = list(csv.DictReader(open(sys.argv[1])))
assert o and {x["check"] for x in o} == {"pass"} and {x["variant"] for x in o} == {"portable"}' "$tmp/out"
	capture kernels -q -o json -oe md
	ok 'kernels: json' python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) > 20' "$tmp/out"
	ok 'kernels: md on standard error' says 'us median'
fi

package cmd

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
)

// A table trains to the same bits from its own file and from shards, whatever their number, and what
// the command says has no number of records.
func TestDataShard(t *testing.T) {
	whole := t.TempDir()
	t.Chdir(whole)
	r := rand.New(rand.NewPCG(1, 9))
	var table strings.Builder
	table.WriteString("x,kind,label\n")
	for range 137 {
		fmt.Fprintf(&table, "%v,%s,%d\n", r.Float64()*1.2, []string{"a", "b", "c"}[r.IntN(3)], r.IntN(3)) // 2 is no class
	}
	const schema = `columns: [{name: x, bounds: [0, 1]}, {name: kind, categories: [a, b]}]
label: {column: label, classes: [0, 1]}
test_share: 0.2
split_key: any
`
	for name, text := range map[string]string{"t.csv": table.String(), "t.csv.schema.yaml": schema, "new.csv": "x,kind\n0.5,b\n"} {
		check(t, os.WriteFile(name, []byte(text), 0o600))
	}
	model := func(data string, out string) []byte {
		r := privgrad("train", "--data", data, "--public-n", "150", "--delta", "1e-4", "--model", "logistic", "--noise", "seeded", "--noise-multiplier", "1",
			"--batch", "20", "--steps", "4", "--device", "reference", "--test-is-public", "--out", out)
		if r.code != cli.ExitDone || !strings.Contains(r.stderr, "5 of 27 public test records") {
			t.Fatalf("exit %d, %s", r.code, r.stderr)
		}
		b, err := os.ReadFile(filepath.Join(out, "model.safetensors"))
		check(t, err)
		return b
	}
	source := func(run string) any {
		b, err := os.ReadFile(filepath.Join(run, "result.json"))
		check(t, err)
		return object(t, string(b))["dataset_source"]
	}
	want := model("csv:t.csv", "direct")
	if s := source("direct"); s != nil {
		t.Errorf("a table has the source %v", s)
	}
	for _, shards := range []string{"1", "4"} {
		dir := "s" + shards
		from := "csv:" + filepath.Join(whole, "t.csv")
		if shards == "4" { // written from the shard
			from = "shards:s1"
		}
		args := []string{"data", "shard", from, "--public-n", "150", "--shards", shards, "--out", dir}
		said := ok(t, args...)
		if strings.Contains(said, "137") || !strings.Contains(said, "--data shards:"+dir) {
			t.Errorf("it says %q", said)
		}
		if !bytes.Equal(model("shards:"+dir, "run"+shards), want) {
			t.Errorf("%s shards train to another model than the table", shards)
		}
		if got := ok(t, "predict", "run"+shards, "new.csv", "--json"); got != ok(t, "predict", "direct", "new.csv", "--json") {
			t.Errorf("%s shards predict %s", shards, got)
		}
		if s := source("run" + shards); s != "csv:t.csv" {
			t.Errorf("%s shards have the source %v", shards, s)
		}
		if index, err := os.ReadFile(filepath.Join(dir, "index.json")); err != nil || strings.Contains(string(index), whole) {
			t.Errorf("the index has the path of the table: %s, %v", index, err)
		}
		fails(t, cli.ExitUsage, args, "not empty", dir)
		if v := object(t, ok(t, "data", "verify", "shards:"+dir, "--json")); v["ok"] != true {
			t.Errorf("verify says %v", v)
		}
	}
	fails(t, cli.ExitUsage, []string{"data", "shard", "csv:t.csv", "--shards", "2", "--out", "n"}, "--public-n", "csv:t.csv")
	fails(t, cli.ExitUsage, []string{"data", "shard", "csv:t.csv", "--shards", "0", "--public-n", "9", "--out", "n"}, "shards 0")
	fails(t, cli.ExitUsage, []string{"data", "shard", "csv:t.csv", "--shards", "2", "--public-n", "0", "--out", "n"}, "public-n 0")
	fails(t, cli.ExitUsage, []string{"data", "shard", "nothing", "--shards", "2", "--out", "n"}, `"nothing"`)
	fails(t, cli.ExitUsage, []string{"train", "--data", "shards:none", "--public-n", "9", "--delta", "1e-3", "--epsilon", "1"}, "none", "data shard")
	if _, err := os.Stat("n"); err == nil {
		t.Error("a refused command leaves a folder behind")
	}
}

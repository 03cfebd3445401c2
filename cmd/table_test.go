package cmd

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/model"
)

// tableFiles is a table of so many records with a schema beside it; its middle lines
// are damaged.
func tableFiles(t *testing.T, damaged int) string {
	t.Helper()
	lines := []string{"dose,group,result"}
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("%d,%c,%d", i%50, 'a'+i%2, i%2))
	}
	for i := range damaged {
		lines[50+i] = []string{"SECRET", `"SECRET,1`, "1e999,SECRET,SECRET", "1,2,3,SECRET"}[i%4]
	}
	path := filepath.Join(t.TempDir(), "t.csv")
	schema := "columns: [{name: dose, bounds: [0, 40]}, {name: group, categories: [a, b]}]\nlabel: {column: result, classes: [0, 1]}\ntest_share: 0.2\ntest_is_public: true\n"
	for name, text := range map[string]string{path: strings.Join(lines, "\n") + "\n", path + ".schema.yaml": schema} {
		check(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return path
}

func TestTrainTable(t *testing.T) {
	path := tableFiles(t, 40)
	run := func(more ...string) []string {
		return append([]string{"train", "--data", "csv:" + path, "--public-n", "200", "--batch", "40", "--steps", "20", "--device", "cpu", "--threads", "1"}, more...)
	}
	out := filepath.Join(t.TempDir(), "run")
	r := object(t, ok(t, run("--epsilon", "5", "--delta", "1e-4", "--out", out, "--json")...))
	if r["model"] != "logistic" || r["public_n"] != 160.0 || r["guarantee"] != true || r["test_accuracy"] == nil || r["parameters"] != 4.0 {
		t.Errorf("the result is %v", r)
	}
	ok(t, "eval", out)
	dropped := filepath.Join(t.TempDir(), "run")
	drop := filepath.Join(t.TempDir(), "drop.yaml")
	put(t, drop, []byte("drop_first: true\n"))
	args := run("-c", drop, "--epsilon", "5", "--delta", "1e-4", "--out", dropped, "--json")
	if r := object(t, ok(t, args...)); r["parameters"] != 3.0 {
		t.Errorf("without first categories the result is %v", r)
	}
	ok(t, "eval", dropped)
	ok(t, append(args, "--resume")...)
	if r := object(t, ok(t, run("-c", drop, "--epsilon", "5", "--delta", "1e-4", "--dry-run", "--json")...)); r["parameters"] != 3.0 {
		t.Errorf("a dry run without first categories gives %v", r)
	}
	// A method without a clip norm.
	text := ok(t, "train", "--data", "csv:"+path, "--public-n", "200", "--epsilon", "5", "--delta", "1e-4", "--optimizer", "objpert", "--out", filepath.Join(t.TempDir(), "run"))
	if !strings.Contains(text, " × the most that one record changes\n") || !strings.Contains(text, "(replace-one, gdp)") {
		t.Errorf("the summary of objpert is %s", text)
	}
	fails(t, cli.ExitUsage, run("--epsilon", "5", "--delta", "1e-4", "--out", dropped, "--resume"), "drop_first")
	fails(t, cli.ExitUsage, []string{"train", "-c", drop, "--epsilon", "5"}, "drop_first")
	for _, c := range []struct {
		args, want []string
	}{
		{run("--epsilon", "5"), []string{"--delta"}},
		{append(run("--epsilon", "5", "--delta", "1e-4"), "--schema", "nowhere.yaml"), []string{"nowhere.yaml"}},
		{append(run("--epsilon", "5", "--delta", "1e-4"), "--schema", "bank"), []string{`no column "age"`}},
		{append(run("--epsilon", "5", "--delta", "1e-4"), "--folds", "5"), []string{"--fold"}},
		{append(run("--epsilon", "5", "--delta", "1e-4"), "--model", "huber-svm", "--optimizer", "majority"), []string{"majority"}},
		{[]string{"train", "--data", "csv:" + path, "--epsilon", "5", "--delta", "1e-4"}, []string{"--public-n"}},
		{[]string{"train", "--data", "csv:nowhere.csv", "--epsilon", "5"}, []string{"nowhere.csv"}},
	} {
		out := filepath.Join(t.TempDir(), "run")
		fails(t, cli.ExitUsage, append(c.args, "--out", out), c.want...)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("privgrad %v left its run directory", c.args)
		}
	}
	ok(t, "train", "--data", "csv:"+path, "--public-n", "200", "--optimizer", "lbfgs", "--l2", "0.01", "--device", "cpu", "--out", filepath.Join(t.TempDir(), "run"))
	human := ok(t, "train", "--data", "csv:"+path, "--public-n", "200", "--optimizer", "majority", "--epsilon", "0.5", "--device", "cpu", "--out", filepath.Join(t.TempDir(), "run"))
	for _, want := range []string{": 1 step in", "ε = 0.5, δ = 0 for", "all 160 records at every step"} {
		if !strings.Contains(human, want) {
			t.Errorf("majority does not show %q:\n%s", want, human)
		}
	}
}

// A bound on features holds in training, in what is planned, and in all that one does with the model: each figure of
// a run is found again, and nothing is left of the bound where there is none.
func TestFeatureNorm(t *testing.T) {
	path := tableFiles(t, 40)
	train := func(more ...string) []string {
		return append([]string{"train", "--data", "csv:" + path, "--public-n", "200", "--batch", "40", "--steps", "20", "--lr", "5", "--device", "cpu", "--threads", "1",
			"--noise", "seeded", "--noise-multiplier", "0.5", "--delta", "1e-4", "--json"}, more...)
	}
	out := filepath.Join(t.TempDir(), "run")
	bounded := object(t, ok(t, train("--feature-norm", "0.5", "--out", out)...))
	free := object(t, ok(t, train("--out", filepath.Join(t.TempDir(), "run"))...))
	wide := object(t, ok(t, train("--feature-norm", "10", "--out", filepath.Join(t.TempDir(), "run"))...))
	if bounded["test_loss"] == free["test_loss"] || wide["test_loss"] != free["test_loss"] {
		t.Errorf("test losses are %v within norm 0.5, %v within 10, %v without a bound", bounded["test_loss"], wide["test_loss"], free["test_loss"])
	}
	if again := object(t, ok(t, "eval", out, "--json")); again["test_loss"] != bounded["test_loss"] {
		t.Errorf("the model is evaluated at %v, the run ended with %v", again["test_loss"], bounded["test_loss"])
	}
	if v := object(t, ok(t, "verify", out, "--json")); v["ok"] != true {
		t.Errorf("verification says %v", v)
	}
	if card := readFile(t, out, "model-card.md"); !strings.Contains(string(card), "scaled to norm 0.5 at most") {
		t.Errorf("the model card says\n%s", card)
	}
	ok(t, "export", out, "--onnx", filepath.Join(t.TempDir(), "m.onnx"))
	if r := privgrad(train("--feature-norm", "0.6", "--out", out, "--resume")...); r.code != cli.ExitUsage || !strings.Contains(r.stderr, "feature_norm is 0.6, was 0.5") {
		t.Errorf("resumed within another norm: %d, %s", r.code, r.stderr)
	}
	planned := object(t, ok(t, train("--feature-norm", "0.5", "--dry-run")...))
	if planned["epsilon"] != bounded["epsilon"] || planned["parameters"] != bounded["parameters"] {
		t.Errorf("planned is %v, the run was %v", planned, bounded)
	}
}

// Training says nothing about what is wrong with records; verify does, for their
// owner, and in no JSON. It quotes values that may be names of categories and classes.
func TestVerifyTable(t *testing.T) {
	path := tableFiles(t, 40)
	human := ok(t, "data", "verify", "csv:"+path)
	begin := strings.Index(human, "PRIVATE")
	for _, row := range []string{"table: column dose, values out of bounds: ", "first in line ", "verdict: most values of each column are what the schema describes", "records                          200", "malformed records                30", "bad labels                       40", `column group, values that are no category: 10, first in line 53 (most often "SECRET")`, `column result, labels that are no class: 40, first in line 51 (most often "SECRET")`} {
		if at := strings.Index(human, row); at < begin || begin < 0 {
			t.Errorf("%q is not under the banner:\n%s", row, human)
		}
	}
	text := ok(t, "data", "verify", "csv:"+path, "--json")
	wantKeys(t, object(t, text), "table", "schema", "ok", "features", "classes")
	if strings.Contains(human[:begin], "SECRET") || strings.Contains(text, "200") || strings.Contains(text, "SECRET") {
		t.Errorf("verify shows\n%s\n%s", human, text)
	}
	fails(t, cli.ExitUsage, []string{"data", "verify", "csv:nowhere.csv"}, "nowhere.csv")
	fails(t, cli.ExitUsage, []string{"data", "verify", "csv:" + path, "--schema", "bank"}, `no column "age"`)
	fails(t, cli.ExitUsage, []string{"data", "verify", "mnist", "--schema", "bank"}, "--schema")
}

// A schema begins with the names of a file's first line, and nothing of its records.
func TestSchemaOfATable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	check(t, os.WriteFile(path, []byte("dose,group,more\n1,SECRET,0\n"), 0o644))
	human, text := ok(t, "data", "schema", "csv:"+path, "--label", "more"), ok(t, "data", "schema", "csv:"+path, "--label", "more", "--json")
	wantKeys(t, object(t, text), "table", "schema", "file")
	if strings.Contains(human+text, "SECRET") || !strings.Contains(human, "name: dose") || object(t, text)["schema"] != human {
		t.Errorf("it prints\n%s\n%s", human, text)
	}
	fails(t, cli.ExitUsage, []string{"data", "verify", "csv:" + path}, "privgrad data schema csv:"+path)
	write := []string{"data", "schema", "csv:" + path, "--label", "more", "--out", path + ".schema.yaml"}
	ok(t, write...)
	if b, err := os.ReadFile(path + ".schema.yaml"); err != nil || string(b) != human {
		t.Errorf("it writes %q, %v", b, err)
	}
	fails(t, cli.ExitUsage, write, "exists already")
	fails(t, cli.ExitUsage, []string{"data", "verify", "csv:" + path}, "t.csv.schema.yaml", "columns dose and group: replace LOW and HIGH by public bounds", "list the classes of column more")
	fails(t, cli.ExitUsage, []string{"data", "schema", "csv:" + path, "--label", "none"}, `no column "none"`)
	fails(t, cli.ExitUsage, []string{"data", "schema", "mnist"}, "give csv:PATH")
	fails(t, cli.ExitUsage, []string{"data", "schema", "csv:nowhere.csv"}, "nowhere.csv does not exist")
}

// A model of a table reads tables by its columns' names, with or without labels, and says what a solver did.
func TestPredictTable(t *testing.T) {
	path := tableFiles(t, 0)
	out := filepath.Join(t.TempDir(), "run")
	run := []string{"train", "--data", "csv:" + path, "--public-n", "200", "--epsilon", "1000", "--delta", "1e-4", "--optimizer", "outpert-gd", "--steps", "300", "--device", "cpu"}
	r, dry := object(t, ok(t, append(run, "--out", out, "--json")...)), object(t, ok(t, append(run, "--dry-run", "--json")...))
	for _, r := range []map[string]any{r, dry} {
		if r["steps"] != 1.0 || r["iterations"] != 300.0 || r["noise_multiplier"] == nil {
			t.Errorf("%v steps of %v iterations at noise multiplier %v", r["steps"], r["iterations"], r["noise_multiplier"])
		}
	}
	if r["sampling"] != "full" {
		t.Errorf("batches are %v", r["sampling"])
	}
	for text, args := range map[string][]string{"1 step of 300 iterations": {"resume", out}, "300, in the one step": append(run, "--dry-run")} {
		if shown := ok(t, args...); !strings.Contains(shown, text) {
			t.Errorf("%q is missing in:\n%s", text, shown)
		}
	}
	other := filepath.Join(t.TempDir(), "new.csv")
	check(t, os.WriteFile(other, []byte("group,more,dose\nb,?,7\na,?,8\n"), 0o644))
	all := predictionsOf(t, out, path)
	right := 0
	for i, p := range all {
		if *p.Class == fmt.Sprint(i%2) {
			right++
		}
	}
	some := predictionsOf(t, out, other)
	if len(all) != 200 || right < 180 || len(some) != 2 {
		t.Fatalf("of %d records, %d are right; of others, %d are read", len(all), right, len(some))
	}
	for i, p := range some { // those of the table's records 7 and 8
		if !slices.Equal(p.Probabilities, all[7+i].Probabilities) {
			t.Errorf("record %d: %v, in the table %v", i, p.Probabilities, all[7+i].Probabilities)
		}
	}
	check(t, os.WriteFile(other, []byte("dose,group\n1\n"), 0o644))
	fails(t, cli.ExitUsage, []string{"predict", out, other}, "record 0 has 1 field")

	// What it cannot read it tells of, and never of records to train on.
	check(t, os.WriteFile(other, []byte("dose,group,result\nabc,a,0\n,Mars,1\n"), 0o644))
	const of = `new.csv: column "`
	says := []string{"privgrad: warning: ", of + `dose": 1 of 2 values is no number, first in line 2; 1 of 2 values is missing, first in line 3; they count as the lower bound 0`, of + `group": 1 of 2 values is no category, first in line 3; they count as none of them`}
	for _, args := range [][]string{{"predict", out, other}, {"predict", out, other, "--json"}, {"eval", out, "--data", other, "--test-is-public"}} {
		r := privgrad(args...)
		for _, want := range says {
			if r.code != 0 || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, of) != 2 {
				t.Errorf("privgrad %v: %d, %s; want %s", args, r.code, r.stderr, want)
			}
		}
	}
	damaged := tableFiles(t, 40)
	if r := privgrad("train", "--data", "csv:"+damaged, "--public-n", "200", "--epsilon", "5", "--delta", "1e-4", "--device", "cpu", "--out", filepath.Join(t.TempDir(), "run")); r.code != 0 || strings.Contains(r.stdout+r.stderr, "first in line") {
		t.Errorf("training says %s%s", r.stdout, r.stderr)
	}
	if r := privgrad("eval", out, "--data", path, "--test-is-public"); r.code != 0 || strings.Contains(r.stderr, of) {
		t.Errorf("of its own table, eval says %s", r.stderr)
	}
}

// warned is ok of a command that warns of missing doses and dates.
func warned(t *testing.T, args ...string) string {
	t.Helper()
	r := privgrad(args...)
	r.stderr = strings.TrimPrefix(r.stderr, seededWarning)
	for _, want := range []string{`column "dose": `, "missing, first in line ", "they count as 2.5\n", `column "visit": `, "they count as 2021-01-01\n"} {
		if r.code != cli.ExitDone || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, "\n") != 2 {
			t.Fatalf("privgrad %v: exit %d, %s; want %s", args, r.code, r.stderr, want)
		}
	}
	return r.stdout
}

// A table with an index, missing values, dates and decimal commas is checked, trained on and cut into shards, and its model reads
// new records as it read those, with the schema that it keeps.
func TestTableOfAllKinds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.csv")
	lines := []string{";dose;visit;ward;back"}
	for i := range 400 {
		dose, visit := strings.Replace(fmt.Sprintf("%.1f", float64(i%50)/10), ".", ",", 1), fmt.Sprintf("%d.%d.20%d 10:00", 1+i%28, 1+i%12, 19+3*(i%2))
		if i%10 == 0 {
			dose, visit = "", "NA"
		}
		lines = append(lines, fmt.Sprintf("%d;%s;%s;%c;%d", i, dose, visit, 'a'+i%3, i%2))
	}
	write := func(path, text string) {
		t.Helper()
		check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(path, strings.Join(lines, "\n")+"\n")
	const schema = "separator: ;\ncolumns:\n  - {name: dose, bounds: [0, 5], missing: 2.5}\n  - {name: visit, kind: date, bounds: [2019-01-01, 2022-12-31], missing: 2021-01-01}\n" +
		"  - {name: ward, categories: [a, b, c]}\nlabel: {column: back, classes: [0, 1]}\n"
	write(path+".schema.yaml", schema)
	r := privgrad("data", "verify", "csv:"+path)
	for _, want := range []string{"separator", "missing numbers and dates        80", `no number: 360, first in line 3 (decimal commas, as in 3,14? write 3.14, or add decimal: ",")`, "no date: 360, first in line 3 (dates in another format? write format: DD.MM.YYYY", `column "dose" are no numbers: decimal commas`} {
		if r.code != cli.ExitFailed || !strings.Contains(r.stdout, want) {
			t.Errorf("verify does not say %q:\n%s%s", want, r.stdout, r.stderr)
		}
	}
	write(path+".schema.yaml", "decimal: \",\"\n"+strings.Replace(schema, "kind: date", "kind: date, format: DD.MM.YYYY", 1))
	if human := ok(t, "data", "verify", "csv:"+path); !strings.Contains(human, "unreadable numbers and dates     0") || !strings.Contains(human, "missing numbers and dates        80") {
		t.Errorf("verify says\n%s", human)
	}
	whole, shards, cut := filepath.Join(dir, "whole"), filepath.Join(dir, "shards"), filepath.Join(dir, "cut")
	ok(t, "data", "shard", "csv:"+path, "--public-n", "400", "--shards", "2", "--out", shards)
	settings := []string{"--public-n", "400", "--epsilon", "1000", "--delta", "1e-4", "--optimizer", "outpert-gd", "--steps", "200", "--device", "cpu", "--noise", "seeded"}
	ok(t, append([]string{"train", "--data", "csv:" + path, "--out", whole}, settings...)...)
	ok(t, append([]string{"train", "--data", "shards:" + shards, "--out", cut}, settings...)...)
	check(t, os.Remove(path+".schema.yaml"))
	table := filepath.Join(dir, "new.csv")
	write(table, "ward;visit;dose\na;1.1.2019;2,5\nb;31.12.2022;\nc;NA;9\n")
	array, head := filepath.Join(dir, "new.npy"), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }"
	text := "\x93NUMPY\x01\x00" + string([]byte{byte(len(head)), 0}) + head
	for _, x := range []float32{0.5, 0, 1, 0, 0, 0.5, 1, 0, 1, 0, 1, 731. / 1460, 0, 0, 1} {
		text += string(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
	}
	write(array, text)
	for _, run := range []string{whole, cut} {
		var got []model.Predicted
		check(t, json.Unmarshal([]byte(warned(t, "predict", "--json", run, table)), &got))
		want := predictionsOf(t, run, array)
		for i := range want {
			if !slices.Equal(got[i].Probabilities, want[i].Probabilities) {
				t.Errorf("%s: record %d: %v of the table, %v of what it becomes", run, i, got[i], want[i])
			}
		}
		if len(got) != 3 || *got[0].Class != "0" || *got[1].Class != "1" {
			t.Errorf("%s predicts %+v", run, got)
		}
	}
	write(filepath.Join(dir, "other.csv"), lines[0]+"\n"+strings.Join(lines[300:], "\n"))
	warned(t, "eval", whole, "--data", filepath.Join(dir, "other.csv"), "--test-is-public")
	ok(t, "export", whole, "--onnx", filepath.Join(dir, "m.onnx"))
}

// Files that are no CSV are refused with what converts them, wherever data are given.
func TestOtherKindsOfTables(t *testing.T) {
	path := tableFiles(t, 0)
	run, other := filepath.Join(t.TempDir(), "run"), filepath.Join(filepath.Dir(path), "x.parquet")
	ok(t, "train", "--data", "csv:"+path, "--public-n", "200", "--optimizer", "majority", "--epsilon", "0.5", "--device", "cpu", "--out", run)
	check(t, os.WriteFile(other, []byte("PAR1"), 0o644))
	for _, args := range [][]string{
		{"predict", run, other}, {"eval", run, "--test-is-public", "--data", other}, {"eval", run, "--test-is-public", "--data", "parquet:" + other},
		{"data", "verify", other}, {"data", "verify", "csv:" + other}, {"data", "schema", other}, {"data", "schema", "csv:" + other},
		{"data", "shard", "csv:" + other, "--shards", "2", "--public-n", "9", "--out", "never"}, {"train", "--epsilon", "1", "--data", other},
		{"train", "--epsilon", "1", "--data", "csv:" + other}, {"train", "--epsilon", "1", "--data", "parquet:" + other},
	} {
		fails(t, cli.ExitUsage, args, "x.parquet is a Parquet file", "pandas.read_parquet('", "give csv:")
	}
}

package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/cli"
)

func TestL2PList(t *testing.T) {
	var list struct {
		Protectors []map[string]any `json:"protectors"`
	}
	check(t, json.Unmarshal([]byte(ok(t, "l2p", "list", "--json")), &list))
	if len(list.Protectors) < 2 {
		t.Fatalf("%d protectors", len(list.Protectors))
	}
	human := ok(t, "l2p", "list")
	for _, p := range list.Protectors {
		wantKeys(t, p, "name", "tasks", "epsilon_range", "neighbouring", "path", "summary", "steps", "delta", "adapts", "recipe")
		if p["path"] != "built in" {
			t.Errorf("path %v", p["path"])
		}
		if !strings.Contains(human, p["name"].(string)+" (built in)") || !strings.Contains(human, p["recipe"].(string)) {
			t.Errorf("%v is missing in:\n%s", p["name"], human)
		}
	}
	fails(t, cli.ExitUsage, []string{"l2p", "list", "none.safetensors"}, "none")
}

// The recipes of the shipped protectors are commands that this program has.
func TestShippedRecipes(t *testing.T) {
	all, err := l2p.Shipped()
	check(t, err)
	for _, p := range all {
		words := strings.Fields(p.Card.Recipe)
		if len(words) < 3 || strings.Join(words[:3], " ") != "privgrad l2p train" {
			t.Fatalf("%s is made by %q", p.Card.Name, p.Card.Recipe)
		}
		cmd, flags, err := newRoot().Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(flags)
		}
		if err != nil {
			t.Errorf("%s: %v", p.Card.Name, err)
		}
	}
}

// A short meta-training of every kind of task leaves its files, of which the list
// and the card say what was asked for.
func TestL2PTrain(t *testing.T) {
	data, table := mnistFiles(t), tableFiles(t, 0)
	for tasks, flags := range map[string][]string{
		"quadratic": {"--data", "quadratic"},
		"logistic":  {"--data", "gaussians"},
		"svm":       {"--data", "gaussians", "--model", "svm"},
		"mlp":       {"--data", "gaussians", "--model", "mlp"},
		"mnist":     {"--data", "mnist", "--data-dir", data, "--classes", "1,0"},
		"csv":       {"--data", "csv:" + table, "--model", "mlp"},
	} {
		path := filepath.Join(t.TempDir(), tasks+"-mine.safetensors")
		args := append([]string{"l2p", "train", "--out", path, "--epsilon", "inf,2", "--epochs", "1", "--steps", "3", "--public-n", "12", "--delta", "1e-5", "--seed", "4", "--json"}, flags...)
		r := object(t, ok(t, args...))
		wantKeys(t, r, "protector", "path", "card", "history", "picture", "epochs", "validation_loss", "recipe")
		base := strings.TrimSuffix(path, ".safetensors")
		for _, ending := range []string{".safetensors", ".json", ".csv", ".png"} {
			if _, err := os.Stat(base + ending); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(path + ".checkpoint"); err == nil {
			t.Error("the checkpoint is left")
		}
		fails(t, cli.ExitUsage, args, path+" is there")
		if lines := strings.Count(readFile(t, base+".csv"), "\n"); lines != 3 {
			t.Errorf("history of %d lines", lines)
		}
		if png := readFile(t, base+".png"); !strings.HasPrefix(png, "\x89PNG") {
			t.Error("the picture is no PNG")
		}
		human := ok(t, "l2p", "list", path)
		for _, want := range []string{tasks + "-mine (" + path + ")", "ε 2 to 2", "--seed=4", "trained on  " + tasks + "\n"} {
			if !strings.Contains(human, want) {
				t.Errorf("%q is missing in:\n%s", want, human)
			}
		}
		if tasks == "csv" {
			checkTableCard(t, path, table)
			continue
		}
		if card := readFile(t, base+".json"); strings.Contains(card, `"data": "mnist"`) != (tasks == "mnist") || strings.Contains(card, data) {
			t.Errorf("card:\n%s", card)
		}
	}
}

// A card names a table by its file, and not where that lies; a run on the same table has no guarantee.
func checkTableCard(t *testing.T, protector, table string) {
	t.Helper()
	card := readFile(t, strings.TrimSuffix(protector, ".safetensors")+".json")
	if !strings.Contains(card, `"csv:t.csv"`) || !strings.Contains(card, "--data=csv:t.csv --model=mlp") || strings.Contains(card, filepath.Dir(table)) {
		t.Errorf("card:\n%s", card)
	}
	for name, guarantee := range map[string]bool{"t.csv": false, "other.csv": true} {
		other := filepath.Join(t.TempDir(), name)
		for _, ending := range []string{"", ".schema.yaml"} {
			check(t, os.WriteFile(other+ending, []byte(readFile(t, table+ending)), 0o600))
		}
		run := privgrad("train", "--data", "csv:"+other, "--public-n", "200", "--batch", "40", "--epsilon", "2", "--delta", "1e-5", "--optimizer", "l2p",
			"--protector", protector, "--device", "cpu", "--threads", "1", "--out", filepath.Join(t.TempDir(), "run"), "--json")
		if r := object(t, run.stdout); run.code != cli.ExitDone || r["guarantee"] != guarantee {
			t.Errorf("on %s the guarantee is %v because %v", name, r["guarantee"], r["not_a_guarantee_because"])
		}
	}
}

func TestL2PTrainRefuses(t *testing.T) {
	iris := filepath.Join(t.TempDir(), "iris.csv")
	check(t, os.WriteFile(iris, []byte("150,4,setosa,versicolor,virginica\n5.1,3.5,1.4,0.2,0\n"), 0o600))
	out := filepath.Join(t.TempDir(), "p.safetensors")
	for _, c := range []struct {
		args string
		want string
	}{
		{"--data quadratic", "--out"},
		{"--data none --out " + out, "none"},
		{"--data quadratic --out p.bin", "safetensors"},
		{"--data quadratic --epsilon x --out " + out, "--epsilon"},
		{"--data quadratic --epsilon 1,2 --out " + out, "rise"},
		{"--data quadratic --epochs 1,2 --out " + out, "--epochs has 2"},
		{"--data fmnist --classes 0,11 --out " + out, "11"},
		{"--data fmnist --public-n 3 --out " + out, "public-n 3"},
		{"--data fmnist --model svm --out " + out, "a model of their own"},
		{"--data quadratic --model svm --out " + out, "a model of their own"},
		{"--data csv:none.csv --out " + out, "none.csv"},
		{"--data csv:" + iris + " --out " + out, "3 classes"},
		{"--data csv:" + tableFiles(t, 0) + " --model none --out " + out, "model"},
	} {
		fails(t, cli.ExitUsage, append([]string{"l2p", "train"}, strings.Fields(c.args)...), c.want)
	}
}

package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/privgrad/privgrad/internal/cli"
	"github.com/privgrad/privgrad/internal/cli/data"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/dryrun"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/report"
	"github.com/privgrad/privgrad/train"
)

// planned is what train would do of a command line.
func planned(t *testing.T, args []string) *plan.Plan {
	t.Helper()
	f, command := pflag.NewFlagSet("train", pflag.ContinueOnError), trainer{}
	command.define(f)
	check(t, f.Parse(args))
	c, err := command.settings.config(command.file)
	check(t, err)
	p, err := plan.Resolve(c, plan.Options{Sources: data.Sources(), Facts: true})
	if err != nil {
		t.Fatalf("train %q: %v", args, err)
	}
	return p
}

// stored is the directory of a run of a plan, and what a person is told when it has ended.
func stored(t *testing.T, p *plan.Plan, name string) (summary string) {
	t.Helper()
	check(t, os.MkdirAll(name, 0o755))
	text, err := p.Config.YAML()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(name, train.ConfigFile), text, 0o644))
	check(t, os.WriteFile(filepath.Join(name, report.PageFile), nil, 0o644))
	r := &train.Result{
		Run: name, Claim: train.Claim{Epsilon: p.Epsilon, Asked: p.Config.Epsilon, Delta: new(0.0), Accountant: new(""), Neighbouring: new("")},
		PublicN: p.PublicN, Parameters: p.Network.Program.NumParams(), Classes: p.Set.ClassNames,
	}
	if p.Config.Private() {
		r.NoiseMultiplier = p.NoiseMultiplier()
	} else {
		r.Delta = nil
	}
	var b strings.Builder
	summarise(&b, r)
	return b.String()
}

// words are those of a command line as a shell takes it.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all[:len(all)-1], all[len(all)-1]+part)
			continue
		}
		all = append(all, strings.Split(part, " ")...)
	}
	return all
}

// The next run that a summary proposes is the run itself with another budget, whatever it was given: each flag is
// in the run's own file, or in the command.
func TestNextIsTheSameRun(t *testing.T) {
	t.Chdir(t.TempDir())
	check(t, os.WriteFile("t.csv", []byte("a,b,y\n"), 0o644))
	check(t, os.WriteFile("t.csv.schema.yaml", []byte("columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [p, q, r]}]\nlabel: {column: y, classes: [0, 1]}\n"), 0o644))
	photos := "--data dir:photos --class-names cat,dog --image-size 1x8x8 --public-n 5000 --delta 1e-6"
	table := "--data csv:t.csv --public-n 5000 --delta 1e-5 --model logistic"
	for _, c := range []struct{ args, change string }{
		{"--epsilon 3", "epsilon 1.5"},
		{"--epsilon 0.7 --lr 0.3 --momentum 0.5 --l2 1e-4 --batch 300 --steps 20 --clip 2 --clipping per-layer --seed 9", "epsilon 0.35"},
		{photos + " --recipe best --whiten none --mirror=false --epochs 6 --neighbouring replace-one --average 0.9 --seed 7 --epsilon 3", "epsilon 1.5"},
		{photos + " --model logistic --test-is-public --positive dog --epsilon 8 --accountant rdp", "epsilon 4"},
		{"--epsilon 3 --accountant rdp --tensorboard --eval-every 100 --train-loss-noise 8 --public-n 60000", "epsilon 1.5"},
		{"--epsilon 3 --accountant rdp --model cnn-mnist --train-loss-noise 0.75", ""}, // the losses alone cost more than 1.5
		{"--noise-multiplier 1.5 --epochs 2", "noise-multiplier 3"},
		{"--noise-multiplier 0", "noise-multiplier 1"},
		{"--epsilon 2 --noise exact --strategy materialise --threads 2 --memory 1GiB", "epsilon 1"},
		{"--epsilon 2 --accountant rdp --clipping adaptive --classes 3,5", "epsilon 1"},
		{"--epsilon 3 --accountant rdp --optimizer dp-blsgd --search-form curve", "epsilon 1.5"},
		{"--epsilon 3 --optimizer dp-blsgd-ac --model logistic --feature-norm 1", "epsilon 1.5"},
		{"--epsilon 3 --accountant rdp --optimizer dp-adam --lr-schedule cosine --warmup 5", "epsilon 1.5"},
		{"--epsilon 0.4 --optimizer l2p --protector mnist --classes 3,5 --neighbouring replace-one", "epsilon 0.2"},
		{table + " --epsilon 3 --optimizer outpert-gd --delta 0 --l2 0.01", "epsilon 1.5"},
		{table + " --epsilon 3 --optimizer objpert --l2 0.01", "epsilon 1.5"},
		{table + " --epsilon 3 --optimizer privgene", "epsilon 1.5"},
		{table + " --epsilon 3 --optimizer banco", "epsilon 1.5"},
		{table + " --epsilon 1 --optimizer majority", "epsilon 0.5"},
		{table + " --epsilon 1 --optimizer dp-agd --folds 5 --fold 2", "epsilon 0.5"},
		{table + " --rho 0.5 --optimizer pur-c --l2 0.02", ""},
		{table + " --epsilon 1 --optimizer pur-constant --pur-sigma 0.01 --l2 0.02", ""},
		{table + " --epsilon 1 --optimizer noisy-gd --l2 0.02", "epsilon 0.5"},
		{table + " --epsilon 0.5 --optimizer rrpsgd --steps 50", "epsilon 0.25"},
		{table + " --epsilon 0.5 --optimizer bassily-sgd --radius 2", "epsilon 0.25"},
		{"--optimizer sgd", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			first := planned(t, words(c.args))
			text := stored(t, first, "a run")
			if strings.Contains(text, "privgrad train") != (c.change != "") {
				t.Fatalf("another run is proposed, or none:\n%s", text)
			}
			if c.change == "" {
				return
			}
			_, command, ok := strings.Cut(text, "\n  privgrad train ")
			command, _, _ = strings.Cut(command, "\n")
			if !ok || !strings.HasSuffix(command, "-c 'a run/config.yaml' --"+c.change) {
				t.Fatalf("the next run is %q, want another %s:\n%s", command, c.change, text)
			}
			again := planned(t, words(command))
			before, after := first.Config, again.Config
			if reflect.DeepEqual([]*float64{before.Epsilon, before.NoiseMultiplier, before.PUR.Rho}, []*float64{after.Epsilon, after.NoiseMultiplier, after.PUR.Rho}) {
				t.Errorf("%s: the budget is the same", command)
			}
			for _, c := range []*config.Config{&before, &after} {
				c.Epsilon, c.NoiseMultiplier, c.PUR.Rho = nil, nil, nil
				if c.RecipeChosenOn != "" { // which chooses the rate for ε
					c.LR = nil
				}
			}
			was, err := before.YAML()
			check(t, err)
			is, err := after.YAML()
			check(t, err)
			if string(was) != string(is) {
				t.Errorf("%s is another run than\n%s\nbut\n%s", command, was, is)
			}
			if first.Declaration.Budget == again.Declaration.Budget && again.PublicN != first.PublicN || again.DefaultsFrom != first.DefaultsFrom {
				t.Errorf("%s: of %d records, chosen on %s", command, again.PublicN, again.DefaultsFrom)
			}
		})
	}
}

// No line of what comes next is longer than its own words, and what is not there is not proposed.
func TestNextIsNarrow(t *testing.T) {
	t.Chdir(t.TempDir())
	p := planned(t, words("--data dir:photos --class-names zero,one,two,three,four,five,six,seven,eight,nine --image-size 1x8x8 --public-n 5000 --delta 1e-6 --model logistic --epsilon 3"))
	text := stored(t, p, "runs/first")
	_, next, _ := strings.Cut(text, "\nNext\n")
	for line := range strings.Lines(next) {
		if utf8.RuneCountInString(line) > 80 || strings.Contains(strings.TrimLeft(line, " "), "  ") {
			t.Errorf("a line of %d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	for _, gone := range []string{report.PageFile, train.ConfigFile} {
		r := &train.Result{Run: "runs/first", Claim: p.Guarantee}
		check(t, os.RemoveAll(filepath.Join("runs/first", gone)))
		var b strings.Builder
		summarise(&b, r)
		if strings.Contains(b.String(), gone) {
			t.Errorf("%s is not there, and proposed:\n%s", gone, fmt.Sprint(b.String()))
		}
	}
}

// The ε that was asked for is the bound that a person reads, and what the noise comes to stands beside it; where
// the noise was given, nobody asked for an ε.
func TestStatedEpsilon(t *testing.T) {
	number := func(x float64) string { return fmt.Sprintf("%.6g", x) }
	one := 1.0
	for _, c := range []struct {
		computed float64
		asked    *float64
		want     string
	}{
		{0.999999, &one, "1 (computed: 0.999999)"},
		{0.995, &one, "1 (computed: 0.995)"},
		{1, &one, "1"},
		{0.99999999, &one, "1"},
		{0.7, &one, "0.7"},         // a schedule that is not stretched to the budget
		{1.00001, &one, "1.00001"}, // nobody promised less
		{0.999999, nil, "0.999999"},
	} {
		if got := (&train.Claim{Epsilon: &c.computed, Asked: c.asked}).Stated(number); got != c.want {
			t.Errorf("%v of %v: %s, want %s", c.computed, c.asked, got, c.want)
		}
	}
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"--epsilon 1":            "ε = 1 (computed: 0.999999), δ = 0",
		"--noise-multiplier 1.5": "ε = 0.999999, δ = 0",
	} {
		p := planned(t, words(args+" --model logistic --steps 10"))
		p.Epsilon = new(0.999999)
		if text := stored(t, p, "run"); !strings.Contains(text, want) {
			t.Errorf("%s: %q is missing in:\n%s", args, want, text)
		}
	}
	var b strings.Builder
	describeEstimate(&b, &dryrun.Estimate{Claim: train.Claim{Epsilon: new(0.999999), Asked: &one, Delta: new(1e-5), Accountant: new("pld"), Neighbouring: new("add-remove")}})
	if want := "ε = 1 (computed: 0.999999), δ = 1e-05 (add-remove, pld)"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is missing in:\n%s", want, b.String())
	}
}

// A run whose report cannot be written has a result, which is shown, and exit code 1.
func TestReportInTheWay(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	ok(t, small(mnistFiles(t), "--epsilon", "3", "--out", out)...)
	for _, gone := range []string{"result.json", report.PageFile} {
		check(t, os.Remove(filepath.Join(out, gone)))
	}
	check(t, os.Mkdir(filepath.Join(out, report.PageFile), 0o755))
	r := privgrad("resume", out)
	if r.code != cli.ExitFailed || !strings.Contains(r.stdout, "Saved to") || strings.Contains(r.stdout, report.PageFile) || !strings.Contains(r.stderr, "is complete and saved, and its guarantee holds; but the report could not be written") {
		t.Errorf("%+v", r)
	}
	check(t, os.Remove(filepath.Join(out, "result.json")))
	r = privgrad("resume", out, "--json")
	if released := object(t, r.stdout)["released"].([]any); r.code != cli.ExitFailed || slices.Contains(released, any(report.PageFile)) || !slices.Contains(released, any(report.CardFile)) {
		t.Errorf("%+v", r)
	}
}

// A run of a program of the user's own is for that program to go on with.
func TestResumeOfAForeignRun(t *testing.T) {
	for key, value := range map[string]string{"model": "myres", "optimizer": "mine", "data": "samples"} {
		run := filepath.Join(t.TempDir(), "run")
		check(t, os.MkdirAll(run, 0o755))
		text := "epsilon: 3\nmodel: cnn-mnist\n" + key + ": " + value + "\n"
		if key == "model" {
			text = "epsilon: 3\nmodel: myres\nactivation: \"\"\n"
		}
		check(t, os.WriteFile(filepath.Join(run, train.ConfigFile), []byte(text), 0o644))
		want := []string{run, value, "where a program of your own began it, run that again, with Resume: train.ResumeAuto"}
		fails(t, cli.ExitUsage, []string{"resume", run}, want...)
		file := filepath.Join(run, train.ConfigFile)
		if r := privgrad("train", "-c", file); r.code != cli.ExitUsage || strings.Contains(r.stderr, want[2]) {
			t.Errorf("a file of no run: %+v", r)
		}
		check(t, os.WriteFile(filepath.Join(run, "ledger.db"), nil, 0o644))
		fails(t, cli.ExitUsage, []string{"train", "-c", file}, want...)
		if key == "model" { // with another one in its place it is a run like others
			ok(t, "train", "-c", file, "--model", "logistic", "--dry-run")
		}
	}
}

package statement

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/budget"
	"github.com/privgrad/privgrad/train"
)

// What is said of two runs is recorded. A change that means to change a word writes it anew, for its diff to be read:
//
//	go test ./report/statement -update
var update = flag.Bool("update", false, "write testdata anew")

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trained makes a short run in a directory of the test's.
func trained(t *testing.T, change func(*train.Config)) string {
	t.Helper()
	split := datasets.Split{Shape: [3]int{1, 2, 2}}
	for i := range 200 {
		label := uint8(i % 2)
		split.Features, split.Labels = append(split.Features, 200*label, 100, 50, uint8(i)), append(split.Labels, label)
	}
	sources := map[string]train.Source{"signs": {BuiltIn: true, Open: func(string) (*datasets.Set, error) {
		return &datasets.Set{Name: "signs", Classes: 2, Train: split, Test: split, PublicN: 200, PerClass: []int{100, 100}, TestIsPublic: true}, nil
	}}}
	epsilon, delta, batch, steps := 3.0, 1e-5, 50.0, 12
	c := train.Default()
	c.Data, c.Model, c.Device, c.Threads = "signs", "logistic", "reference", 1
	c.Epsilon, c.Delta, c.Batch, c.Steps = &epsilon, &delta, &batch, &steps
	if change != nil {
		change(&c)
	}
	dir := filepath.Join(t.TempDir(), "demo")
	_, err := train.Run(context.Background(), c, train.Options{Out: dir, Sources: sources})
	check(t, err)
	return dir
}

// private is a run with a guarantee, and seeded one without.
func private(t *testing.T) string { return trained(t, nil) }
func seeded(t *testing.T) string {
	return trained(t, func(c *train.Config) { c.Noise = "seeded" })
}

// edit changes result.json, and gives the text that follows.
func edit(t *testing.T, dir string, change func(r map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, "result.json")
	b, err := os.ReadFile(path)
	check(t, err)
	r := map[string]any{}
	check(t, json.Unmarshal(b, &r))
	change(r)
	b, err = json.Marshal(r)
	check(t, err)
	check(t, os.WriteFile(path, b, 0o644))
}

func text(t *testing.T, dir string) string {
	t.Helper()
	s, err := Read(dir)
	check(t, err)
	var b bytes.Buffer
	check(t, s.Text(&b))
	return b.String()
}

// line has each run of white space as one space.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestGolden(t *testing.T) {
	for name, dir := range map[string]string{
		"guarantee": private(t), "none": seeded(t),
		"replace-one": trained(t, func(c *train.Config) { c.Neighbouring, c.Optimizer = "replace-one", "noisy-gd"; c.Batch = nil }),
	} {
		got := regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(text(t, dir), "SHA-256")
		got = regexp.MustCompile(`(program +)privgrad .*`).ReplaceAllString(got, "${1}privgrad VERSION")
		path := filepath.Join("testdata", name+".txt")
		if *update {
			check(t, os.WriteFile(path, []byte(got), 0o644))
			continue
		}
		want, err := os.ReadFile(path)
		check(t, err)
		if got != string(want) {
			t.Errorf("%s.txt says otherwise:\n%s", name, got)
		}
	}
}

// Every figure is of the files: another one there is another one here.
func TestFiguresAreOfTheFiles(t *testing.T) {
	dir := private(t)
	before := line(text(t, dir))
	for want, change := range map[string]func(r map[string]any){
		"δ (delta) = 2e-07":               func(r map[string]any) { r["delta"] = 2e-7 },
		"(1 in 5,000,000)":                func(r map[string]any) { r["delta"] = 2e-7 },
		"since δ is 0":                    func(r map[string]any) { r["delta"] = 0 },
		"right at most 87.5% of the time": func(r map[string]any) { r["risk"].(map[string]any)["advantage"] = 0.75 },
		"advantage, is at most 75.0%":     func(r map[string]any) { r["risk"].(map[string]any)["advantage"] = 0.75 },
		"wrong about 2% of the records that were no part of it: right about at most 33.4%": func(r map[string]any) {
			r["risk"].(map[string]any)["tpr_at_fpr"] = map[string]any{"0.02": 0.3333}
		},
		"in 11 steps. 12 steps were paid for":                      func(r map[string]any) { r["steps"] = 11 },
		"a probability of 12.5%":                                   func(r map[string]any) { r["sampling_rate"] = 0.125 },
		"on average 51.5 of 200 records":                           func(r map[string]any) { r["expected_batch"] = 51.5 },
		"on average 50 of 1,234,567 records":                       func(r map[string]any) { r["public_n"] = 1234567 },
		"chance picks 50 of 200 records":                           func(r map[string]any) { r["sampling"] = "fixed-size" },
		"Every step uses all records (their public number is 200)": func(r map[string]any) { r["sampling_rate"] = 1 },
		"a length of at most 0.25 (at the end of training;":        func(r map[string]any) { r["clip"] = 0.25 },
		"followed from noisy answers":                              func(r map[string]any) { r["clipping"] = "adaptive" },
		"is 7.5 times that length":                                 func(r map[string]any) { r["noise_multiplier"] = 7.5 },
		"computed by the accountant rdp.":                          func(r map[string]any) { r["accountant"] = "rdp" },
		"in the relation replace-one":                              func(r map[string]any) { r["neighbouring"] = "replace-one" },
		"the data set has at most as many records":                 func(r map[string]any) { r["assumptions"] = []string{"public_n_is_right"} },
		"something_of_another_version":                             func(r map[string]any) { r["assumptions"] = []string{"something_of_another_version"} },
		"chosen on the moon":                                       func(r map[string]any) { r["defaults_chosen_on"] = "moon" },
		"ε includes the trials":                                    tunedResult,
		"counted with noise: about 5,012.":                         func(r map[string]any) { r["counted_records"] = 5012.3 },
		"the folder `demo.private`":                                func(r map[string]any) { r["private_diagnostics"] = true },
		"the method magic":                                         func(r map[string]any) { r["optimizer"] = "magic" },
		"the data csv:patients.csv":                                func(r map[string]any) { r["dataset"] = "csv:/home/someone/patients.csv" },
		"the data npz:scans.npz":                                   func(r map[string]any) { r["dataset_source"] = "npz:/srv/scans.npz" },
		"of the run other":                                         func(r map[string]any) { r["run"] = "runs/other" },
		"`privgrad verify other`":                                  func(r map[string]any) { r["run"] = "runs/other" },
		"may release nothing that would exceed ε":                  func(r map[string]any) { r["events"], r["committed_schedule"] = nil, nil },
		"7 times, of all records: a number with Laplace noise, of a scale 3 times": func(r map[string]any) {
			r["events"] = []any{map[string]any{"mechanism": "laplace", "scale": 3, "count": 7}}
		},
	} {
		if strings.Contains(before, want) {
			t.Errorf("the statement says %q before the files do", want)
		}
		b, err := os.ReadFile(filepath.Join(dir, "result.json"))
		check(t, err)
		edit(t, dir, change)
		if got := line(text(t, dir)); !strings.Contains(got, want) {
			t.Errorf("not said: %q\n%s", want, got)
		}
		check(t, os.WriteFile(filepath.Join(dir, "result.json"), b, 0o644))
	}
}

// settings changes config.yaml, and the digest that the result has of it.
func settings(t *testing.T, dir, from, to string) {
	t.Helper()
	path := filepath.Join(dir, "config.yaml")
	b, err := os.ReadFile(path)
	check(t, err)
	changed := strings.Replace(string(b), from, to, 1)
	if changed == string(b) {
		t.Fatalf("no %q in %s", from, b)
	}
	check(t, os.WriteFile(path, []byte(changed), 0o644))
	sum := sha256.Sum256([]byte(changed))
	edit(t, dir, func(r map[string]any) { r["digests"].(map[string]any)["config.yaml"] = hex.EncodeToString(sum[:]) })
}

// ε is the one that was asked for, where the noise comes to that or to a little less.
func TestEpsilon(t *testing.T) {
	dir := private(t)
	for _, x := range []struct {
		epsilon  float64
		asked    string
		says     []string
		says_not string
	}{
		{2.99, "3", []string{"ε (epsilon) = 3 (computed: 2.99)", "20.1 times as likely"}, "do not rely on it"},
		{1, "1", []string{"ε (epsilon) = 1 and", "2.72 times as likely"}, "computed:"},
		{12, "12", []string{"at most 162755 times"}, "do not rely on it"},
		{25, "25", []string{"at most 10^11 times", "do not rely on it"}, "computed:"},
		{900, "900", []string{"at most 10^391 times", "do not rely on it"}, "Inf"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
		check(t, err)
		settings(t, dir, regexp.MustCompile(`(?m)^epsilon: .*$`).FindString(string(b)), "epsilon: "+x.asked)
		edit(t, dir, func(r map[string]any) { r["epsilon"] = x.epsilon })
		got := line(text(t, dir))
		for _, want := range x.says {
			if !strings.Contains(got, want) {
				t.Errorf("ε = %v: not said: %q\n%s", x.epsilon, want, got)
			}
		}
		if strings.Contains(got, x.says_not) {
			t.Errorf("ε = %v: said: %q", x.epsilon, x.says_not)
		}
	}
}

// A run without a guarantee says so first, and has no figure that reads as a promise.
func TestNoGuarantee(t *testing.T) {
	dir := seeded(t)
	s, err := Read(dir)
	check(t, err)
	if s.Guarantee || s.Epsilon != nil || s.Delta != nil || s.Accountant != nil || s.Neighbouring != nil || s.Risk != nil || len(s.NoGuarantee) != 1 {
		t.Errorf("%+v", s)
	}
	if s.Sections[0].Sentences[0] != "THIS RUN HAS NO PRIVACY GUARANTEE." || !strings.HasPrefix(s.Sections[0].List[0], "NOT PRIVATE: seeded noise") {
		t.Errorf("%+v", s.Sections[0])
	}
	got := line(text(t, dir))
	if strings.Contains(got, "ε =") || strings.Contains(got, "epsilon) =") || strings.Contains(got, "1e-05") || strings.Contains(got, "%") || strings.Contains(got, "is promised") {
		t.Error(got)
	}
	edit(t, dir, func(r map[string]any) { r["not_a_guarantee_because"] = []string{"one", "another"} })
	if got = line(text(t, dir)); !strings.Contains(got, "- NO GUARANTEE: one - NO GUARANTEE: another") {
		t.Error(got)
	}
	edit(t, dir, func(r map[string]any) { r["epsilon"] = nil })
	if got = line(text(t, dir)); strings.Contains(got, "epsilon") {
		t.Error(got)
	}
}

// The unit is that of the files, in all sentences that name it.
func TestUnits(t *testing.T) {
	dir := private(t)
	for unit, want := range map[string][]string{
		"one user":                 {"whether any one user was part of the training data", "for one user. A user is one person", "of which one has one user more", "with any one user as without that user", "every user takes part with a probability of 25%, independently", "Several users together", "no single user moves", "several users together, such as a family: ε is for one user", "of users that take part with probability", "the most that counts for one user"},
		"one user, at most 5 each": {"for one user. A user is one person"},
		"one record, local":        {"for one record.", "Each record was hidden by noise of its own before its answer was used (local privacy)"},
		"one household":            {"for one household. It compares", "of the households that were no part of it"},
	} {
		edit(t, dir, func(r map[string]any) { r["privacy_unit"] = unit })
		got := line(text(t, dir))
		for _, want := range want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: not said: %q\n%s", unit, want, got)
			}
		}
		if unit == "one user" && (strings.Contains(got, "one record") || strings.Contains(got, "person with several records")) {
			t.Errorf("%s: %s", unit, got)
		}
	}
}

// What is missing, or not what the result speaks of, is refused, and named.
func TestRefuses(t *testing.T) {
	whole := private(t)
	write := func(name, text string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
	}
	gone := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { check(t, os.Remove(filepath.Join(dir, name))) }
	}
	result := func(change func(r map[string]any)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { edit(t, dir, change) }
	}
	for name, x := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   []string
	}{
		"no settings":                {gone("config.yaml"), []string{"is no run directory", "config.yaml"}},
		"no result":                  {gone("result.json"), []string{"has not finished", "result.json"}},
		"a cut result":               {write("result.json", `{"run": "demo", `), []string{"result.json", "cannot be read"}},
		"an empty result":            {write("result.json", `{}`), []string{"result.json", "not what a run writes"}},
		"no model":                   {gone("model.safetensors"), []string{"model.safetensors", "cannot be read"}},
		"another model":              {write("model.safetensors", "x"), []string{"model.safetensors", "is not the file of which result.json speaks", "privgrad verify"}},
		"other settings":             {write("config.yaml", "data: signs\n"), []string{"config.yaml"}},
		"other evaluations":          {write("metrics.jsonl", "{}\n"), []string{"metrics.jsonl", "is not the file"}},
		"no ledger":                  {gone("ledger.db"), []string{"ledger"}},
		"a damaged ledger":           {write("ledger.db", "x"), []string{"ledger"}},
		"no digest of the model":     {result(func(r map[string]any) { delete(r["digests"].(map[string]any), "model.safetensors") }), []string{"no digest of model.safetensors"}},
		"no digests":                 {result(func(r map[string]any) { delete(r, "digests") }), []string{"no digest of"}},
		"a guarantee without ε":      {result(func(r map[string]any) { r["epsilon"] = nil }), []string{"not what a run writes"}},
		"a guarantee with a reason":  {result(func(r map[string]any) { r["not_a_guarantee_because"] = []string{"no noise was added"} }), []string{"not what a run writes"}},
		"no guarantee, no reason":    {result(func(r map[string]any) { r["guarantee"] = false }), []string{"not what a run writes"}},
		"no unit":                    {result(func(r map[string]any) { delete(r, "privacy_unit") }), []string{"not what a run writes"}},
		"a guarantee by no relation": {result(func(r map[string]any) { r["neighbouring"] = nil }), []string{"not what a run writes"}},
	} {
		dir := filepath.Join(t.TempDir(), "demo")
		check(t, os.CopyFS(dir, os.DirFS(whole)))
		x.damage(t, dir)
		_, err := Read(dir)
		if err == nil {
			t.Errorf("%s: a statement", name)
			continue
		}
		for _, want := range x.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

// The three forms have the same sentences, and the page loads nothing.
func TestForms(t *testing.T) {
	for _, dir := range []string{private(t), seeded(t)} {
		edit(t, dir, func(r map[string]any) {
			r["model"], r["defaults_chosen_on"] = "<script>alert(1)</script>", "a `b` & <c>\x1b[31m"
		})
		s, err := Read(dir)
		check(t, err)
		var page, plain bytes.Buffer
		check(t, s.HTML(&page))
		check(t, s.Text(&plain))
		b, err := json.Marshal(s)
		check(t, err)
		var again Statement
		check(t, json.Unmarshal(b, &again))
		if strings.Contains(string(b), `"sentences":null`) || strings.Contains(string(b), `"list":null`) || strings.Contains(string(b), `"facts":null`) {
			t.Errorf("a list is null: %s", b)
		}
		words := line(html.UnescapeString(regexp.MustCompile(`(?s)<style>.*?</style>|</?(code|p|li|ul|dl|dt|dd|h1|h2|section)[^>]*>`).ReplaceAllString(page.String(), "")))
		if len(again.Sections) != len(s.Sections) {
			t.Fatalf("%d sections of %d", len(again.Sections), len(s.Sections))
		}
		for _, section := range again.Sections {
			all := append(append([]string{section.Title}, section.Sentences...), section.List...)
			for _, f := range section.Facts {
				all = append(all, f.Name, f.Value)
			}
			for _, sentence := range all {
				if !strings.Contains(line(plain.String()), line(strings.ReplaceAll(sentence, "\x1b", "\uFFFD"))) {
					t.Errorf("the text lacks %q", sentence)
				}
				if !strings.Contains(words, line(strings.ReplaceAll(sentence, "`", ""))) {
					t.Errorf("the page lacks %q", sentence)
				}
			}
		}
		for _, bad := range []string{"<script", "http:", "https:", "src=", "url(", "@import", "<link", "<img"} {
			if strings.Contains(page.String(), bad) {
				t.Errorf("the page has %q", bad)
			}
		}
		if !strings.Contains(page.String(), `<meta name="generator" content="privgrad">`) || strings.Contains(plain.String(), "\x1b") {
			t.Error("the page does not say what made it, or the text steers a terminal")
		}
	}
}

// The keys and the names of sections are an interface: docs/reference/files.md has them.
func TestSchema(t *testing.T) {
	s, err := Read(private(t))
	check(t, err)
	b, err := json.Marshal(s)
	check(t, err)
	keys := map[string]any{}
	check(t, json.Unmarshal(b, &keys))
	doc, err := os.ReadFile("../../docs/reference/files.md")
	check(t, err)
	_, part, _ := strings.Cut(string(doc), "\n## The statement as JSON\n")
	part, _, _ = strings.Cut(part, "\n## ")
	names := slices.Collect(maps.Keys(keys))
	for _, section := range s.Sections {
		names = append(names, section.Name)
	}
	for _, name := range names {
		if !strings.Contains(part, "`"+name+"`") {
			t.Errorf("docs/reference/files.md has no %s", name)
		}
	}
	if s.SchemaVersion != 1 || len(names) < 20 {
		t.Errorf("%d: %v", s.SchemaVersion, names)
	}
}

// A run that a budget has paid for says so, with the budget's figures where its file is at hand.
func TestBudgetOfARun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "signs.budget")
	f, err := budget.New("signs", "add-remove", "one record", 7, 1e-4, 0)
	check(t, err)
	check(t, budget.Create(file, f))
	dir := trained(t, func(c *train.Config) { c.Budget = file })
	kept, err := budget.Read(file)
	check(t, err)
	for _, want := range []string{"entry 1 of the budget", kept.ID, "at most ε = 7 and δ = 0.0001, for one record", "paid for 1 run, which used ε = " + fmt.Sprintf("%.4g", kept.Spent().Epsilon)} {
		if said := strings.Join(strings.Fields(text(t, dir)), " "); !strings.Contains(said, want) {
			t.Errorf("the statement does not say %q:\n%s", want, said)
		}
	}
	check(t, os.Remove(file))
	if said := strings.Join(strings.Fields(text(t, dir)), " "); !strings.Contains(said, "was not at hand") || strings.Contains(said, "at most ε = 7") {
		t.Errorf("without the budget's file the statement says\n%s", said)
	}
	other, err := budget.New("signs", "add-remove", "one record", 7, 1e-4, 0)
	check(t, err)
	check(t, budget.Create(file, other))
	if _, err := Read(dir); err == nil {
		t.Error("a budget without the run's entry was taken")
	}
}

// tunedResult is that of a run whose settings were chosen by trials.
func tunedResult(r map[string]any) {
	r["tuning_charged"] = true
	r["tuning"] = map[string]any{
		"grid": "lr=0.5,1", "choices": 2, "chosen": map[string]any{"lr": 0.5}, "score": "test_accuracy", "trials": "poisson:10", "expected_trials": 10, "asked_epsilon": 3,
	}
}

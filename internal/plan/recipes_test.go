package plan

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/recipes"
	"github.com/privgrad/privgrad/internal/setting"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// images is a set of a few images of a shape, under a name.
func images(name string, shape [3]int) map[string]source.Source {
	size := shape[0] * shape[1] * shape[2]
	split := datasets.Split{Shape: shape, Features: make([]uint8, 40*size), Labels: make([]uint8, 40)}
	set := &datasets.Set{Name: name, Classes: 10, Train: split, Test: split, PublicN: 60000, TestIsPublic: true}
	return map[string]source.Source{name: {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}
}

// follows gives the plan of a run by the best recipe.
func follows(t *testing.T, data string, shape [3]int, epsilon float64, change func(*config.Config)) (*Plan, error) {
	t.Helper()
	c := config.Default()
	c.Data, c.Recipe, c.Epsilon, c.Delta, c.Threads = data, recipes.Best, &epsilon, ptr(1e-5), 1
	if change != nil {
		change(&c)
	}
	return Resolve(c, Options{Sources: images(data, shape)})
}

var grey = [3]int{1, 28, 28}

// Every setting of a recipe is a key of the configuration, of its type, and every one that is
// left open is filled in.
func TestRecipeFillsIn(t *testing.T) {
	for _, epsilon := range []float64{0.5, 1, 2.9, 3, 20} {
		p, err := follows(t, "mnist", grey, epsilon, nil)
		check(t, err)
		r, err := recipes.Find(recipes.Best, "mnist", grey, epsilon)
		check(t, err)
		if r.Epsilon > epsilon {
			t.Fatalf("epsilon %g gets the recipe of %g", epsilon, r.Epsilon)
		}
		values := r.Keys()
		for _, s := range config.Rows() {
			v, ok := values[s.Key]
			if !ok {
				continue
			}
			delete(values, s.Key)
			if got := reflect.Indirect(reflect.ValueOf(s.Field(&p.Config)).Elem()).Interface(); !reflect.DeepEqual(got, v) {
				t.Errorf("epsilon %g: %s is %v, the recipe says %v", epsilon, s.Key, got, v)
			}
		}
		if len(values) > 0 {
			t.Errorf("no setting has the keys %v", values)
		}
		if from := p.DefaultsFrom; from != r.From() || !strings.Contains(from, "mnist") || p.Config.Recipe != "" {
			t.Errorf("settings chosen on %q, recipe %q", from, p.Config.Recipe)
		}
		shape := p.Front.Out()
		if !slices.Equal(p.Network.Program.Shape, shape[:]) {
			t.Errorf("the network reads %v", p.Network.Program.Shape)
		}
		if len(p.Warnings) > 0 {
			t.Errorf("warned of %q", p.Warnings)
		}
	}
}

// What the user says wins, also where it is what the default says; and what takes a
// setting's place.
func TestRecipeLeavesWhatIsGiven(t *testing.T) {
	by, given := config.Default(), map[string]bool{"clip": true, "batch": true, "steps": true, "lr": true}
	by.Batch, by.Steps, by.LR = ptr(500.0), ptr(7), ptr(0.25)
	p, err := follows(t, "mnist", grey, 3, func(c *config.Config) { c.Override(&by, given) })
	check(t, err)
	if c := p.Config; c.Clip != by.Clip || *c.Batch != 500 || c.SamplingRate != nil || *c.Steps != 7 || c.Epochs != nil || *c.LR != 0.25 {
		t.Errorf("given settings were changed: %+v", c)
	}
	if want := "as asked, except for --lr, --batch, --steps, --clip"; !sameWords(p.Recipe, want) {
		t.Errorf("recipe %q, want one %q", p.Recipe, want)
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	check(t, os.WriteFile(file, []byte("momentum: 0\nepochs: 3\n"), 0o644))
	p, err = follows(t, "mnist", grey, 3, func(c *config.Config) { check(t, config.Read(file, c)) })
	check(t, err)
	if c := p.Config; c.Momentum != 0 || *c.Epochs != 3 || p.Front == nil || c.RecipeChosenOn == "" {
		t.Errorf("a file's settings were changed: %+v", c)
	}
}

// Beside a file, flags win, also where they say what the file says; and the recipe is that of the file's own public number.
func TestFlagsBesideTheRecipeOfAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	first := config.Default()
	first.Data, first.PublicN, first.Delta, first.Threads, first.Accountant, first.Epsilon = source.TablePrefix+"t.csv", ptr(3000), ptr(1e-5), 1, "rdp", ptr(1.0)
	p, err := Resolve(first, Options{})
	check(t, err)
	rate := func(change func(by *config.Config, given map[string]bool)) float64 {
		t.Helper()
		c, by, given := p.Config, config.Default(), map[string]bool{"epsilon": true}
		by.Epsilon = ptr(8.0)
		change(&by, given)
		c.Override(&by, given)
		again, err := Resolve(c, Options{})
		check(t, err)
		return *again.Config.LR
	}
	fresh := func(n int) float64 {
		c := first
		c.PublicN, c.Epsilon = &n, ptr(8.0)
		again, err := Resolve(c, Options{})
		check(t, err)
		return *again.Config.LR
	}
	if got := rate(func(*config.Config, map[string]bool) {}); got != fresh(3000) || got == *p.Config.LR {
		t.Errorf("at another ε the rate is %g, and was %g", got, *p.Config.LR)
	}
	if got := rate(func(by *config.Config, given map[string]bool) { by.LR, given["lr"] = p.Config.LR, true }); got != *p.Config.LR {
		t.Errorf("--lr %g was given, and %g taken", *p.Config.LR, got)
	}
	if got := rate(func(by *config.Config, given map[string]bool) { by.PublicN, given["public_n"] = ptr(300), true }); got != fresh(300) {
		t.Errorf("with another public number the rate is %g, want %g", got, fresh(300))
	}
}

// sameWords says whether a text ends with a list of flags, in any order.
func sameWords(text, end string) bool {
	head, list, _ := strings.Cut(end, "--")
	_, got, ok := strings.Cut(text, head)
	words := func(s string) []string { return slices.Sorted(slices.Values(strings.Split(s, ", "))) }
	return ok && slices.Equal(words(got), words("--"+list))
}

// Who gives a setting of a file's recipe leaves it, and is told so. How its features look at an image is none.
func TestLeavingTheRecipeOfAFile(t *testing.T) {
	p, err := follows(t, "mnist", grey, 3, nil)
	check(t, err)
	for key, want := range map[string]string{"lr": "none any more: --lr was given beside the file", "mirror": "best, as its configuration says"} {
		c, by := p.Config, config.Default()
		by.LR, by.Mirror = ptr(0.25), true
		c.Override(&by, map[string]bool{key: true})
		again, err := Resolve(c, Options{Sources: images("mnist", grey)})
		if check(t, err); again.Recipe != want || (again.Config.RecipeChosenOn != "") != (key == "mirror") {
			t.Errorf("--%s: recipe %q, chosen on %q", key, again.Recipe, again.Config.RecipeChosenOn)
		}
	}
}

// A learning rate is for its features, model and optimizer: beside others it is left out, and
// nothing says that it was chosen anywhere.
func TestRecipeBesideOthers(t *testing.T) {
	p, err := follows(t, "mnist", grey, 3, func(c *config.Config) { c.Optimizer = "dp-adam" })
	check(t, err)
	if c := p.Config; c.Features == "" || *c.LR != 2e-3 || c.Momentum != 0 || c.Clip != 1 || c.RecipeChosenOn != "" || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "optimizer dp-adam") {
		t.Errorf("warned of %q, filled in %+v", p.Warnings, c)
	}
}

// Noise grows beside the mean of fewer records, and steps shrink by as much.
func TestRecipeOfFewerRecords(t *testing.T) {
	whole, err := follows(t, "mnist", grey, 3, nil)
	check(t, err)
	for n, want := range map[int]float64{6000: 0.1, 60000: 1, 600000: 1} {
		source := images("mnist", grey)
		set, err := source["mnist"].Open("")
		check(t, err)
		c := config.Default()
		c.Data, c.Recipe, c.Epsilon, c.Delta, c.Threads, set.PublicN = "mnist", recipes.Best, ptr(3.0), ptr(1e-5), 1, n
		p, err := Resolve(c, Options{Sources: source})
		check(t, err)
		if got := *p.Config.LR / *whole.Config.LR; math.Abs(got-want) > 1e-12 {
			t.Errorf("%d records: the rate is %g of that of 60,000, want %g", n, got, want)
		}
	}
}

// Any images get the recipe of the nearest shape, and are told whose it is.
func TestRecipeOfOwnImages(t *testing.T) {
	by, given := config.Default(), map[string]bool{"whiten": true} // which would take its time
	by.Whiten = "none"
	pixels := func(c *config.Config) { c.Override(&by, given) }
	p, err := follows(t, "birds", [3]int{3, 32, 32}, 3, pixels)
	check(t, err)
	if !strings.Contains(p.DefaultsFrom, "cifar10") || !strings.Contains(p.Recipe, "cifar10") || p.Config.Mirror || len(p.Warnings) != 0 {
		t.Errorf("chosen on %q, recipe %q, mirrored %v, warned of %q", p.DefaultsFrom, p.Recipe, p.Config.Mirror, p.Warnings)
	}
	by.Mirror, given["mirror"] = true, true
	if p, err = follows(t, "birds", [3]int{3, 32, 32}, 3, pixels); err != nil || !p.Config.Mirror {
		t.Errorf("images are mirrored: %v (%v)", p.Config.Mirror, err)
	}
	delete(given, "mirror")
	if r, err := recipes.Find(recipes.Best, "birds", [3]int{3, 40, 40}, 3); err != nil || r.Data != "cifar10" {
		t.Errorf("%v: larger images get the recipe of %s", err, r.Data)
	}
	if p, err = follows(t, "letters", [3]int{1, 32, 32}, 3, pixels); err != nil || !strings.Contains(p.DefaultsFrom, "mnist") {
		t.Errorf("%v: chosen on %q", err, p.DefaultsFrom)
	}
}

// CIFAR-100 has no settings of its own. It takes those of CIFAR-10 whole, with mirrored images, and says whose they are.
func TestRecipeOfCIFAR100(t *testing.T) {
	r, err := recipes.Find(recipes.Best, "cifar10", [3]int{3, 32, 32}, 3)
	check(t, err)
	pixels := func(c *config.Config) { // leaves take their time
		by := config.Default()
		by.Whiten = "none"
		c.Override(&by, map[string]bool{"whiten": true})
	}
	p, err := follows(t, "cifar100", [3]int{3, 32, 32}, 3, pixels)
	check(t, err)
	c := p.Config
	// images has a number of records of its own, and a rate is as much smaller as that is.
	if rate := r.LR * min(float64(p.PublicN)/float64(r.Records), 1); c.Features != r.Features || !c.Mirror || *c.LR != rate || c.Clip != r.Clip || *c.SamplingRate != r.SamplingRate {
		t.Errorf("features %s, mirrored %v, rate %g, clip norm %g of %+v", c.Features, c.Mirror, *c.LR, c.Clip, r)
	}
	if p.DefaultsFrom != r.From() || !strings.HasPrefix(p.Recipe, "best for images of cifar10, since none was chosen on cifar100, at") || strings.Contains(p.Recipe, "mirror") {
		t.Errorf("chosen on %q, recipe %q", p.DefaultsFrom, p.Recipe)
	}
	p, err = follows(t, "cifar100", [3]int{3, 32, 32}, 1, func(c *config.Config) { c.Recipe = recipes.WRN })
	check(t, err)
	if !slices.Equal(p.Config.Augment, []string{"flip", "crop"}) || !strings.HasPrefix(p.Recipe, "wrn for images of cifar10, since") {
		t.Errorf("drawn by %v, recipe %q", p.Config.Augment, p.Recipe)
	}
}

// Another ε beside the file of a recipe's run takes the recipe of that ε, but for what the user chose otherwise. Where there is none, the
// file's settings stay, with a warning.
func TestRecipeOfAnotherEpsilon(t *testing.T) {
	p, err := follows(t, "mnist", grey, 3, func(c *config.Config) { c.Epochs = ptr(6.0) })
	check(t, err)
	for epsilon, want := range map[float64]string{3: "", 3.5: "", 1: "", 1e-3: "too small for any recipe"} {
		c, by := p.Config, config.Default()
		by.Epsilon = &epsilon
		c.Override(&by, map[string]bool{"epsilon": true})
		again, err := Resolve(c, Options{Sources: images("mnist", grey)})
		check(t, err)
		said := strings.Join(again.Warnings, "\n")
		of := map[bool]float64{false: epsilon, true: 3}[want != ""]
		if r, err := recipes.Find(recipes.Best, "mnist", grey, of); err != nil || *again.Config.LR != r.LR || *again.Config.Epochs != 6 || *again.Config.SamplingRate != r.SamplingRate {
			t.Errorf("epsilon %g: rate %g and %g epochs, the recipe says %g (%v)", epsilon, *again.Config.LR, *again.Config.Epochs, r.LR, err)
		}
		if named := strings.Contains(again.Recipe, "as before at 3"); named != (want == "" && epsilon != 3) {
			t.Errorf("epsilon %g: recipe %q", epsilon, again.Recipe)
		}
		if (said == "") != (want == "") || !strings.Contains(said, want) || want != "" && !strings.Contains(said, "chosen for epsilon 3,") {
			t.Errorf("epsilon %g: warned of %q", epsilon, again.Warnings)
		}
	}
}

// A resolved configuration runs again as it did, and resumes.
func TestRecipeIsResolved(t *testing.T) {
	p, err := follows(t, "mnist", grey, 3, nil)
	check(t, err)
	text, err := p.Config.YAML()
	check(t, err)
	file := filepath.Join(t.TempDir(), "c.yaml")
	check(t, os.WriteFile(file, text, 0o644))
	c := config.Default()
	check(t, config.Read(file, &c))
	again, err := Resolve(c, Options{Sources: images("mnist", grey)})
	check(t, err)
	if again.Fingerprint != p.Fingerprint || again.DefaultsFrom != p.DefaultsFrom {
		t.Errorf("the file gives another run, or one of settings chosen on %q", again.DefaultsFrom)
	}
	check(t, p.Config.Matches(again.Config, file))
}

// Who chooses nothing but a budget gets the best recipe that fits the data. Who chooses something of what it settles gets the
// defaults, and is told why.
func TestRecipeByDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "")
	auto := func(c *config.Config, args map[string]any) {
		by, given := config.Default(), map[string]bool{}
		for key, v := range args {
			s := setting.Row{Key: key}
			s.Put(&by, v)
			given[key] = true
		}
		c.Override(&by, given)
	}
	const taken = "best for "
	for _, test := range []struct {
		name  string
		data  string
		shape [3]int
		args  map[string]any
		want  string
	}{
		{"nothing but a budget", "mnist", grey, map[string]any{"epsilon": 3.0}, taken + "images of mnist at ε = 3"},
		{"what a recipe does not settle", "mnist", grey, map[string]any{"epsilon": 3.0, "l2": 1e-4, "seed": uint64(5), "accountant": "rdp", "average": 0.9}, taken},
		{"how its features look at an image", "mnist", grey, map[string]any{"epsilon": 3.0, "whiten": "none", "deskew": false}, taken},
		{"half", "mnist", grey, map[string]any{"epsilon": 0.5}, taken},
		{"less than half", "mnist", grey, map[string]any{"epsilon": 0.49}, "none: it begins at epsilon 0.5, not at 0.49"},
		{"as asked", "mnist", grey, map[string]any{"epsilon": 3.0, "recipe": "none"}, "none, as asked"},
		{"noise", "mnist", grey, map[string]any{"noise_multiplier": 1.0}, "none: it needs --epsilon"},
		{"a model", "mnist", grey, map[string]any{"epsilon": 3.0, "model": "cnn-mnist"}, "none: --model was given"},
		{"no features", "mnist", grey, map[string]any{"epsilon": 3.0, "features": "none"}, "none: --features was given"},
		{"a rate", "mnist", grey, map[string]any{"epsilon": 3.0, "lr": 0.5}, "none: --lr was given"},
		{"a batch", "mnist", grey, map[string]any{"epsilon": 3.0, "batch": 500.0}, "none: --batch was given"},
		{"steps", "mnist", grey, map[string]any{"epsilon": 3.0, "steps": 7}, "none: --steps was given"},
		{"the default optimizer", "mnist", grey, map[string]any{"epsilon": 3.0, "optimizer": "dp-sgd"}, "none: --optimizer was given"},
		{"a strategy, which changes no result", "mnist", grey, map[string]any{"epsilon": 3.0, "strategy": "ghost"}, taken},
		{"too many images", "birds", grey, map[string]any{"epsilon": 3.0, "public_n": 10_000_000}, "none: the features of so many images may not fit into memory"},
		{"fewer, but large images", "birds", [3]int{3, 32, 32}, map[string]any{"epsilon": 3.0, "public_n": 900_000}, "none: the features of so many images may not fit into memory"},
		{"a table", source.TablePrefix + "t.csv", [3]int{}, map[string]any{"epsilon": 0.2, "public_n": 2000, "delta": 1e-5}, taken + "tables of 2000 records, 5 values and 2 classes at ε = 0.2"},
		{"a table with a rate", source.TablePrefix + "t.csv", [3]int{}, map[string]any{"epsilon": 3.0, "public_n": 2000, "delta": 1e-5, "lr": 0.5}, "none: --lr was given"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, sources := config.Default(), images(test.data, test.shape)
			c.Data, c.Threads, c.Accountant = test.data, 1, "rdp"
			if _, declared := test.args["public_n"]; declared {
				set, err := sources[test.data].Open("")
				check(t, err)
				set.PublicN = 0
				if c.Delta = ptr(1e-9); strings.HasPrefix(test.data, source.TablePrefix) {
					sources = nil
				}
			}
			auto(&c, test.args)
			p, err := Resolve(c, Options{Sources: sources})
			check(t, err)
			if !strings.HasPrefix(p.Recipe, test.want) {
				t.Errorf("recipe %q, want %q", p.Recipe, test.want)
			}
			if filled := p.Config.RecipeChosenOn != ""; filled != strings.HasPrefix(test.want, taken) || p.Config.Recipe != "" {
				t.Errorf("filled in: %v, recipe %q is left", filled, p.Config.Recipe)
			}
		})
	}
}

// Rows on the disk are not copied into memory by a recipe that nobody asked for.
func TestNoRecipeInMemory(t *testing.T) {
	for width, want := range map[int]string{16: "best for tables of 60000 records, 16 values and 2 classes", 17: "none: it scales rows in memory"} {
		split := datasets.Split{Shape: [3]int{width, 1, 1}, Unit: true, Mapped: true}
		set := &datasets.Set{Name: "rows", Classes: 2, Train: split, Test: split, PublicN: 60000}
		c := config.Default()
		c.Data, c.Threads, c.Epsilon, c.Delta = "rows", 1, ptr(3.0), ptr(1e-6)
		p, err := Resolve(c, Options{Sources: map[string]source.Source{"rows": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}})
		if check(t, err); !strings.HasPrefix(p.Recipe, want) {
			t.Errorf("recipe %q, want %q", p.Recipe, want)
		}
	}
}

// A table's recipe that is asked for beside a network for tables has the network's settings.
func TestRecipeOfANetworkForTables(t *testing.T) {
	for model, classes := range map[string]int{"mlp-table": 2, "mlp-regression": 0} {
		split := datasets.Split{Shape: [3]int{1, 1, 20}, Unit: true}
		set := &datasets.Set{Name: "rows", Classes: classes, Train: split, Test: split, PublicN: 5000}
		c := config.Default()
		c.Data, c.Model, c.Recipe, c.Threads, c.Epsilon, c.Delta = "rows", model, recipes.Best, 1, ptr(1.0), ptr(1e-6)
		p, err := Resolve(c, Options{Sources: map[string]source.Source{"rows": {BuiltIn: true, Open: func(string) (*datasets.Set, error) { return set, nil }}}})
		check(t, err)
		want := recipes.NetworkForTable(recipes.Table{Records: 5000, Features: 20, Classes: classes}, 1).Settings
		if *p.Config.LR != want.LR || p.Config.Clip != want.Clip || p.Config.Momentum != want.Momentum || p.Config.Activation != "gelu" || *p.Config.FeatureNorm != 4 {
			t.Errorf("%s: rate %v, clip %v, momentum %v, %s: want %+v", model, *p.Config.LR, p.Config.Clip, p.Config.Momentum, p.Config.Activation, want)
		}
	}
}

// Images that features do not take have the plain defaults, and what asks for features says why there are none.
func TestNoRecipeForOddImages(t *testing.T) {
	c := config.Default()
	c.Data, c.Threads, c.Epsilon = "mnist", 1, ptr(3.0)
	const why = "its features take no images of size 1x28x30"
	if _, err := Resolve(c, Options{Sources: images("mnist", [3]int{1, 28, 30})}); err == nil || !strings.Contains(err.Error(), "no network is made for images of size 1x28x30") {
		t.Errorf("got %v", err)
	}
	c.Mirror = true
	if _, err := Resolve(c, Options{Sources: images("mnist", [3]int{1, 28, 30})}); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want the reason %q", err, why)
	}
}

// Small images have the features of a recipe that take them.
func TestRecipeForSmallImages(t *testing.T) {
	for side, want := range map[int]string{16: "scatter+patches+encoder", 24: "scatter+patches+pairs+encoder"} {
		shape := [3]int{3, side, side}
		set := &datasets.Set{Name: "own", Classes: 2, Train: datasets.Split{Shape: shape}, Test: datasets.Split{Shape: shape}, PublicN: 5000}
		c := config.Default()
		c.Data, c.Epsilon = "own", ptr(8.0)
		if r, err := recipe(&c, set, 8); err != nil || r.Features != want {
			t.Errorf("images of %d pixels, each way: features %q, want %q; %v", side, r.Features, want, err)
		}
	}
}

// Every setting of a recipe is one that a user chooses, or a way to look at an image.
func TestRecipesSettle(t *testing.T) {
	for _, key := range recipes.Keys(recipes.Best) {
		if !slices.Contains(choosing, key) && !slices.Contains(config.Looking, key) {
			t.Errorf("a recipe settles %s, also where the user gave it", key)
		}
	}
	for _, key := range choosing {
		if !slices.ContainsFunc(config.Rows(), func(s setting.Row) bool { return s.Key == key }) {
			t.Errorf("there is no setting %s", key)
		}
	}
}

// A program's own network has its own defaults, and a file says all that it wants.
func TestNoRecipeUnasked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	check(t, os.WriteFile(file, []byte("epsilon: 3\n"), 0o644))
	c := config.Default()
	c.Data, c.Threads = "mnist", 1
	check(t, config.Read(file, &c))
	p, err := Resolve(c, Options{Sources: images("mnist", grey)})
	if check(t, err); p.Front != nil || p.Recipe != "" || p.Config.Model != "cnn-mnist" {
		t.Errorf("of a file: %s, recipe %q", p.Config.Model, p.Recipe)
	}
	network, err := BuildNetwork("logistic", nn.Options{Input: grey, Classes: 10, Activation: "tanh", Seed: 1})
	check(t, err)
	c = config.Default()
	c.Data, c.Threads, c.Epsilon = "mnist", 1, ptr(3.0)
	p, err = Resolve(c, Options{Sources: images("mnist", grey), Network: network})
	if check(t, err); p.Front != nil || !strings.Contains(p.Recipe, "the program brings") {
		t.Errorf("of a program: recipe %q", p.Recipe)
	}
}

func TestRecipeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"without a budget":   {func(c *config.Config) { c.Epsilon, c.NoiseMultiplier = nil, ptr(1.0) }, "give --epsilon"},
		"below the table":    {func(c *config.Config) { c.Epsilon = ptr(0.01) }, "begins at epsilon 0.5"},
		"another recipe":     {func(c *config.Config) { c.Recipe = "fast" }, "choose one of"},
		"whitening alone":    {func(c *config.Config) { c.Recipe, c.Whiten = "", "pink" }, "give --features"},
		"mirror alone":       {func(c *config.Config) { c.Recipe, c.Mirror = "", true }, "give --features"},
		"deskew alone":       {func(c *config.Config) { c.Recipe, c.Deskew = "", true }, "give --features"},
		"nothing left open":  {func(c *config.Config) { c.Features, c.Model = "none", "cnn-mnist" }, "nothing is left open"},
		"wrn with another":   {func(c *config.Config) { c.Recipe, c.Model = recipes.WRN, "cnn-mnist" }, "model cnn-mnist is not its own"},
		"unknown features":   {func(c *config.Config) { c.Recipe, c.Features = "", "pixels" }, "choose one of"},
		"a network of pixel": {func(c *config.Config) { c.Recipe, c.Features, c.Model = "", "scatter", "cnn-mnist" }, "cnn-mnist takes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := follows(t, "mnist", grey, 3, c.change)
			var u *usage.Error
			if !errors.As(err, &u) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a usage error with %q", err, c.want)
			}
		})
	}
	t.Run("no public size", func(t *testing.T) {
		c := config.Default()
		c.Data, c.Recipe, c.Epsilon = "mnist", recipes.Best, ptr(3.0)
		set := images("mnist", grey)
		published, err := set["mnist"].Open("")
		check(t, err)
		published.Published = true // if somebody says so
		set["mnist"] = source.Source{Open: set["mnist"].Open}
		c.DataDir = "here"
		if _, err := Resolve(c, Options{Sources: set}); err == nil || !strings.Contains(err.Error(), "give --public-n") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a table", func(t *testing.T) {
		t.Chdir(t.TempDir())
		makeTable(t, "")
		c := tableConfig()
		c.Features = "scatter"
		if _, err := Resolve(c, Options{}); err == nil || !strings.Contains(err.Error(), "table") {
			t.Errorf("got %v", err)
		}
	})
}

// Recipe wrn takes the published settings, other steps with another ε, and what the user gave. Images of one's own are not mirrored.
func TestRecipeWRN(t *testing.T) {
	wrn := func(data string, epsilon float64, change func(*config.Config)) *Plan {
		t.Helper()
		p, err := follows(t, data, [3]int{3, 32, 32}, epsilon, func(c *config.Config) {
			c.Recipe = recipes.WRN
			if change != nil {
				change(c)
			}
		})
		check(t, err)
		return p
	}
	p := wrn("cifar10", 1, nil)
	c := p.Config
	if c.Model != "wrn-16-4" || c.Views != 16 || !slices.Equal(c.Augment, []string{"flip", "crop"}) || p.Steps != 875 || c.Average != 0.9999 || *c.LR != 2 {
		t.Errorf("model %s, %d views by %v, %d steps, average %g, rate %g", c.Model, c.Views, c.Augment, p.Steps, c.Average, *c.LR)
	}
	if !strings.Contains(p.DefaultsFrom, "De et al. 2022") || !strings.HasPrefix(p.Recipe, "wrn for images of cifar10") {
		t.Errorf("chosen on %q, recipe %q", p.DefaultsFrom, p.Recipe)
	}
	by := config.Default()
	by.Epsilon = ptr(8.0)
	c.Override(&by, map[string]bool{"epsilon": true})
	again, err := Resolve(c, Options{Sources: images("cifar10", [3]int{3, 32, 32})})
	check(t, err)
	if again.Steps != 2500 || again.Config.Views != 16 || !strings.HasPrefix(again.Recipe, "wrn for") {
		t.Errorf("%d steps, %d views, recipe %q", again.Steps, again.Config.Views, again.Recipe)
	}
	c = p.Config
	by = config.Default()
	by.Views = 2
	c.Override(&by, map[string]bool{"views": true})
	if c.LeftRecipe != "views" || c.Views != 2 {
		t.Errorf("%d views beside the file leave the recipe by %q", c.Views, c.LeftRecipe)
	}
	if p = wrn("birds", 1, nil); !slices.Equal(p.Config.Augment, []string{"crop"}) || !strings.Contains(p.Recipe, "add --augment flip,crop") {
		t.Errorf("own images are drawn by %v: %s", p.Config.Augment, p.Recipe)
	}
	p = wrn("birds", 1, func(c *config.Config) {
		c.Augment, c.Given = []string{"flip", "crop"}, map[string]bool{"augment": true}
	})
	if !slices.Equal(p.Config.Augment, []string{"flip", "crop"}) || p.Config.Model != "wrn-16-4" {
		t.Errorf("model %s, own images are drawn by %v: %s", p.Config.Model, p.Config.Augment, p.Recipe)
	}
	// The average is no part of the best recipe.
	q, err := follows(t, "mnist", grey, 3, nil)
	check(t, err)
	c, by = q.Config, config.Default()
	by.Average = 0.99
	if c.Override(&by, map[string]bool{"average": true}); c.LeftRecipe != "" {
		t.Errorf("an average leaves the recipe by %q", c.LeftRecipe)
	}
}

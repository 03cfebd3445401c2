package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/config"
	"github.com/privgrad/privgrad/internal/cpu"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/trained"
)

// The schemas of the tests: two classes, three, and a number to tell.
var tableSchemas = map[string]string{
	"two":    "label: {column: y, classes: [0, 1]}\n",
	"three":  "label: {column: y, classes: [0, 1, 2]}\n",
	"number": "label: {column: y, bounds: [0, 2]}\n",
}

// makeTable writes t.csv with its schema and test file to the working directory:
// y follows from a and b, with some error. A share of the lines is damaged.
func makeTable(t *testing.T, schema string, seed uint64, rows int, damaged float64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	line := func() string {
		a, kind, c := random.Float64(), random.IntN(3), random.Float64()
		score := a + 0.5*float64(kind) + 0.2*random.NormFloat64()
		y := 0
		if score > 0.8 {
			y = 1
		}
		if schema != "two" && score > 1.3 {
			y = 2
		}
		return fmt.Sprintf("%.4f,%c,%.3f,%d", a, 'p'+kind, c, y)
	}
	damage := []func(string) string{
		func(s string) string { return "\"" + s },
		func(s string) string { return s + ",,," },
		func(s string) string { return "nan,zz" + s[strings.LastIndexByte(s, ','):] },
		func(string) string { return "1e999,p,-7,no such class" },
		func(string) string { return ",,," },
		func(string) string { return "\x00\xff" },
	}
	table := func(name string, n int, damaged float64) {
		lines := []string{"a,b,c,y"}
		for range n {
			s := line()
			if random.Float64() < damaged {
				s = damage[random.IntN(len(damage))](s)
			}
			lines = append(lines, s)
		}
		check(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o644))
	}
	table("t.csv", rows, damaged)
	random = rand.New(rand.NewPCG(99, 2)) // the test file is the same for all
	table("test.csv", 300, 0)
	text := "columns: [{name: a, bounds: [0, 1]}, {name: b, categories: [p, q, r]}, {name: c, bounds: [-1, 1]}]\n" +
		"test: test.csv\ntest_is_public: true\n" + tableSchemas[schema]
	check(t, os.WriteFile("t.csv.schema.yaml", []byte(text), 0o644))
}

// tableConfig is a short private run on t.csv.
func tableConfig() Config {
	c := Default()
	c.Data, c.PublicN, c.Delta = source.TablePrefix+"t.csv", ptr(2000), ptr(1e-5)
	c.NoiseMultiplier, c.Batch, c.Steps, c.Threads = ptr(1.0), ptr(200.0), ptr(30), 1
	return c
}

// Two tables that differ in every record, in their number and in what is damaged,
// behind one transcript of releases, leave the same bytes and show the same.
func TestTableTranscript(t *testing.T) {
	for name, c := range map[string]struct {
		schema string
		change func(*Config)
	}{
		"two":    {"two", func(*Config) {}},
		"svm":    {"two", func(c *Config) { c.Model = "svm" }},
		"three":  {"three", func(c *Config) { c.TrainLossNoise = ptr(3.0) }},
		"number": {"number", func(c *Config) { c.Clipping = "adaptive" }},
		"fold":   {"two", func(c *Config) { c.Folds, c.Fold = 3, 2 }},
		"norm":   {"number", func(c *Config) { c.FeatureNorm, c.DropFirst = ptr(0.7), true }},
	} {
		t.Run(name, func(t *testing.T) {
			config := tableConfig()
			c.change(&config)
			tablesReplayed(t, config, c.schema, [2]int{2000, 1655}, func(r *Result) {
				if r.Guarantee != (config.Folds == 0) {
					t.Errorf("the run guarantees nothing: %v", r.NoGuarantee)
				}
			})
		})
	}
}

// tablesReplayed runs on two tables of so many records, the second, which is damaged, against the first
// one's transcript.
func tablesReplayed(t *testing.T, c Config, schema string, records [2]int, judge func(*Result)) {
	t.Helper()
	dataReplayed(t, c, func(i int, damaged float64) { makeTable(t, schema, uint64(i), records[i], damaged) }, judge, func(o *Options) { o.counted = ptr(1500.0) })
}

// dataReplayed is the same for records of any kind. It returns what both runs showed and wrote.
func dataReplayed(t *testing.T, c Config, prepare func(i int, damaged float64), judge func(*Result), changes ...func(*Options)) (string, map[string]string) {
	t.Helper()
	d, err := cpu.Open(1)
	check(t, err)
	record := &transcript{Device: d}
	var shown [2]string
	var wrote [2]map[string]string
	place := filepath.Join(t.TempDir(), "place")
	for i, damaged := range []float64{0, 0.3} {
		emptied(t, place)
		prepare(i, damaged)
		record.replay = i == 1
		r, s := runShown(t, c, record, changes...)
		judge(r)
		shown[i], wrote[i] = s, files(t, "run")
	}
	if !record.complete() {
		t.Fatalf("%d releases were recorded and %d written, %d and %d replayed", len(record.released), len(record.wrote), record.next, record.nextWrite)
	}
	if shown[0] != shown[1] {
		t.Errorf("what was shown depends on the records:\n%s\n%s", shown[0], shown[1])
	}
	sameFiles(t, wrote[0], wrote[1])
	return shown[0], wrote[0]
}

// refusedOnATable demands that a run on t.csv is refused as a wrong setting, before anything is written.
func refusedOnATable(t *testing.T, c Config, want string) {
	t.Helper()
	var refused *UsageError
	if _, err := Run(context.Background(), c, Options{Out: "run"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", c.Optimizer, err, want)
	}
	if _, err := os.Stat("run"); err == nil {
		t.Fatalf("%s, %s: the run directory was made", c.Optimizer, want)
	}
}

// resolvesAgain demands that a resolved configuration can be run again, as the same.
func resolvesAgain(t *testing.T, c Config) {
	t.Helper()
	p := resolved(t, c, Options{})
	again, err := resolve(p.Config, Options{})
	if err != nil || fmt.Sprint(again.Declaration, again.Sigma, again.Steps) != fmt.Sprint(p.Declaration, p.Sigma, p.Steps) {
		t.Errorf("%s: its own configuration is refused, or another: %v", c.Optimizer, err)
	}
}

// runShown runs into the directory run and returns what was shown on the way.
func runShown(t *testing.T, c Config, d device.Device, changes ...func(*Options)) (*Result, string) {
	t.Helper()
	s := &screen{}
	o := Options{Out: "run", Device: d, RunID: "00112233445566778899aabbccddeeff", Progress: s, Log: s.log()}
	for _, change := range changes {
		change(&o)
	}
	r := finished(t, c, reported(&c, o))
	return r, s.String()
}

// The default models learn tables of every kind; an empty one trains, too.
func TestTables(t *testing.T) {
	for schema, want := range map[string]struct {
		model string
		least float64
	}{"two": {"logistic", 0.8}, "three": {"logistic", 0.6}, "number": {model: "huber-regression"}} {
		t.Run(schema, func(t *testing.T) {
			t.Chdir(t.TempDir())
			makeTable(t, schema, 1, 2000, 0.01)
			c := tableConfig()
			c.Steps = ptr(150)
			r, _ := runShown(t, c, nil)
			if r.Model != want.model || r.PublicN != 2000 {
				t.Errorf("model %s, N = %d", r.Model, r.PublicN)
			}
			if want.least > 0 && (r.TestAccuracy == nil || *r.TestAccuracy < want.least) {
				t.Errorf("test accuracy %v, want %v or more", show(r.TestAccuracy), want.least)
			}
			if schema == "number" && (r.TestAccuracy != nil || r.TestLoss == nil || *r.TestLoss > 0.06) {
				t.Errorf("test loss %v, accuracy %v", show(r.TestLoss), show(r.TestAccuracy))
			}
			e, err := evaluated("run", trained.Options{Device: "reference"})
			check(t, err)
			if e.Examples != 300 || math.Abs(*e.Loss-*r.TestLoss) > 1e-5 {
				t.Errorf("eval finds loss %v on %d records, training said %v", *e.Loss, e.Examples, *r.TestLoss)
			}
			check(t, os.WriteFile("t.csv", []byte("a,b,c,y\n"), 0o644))
			check(t, os.RemoveAll("run"))
			c.Steps, c.CountRecords = ptr(3), ptr(false)
			if r, _ := runShown(t, c, nil); !r.Guarantee || r.Steps != 3 {
				t.Errorf("on an empty table: %d steps, guarantee %v", r.Steps, r.Guarantee)
			}
		})
	}
}

func show(x *float64) any {
	if x == nil {
		return nil
	}
	return *x
}

// Faults of settings and files are refused before the run directory exists.
func TestTableRefusals(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 100, 0)
	for want, change := range map[string]func(*Config){
		"u.csv does not exist":  func(c *Config) { c.Data = source.TablePrefix + "u.csv" },
		"folds 1":               func(c *Config) { c.Folds, c.Fold = 1, 1 },
		"fold 4 of 3":           func(c *Config) { c.Folds, c.Fold = 3, 4 },
		"fold 0 of 3":           func(c *Config) { c.Folds = 3 },
		"leave out --schema":    func(c *Config) { c.Data, c.Schema = "mnist", "bank" },
		"give --public-n":       func(c *Config) { c.PublicN = nil },
		"--delta":               func(c *Config) { c.Delta = nil },
		"nothing was published": func(c *Config) { c.PublishedSet = true },
		"the fold that is held": func(c *Config) { c.TestIsPublic, c.Folds, c.Fold = true, 3, 1 },
		"nowhere.yaml":          func(c *Config) { c.Schema = "nowhere.yaml" },
		`no column`:             func(c *Config) { c.Schema = "bank" },
		"huber-regression with": func(c *Config) { c.Model, c.Schema = "svm", "number.yaml" },
		"model cnn-mnist takes": func(c *Config) { c.Model = "cnn-mnist" },
		"fold 2 of 0":           func(c *Config) { c.Fold = 2 },
		"public-n 1":            func(c *Config) { c.PublicN, c.Folds, c.Fold = ptr(1), 3, 1 },
		"no published size per": func(c *Config) { c.Classes = []int{0, 1} },
	} {
		c := tableConfig()
		change(&c)
		text, err := os.ReadFile("t.csv.schema.yaml")
		check(t, err)
		check(t, os.WriteFile("number.yaml", []byte(strings.Replace(string(text), tableSchemas["two"], tableSchemas["number"], 1)), 0o644))
		if want == "huber-regression with" {
			want = "use huber-regression"
		}
		var refused *UsageError
		if _, err := Run(context.Background(), c, Options{Out: "run", Sources: Sources()}); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := os.Stat("run"); err == nil {
			t.Fatalf("%s: the run directory was made", want)
		}
	}
}

// k−1 folds train with their share of the public N; what was held out is scored
// where all data are public, and only there.
func TestFolds(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 2000, 0)
	c := tableConfig()
	c.Folds, c.Fold, c.PublicN = 4, 4, ptr(2400) // 2300 with the test records, which are dealt, too
	r, _ := runShown(t, c, nil)
	if r.PublicN != 1800 || r.SamplingRate != 200.0/1800 || r.TestAccuracy != nil || r.TestLoss != nil || r.Guarantee || len(r.NoGuarantee) != 1 || !strings.Contains(r.NoGuarantee[0], "one fold of a k-fold") {
		t.Errorf("a private fold: %+v", r)
	}
	c.DataIsPublic = true
	check(t, os.RemoveAll("run"))
	r, _ = runShown(t, c, nil)
	if r.TestAccuracy == nil || *r.TestAccuracy < 0.7 || r.Guarantee {
		t.Errorf("a public fold: accuracy %v, guarantee %v", show(r.TestAccuracy), r.Guarantee)
	}
}

// A run is resumed by the schema it began with.
func TestSchemaMustStay(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 1, 400, 0)
	stop := errors.New("stop")
	o := Options{Out: "run", block: 5, onRelease: func(slot int) error {
		if slot == 7 {
			return stop
		}
		return nil
	}}
	c := tableConfig()
	c.CountRecords = ptr(false) // of 2000 records that are declared the table has 400
	if _, err := Run(context.Background(), c, o); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	text, err := os.ReadFile("t.csv.schema.yaml")
	check(t, err)
	o = Options{Out: "run", Resume: ResumeAuto}
	check(t, os.WriteFile("t.csv.schema.yaml", []byte(strings.Replace(string(text), "[0, 1]", "[0, 3]", 1)), 0o644))
	var refused *UsageError
	if _, err := Run(context.Background(), c, o); !errors.As(err, &refused) {
		t.Errorf("resumed by other bounds: %v", err)
	}
	// What the schema says is what counts, not how it is written.
	check(t, os.WriteFile("t.csv.schema.yaml", append([]byte("# the same\n"), text...), 0o644))
	if r, err := Run(context.Background(), c, o); err != nil || r.Steps != 25 {
		t.Errorf("resumed: %v", err)
	}
}

// Where the published files are at hand, the accuracies that are known for them.
func TestPublishedTables(t *testing.T) {
	dir := os.Getenv(config.DataDirVariable)
	for file, want := range map[string]map[string]float64{
		"adult.data":    {"lbfgs": 0.845, "dp-sgd": 0.82, "majority": 0.76},
		"bank-full.csv": {"lbfgs": 0.893, "dp-sgd": 0.87, "majority": 0.87},
	} {
		_, e1 := os.Stat(filepath.Join(dir, file))
		_, e2 := os.Stat(filepath.Join(dir, file+".gz"))
		if dir == "" || e1 != nil && e2 != nil {
			continue
		}
		for optimizer, least := range want {
			c := Default()
			c.Data, c.Optimizer, c.PublishedSet = source.TablePrefix+filepath.Join(dir, file), optimizer, true
			if optimizer != lbfgs {
				c.Epsilon = ptr(1.0)
			}
			r := finished(t, c, Options{Out: filepath.Join(t.TempDir(), "run")})
			if r.TestAccuracy == nil || *r.TestAccuracy < least || *r.TestAccuracy > least+0.03 {
				t.Errorf("%s on %s: test accuracy %v, want about %v", optimizer, file, show(r.TestAccuracy), least)
			}
		}
	}
}

// A model keeps the schema of its table: what happens to the files of the table changes no prediction.
func TestModelKeepsItsSchema(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "three", 1, 500, 0)
	c := tableConfig()
	c.DropFirst, c.CountRecords = true, ptr(false) // of 2000 records that are declared the table has 500
	finished(t, c, Options{Out: "run"})
	check(t, os.WriteFile("new.csv", []byte("a,b,c\n0.9,r,0.5\n0.1,p,-0.5\n0.5,q,0\n"), 0o644))
	shown := func() string {
		t.Helper()
		m, err := trained.Open("run", trained.Options{})
		check(t, err)
		_, records, err := m.Read("new.csv")
		check(t, err)
		p, err := m.Predict(records)
		check(t, err)
		return fmt.Sprintf("%+v", p)
	}
	before := shown()
	m, err := trained.Open("run", trained.Options{})
	check(t, err)
	score, err := m.Evaluate()
	check(t, err)

	schema, err := os.ReadFile("t.csv.schema.yaml")
	check(t, err)
	changed := strings.NewReplacer("[p, q, r]", "[r, q, p]", "a, bounds: [0, 1]", "a, bounds: [0, 2]", "[0, 1, 2]", "[2, 1, 0]").Replace(string(schema))
	check(t, os.WriteFile("t.csv.schema.yaml", []byte(changed), 0o644))
	if after := shown(); after != before {
		t.Errorf("with another schema beside the table: %s, before %s", after, before)
	}
	again, err := m.Evaluate()
	check(t, err)
	if *again.Accuracy != *score.Accuracy {
		t.Errorf("with another schema beside the table the accuracy is %v, before %v", *again.Accuracy, *score.Accuracy)
	}
	for _, name := range []string{"t.csv", "t.csv.schema.yaml", "test.csv"} {
		check(t, os.Remove(name))
	}
	if after := shown(); after != before {
		t.Errorf("without the table: %s, before %s", after, before)
	}
}

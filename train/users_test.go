package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/privgrad/privgrad/internal/rundir"
	"github.com/privgrad/privgrad/trained"
)

// usersFile deals so many records to users; some are nobody's.
func usersFile(t *testing.T, records, users int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.txt")
	var lines []string
	for i := range records {
		line := fmt.Sprintf("user %d", i*i%users)
		if i%9 == 0 {
			line = ""
		}
		lines = append(lines, line)
	}
	check(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644))
	return path
}

// userTable gives the lines of t.csv users, of whom some have one record and some have many.
func userTable(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("t.csv")
	check(t, err)
	lines := strings.Split(string(text), "\n")
	lines[0] = "person," + lines[0]
	for i := range lines[1:] {
		lines[1+i] = fmt.Sprintf("p%d,", (i*i+i/7)%211) + lines[1+i]
	}
	check(t, os.WriteFile("t.csv", []byte(strings.Join(lines, "\n")), 0o644))
	check(t, os.WriteFile("test.csv", append([]byte("person,"), strings.ReplaceAll(string(read(t, "test.csv")), "\n", "\np0,")...), 0o644))
}

// Tables whose users differ, in number and in their records, behind one transcript of releases, leave the same bytes and show the
// same.
func TestUserTranscript(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"two":      func(*Config) {},
		"adaptive": func(c *Config) { c.Clipping = "adaptive" },
		"counted":  func(c *Config) { c.PublicN, c.Batch = ptr(700), ptr(60.0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := tableConfig()
			c.Unit, c.RecordsPerUser, c.PublicN, c.Batch = "user:person", 4, ptr(300), ptr(60.0)
			change(&c)
			dataReplayed(t, c, func(i int, damaged float64) {
				makeTable(t, "two", uint64(i), []int{2000, 1655}[i], damaged)
				userTable(t)
			}, func(r *Result) {
				if !r.Guarantee || r.PrivacyUnit != "one user" || !slices.Contains(r.Assumptions, "users_are_named_rightly") {
					t.Errorf("%v for %s on %v", r.Guarantee, r.PrivacyUnit, r.Assumptions)
				}
			}, func(o *Options) { o.counted = ptr(400.0) })
		})
	}
}

// Where each user has one record, a run is the one with records as its unit, bit by bit.
func TestUsersOfOneRecord(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "three", 3, 400, 0)
	text := strings.Split(string(read(t, "t.csv")), "\n")
	for i := range text {
		text[i] = fmt.Sprintf("%s,%d", text[i], i)
	}
	text[0] = strings.TrimSuffix(text[0], "0") + "id"
	check(t, os.WriteFile("t.csv", []byte(strings.Join(text, "\n")), 0o644))
	test := strings.Split(string(read(t, "test.csv")), "\n")
	for i := range test {
		test[i] += ",id"
	}
	check(t, os.WriteFile("test.csv", []byte(strings.Join(test, "\n")), 0o644))
	c := tableConfig()
	c.Noise, c.PublicN, c.Batch = "seeded", ptr(400), ptr(100.0)
	var models []string
	for _, unit := range []string{"", "user:id"} {
		if c.Unit = unit; unit != "" {
			c.RecordsPerUser = 1
		}
		out := "run" + fmt.Sprint(len(models))
		finished(t, c, Options{Out: out})
		m := string(read(t, out, "model.safetensors"))
		models = append(models, m[strings.Index(m, "}}")+2:])
	}
	if models[0] != models[1] || len(models[0]) < 20 {
		t.Error("the models differ")
	}
}

// A user of whom a batch has many records moves the model no further than a user with one: at rate 1, with next to no noise, the
// gradient of a user is the mean over the user's records, and is clipped once.
func TestAUserIsClippedOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 4, 40, 0)
	c := tableConfig()
	c.Unit, c.RecordsPerUser, c.PublicN, c.Delta = "user:person", 5, ptr(1), ptr(1e-5)
	c.NoiseMultiplier, c.Batch, c.Steps, c.Clip, c.LR = ptr(1e-6), ptr(1.0), ptr(1), 1e-3, ptr(1.0)
	text := strings.Split(string(read(t, "t.csv")), "\n")
	for i := range text {
		text[i] += ",one"
	}
	text[0] = strings.TrimSuffix(text[0], "one") + "person"
	check(t, os.WriteFile("t.csv", []byte(strings.Join(text, "\n")), 0o644))
	check(t, os.WriteFile("t.csv.schema.yaml", []byte(strings.ReplaceAll(string(read(t, "t.csv.schema.yaml")), "test: test.csv\ntest_is_public: true\n", "")), 0o644))
	r := finished(t, c, Options{Out: "run"})
	p := resolved(t, c, Options{})
	params, _, err := rundir.ReadModel("run/"+rundir.Model, p.Network.Program)
	check(t, err)
	moved := 0.0
	for _, x := range params {
		moved += float64(x) * float64(x)
	}
	if limit := 1e-3 * 1e-3 * 1.001; r.Steps != 1 || moved > limit || moved < limit/1.1 {
		t.Errorf("forty records of one user moved the model by %v, squared, want %v", moved, limit)
	}
}

func TestUsersRefuse(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 5, 100, 0)
	userTable(t)
	for want, change := range map[string]func(*Config){
		"has no column":           func(c *Config) { c.Unit = "user:nobody" },
		"users as the unit are":   func(c *Config) { c.Optimizer, c.NoiseMultiplier, c.Epsilon, c.Batch = "outpert-gd", nil, ptr(1.0), nil },
		"folds hold out records":  func(c *Config) { c.Folds, c.Fold = 3, 1 },
		"losses of single":        func(c *Config) { c.TrainLossNoise = ptr(3.0) },
		"take the place of views": func(c *Config) { c.Augment = []string{"flip"} },
	} {
		c := tableConfig()
		c.Unit = "user:person"
		change(&c)
		refusedOnATable(t, c, want)
	}
	schema := strings.ReplaceAll(string(read(t, "t.csv.schema.yaml")), "test: test.csv\n", "test_share: 0.25\n")
	check(t, os.WriteFile("t.csv.schema.yaml", []byte(schema), 0o644))
	c := tableConfig()
	if c.PublicN = ptr(400); !strings.Contains(schema, "test_share") || resolved(t, c, Options{}) == nil {
		t.Error("a share of records is held out where they are the unit")
	}
	c.Unit = "user:person"
	refusedOnATable(t, c, "test_share 0.25")
	if _, err := Run(context.Background(), func() Config { c := small(); c.Users = "nowhere.txt"; return c }(), Options{Sources: sources(made(1, 20)), Out: "run"}); err == nil || !strings.Contains(err.Error(), "nowhere.txt") {
		t.Errorf("a file of users that is not there: %v", err)
	}
}

// A δ of one over the number of users is about a user.
func TestDeltaOfUsers(t *testing.T) {
	t.Chdir(t.TempDir())
	makeTable(t, "two", 5, 100, 0)
	userTable(t)
	c := tableConfig()
	c.Unit, c.PublicN, c.Batch, c.Delta = "user:person", ptr(300), ptr(60.0), ptr(0.01)
	p := resolved(t, c, Options{})
	if all := strings.Join(p.Warnings, "\n"); !strings.Contains(all, "some user is published whole") || p.Unit != "user" {
		t.Errorf("the unit is a %s, warned of %s", p.Unit, all)
	}
}

// To evaluate a model nobody asks whose the training records are.
func TestUsersAreNotNeededToEvaluate(t *testing.T) {
	t.Chdir(t.TempDir())
	c := small()
	c.Users, c.RecordsPerUser, c.PublicN, c.Delta = usersFile(t, 160, 30), 2, ptr(50), ptr(1e-4)
	set := sources(made(1, 160))
	finished(t, c, Options{Sources: set, Out: "run"})
	check(t, os.Remove(c.Users))
	m, err := trained.Open("run", trained.Options{Sources: set})
	check(t, err)
	if e, err := m.Evaluate(); err != nil || e.Examples == 0 {
		t.Errorf("without the file of users: %v, %v", e, err)
	}
}

package reproduce

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/source"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
	"github.com/privgrad/privgrad/train"
)

// A Job is one run of train, or, where Make is there, whatever that does.
type Job struct {
	Record // what identifies it
	Config train.Config
	// Network builds one that has no name, for this run alone; the configuration names it. nil: the
	// named model.
	Network func() (*nn.Network, error)
	// After completes the last record of such a run from the parameters; nil: it is complete.
	After func(params []float32, r *Record)
	// Protector takes the place of the configuration's; nil: it has none.
	Protector *Protection
	// Lesson makes one before the run; nil: that is at hand.
	Lesson *Lesson

	What string // in the place of the configuration, all that the records follow from
	Make func(ctx context.Context) (Records, error)
}

// Identify completes the job's record with the fingerprint of its settings.
func (j *Job) Identify() error {
	b := []byte(j.What)
	if j.Make == nil {
		var err error
		if b, err = j.settings(); err != nil {
			return err
		}
	}
	h := sha256.Sum256(b)
	j.Settings = fmt.Sprintf("%x", h[:6])
	return nil
}

// settings are a run's configuration without what changes no result.
func (j *Job) settings() ([]byte, error) {
	c := j.Config
	c.DataDir, c.Device, c.Threads, c.Memory = "", "", 0, ""
	c.PublishedSet = false // images from files always are
	if path, ok := strings.CutPrefix(c.Data, source.TablePrefix); ok {
		c.Data = source.TablePrefix + filepath.Base(path) // wherever it lies
	}
	if j.Protector != nil {
		c.L2P.Protector = j.Protector.Digest
	}
	if j.Lesson != nil {
		c.L2P.Protector = j.Lesson.What
	}
	return c.YAML()
}

// run does a job. What all of its records share need not be in what Make gives.
func (e *Env) run(ctx context.Context, j Job) (Records, error) {
	first := j.Record
	if e.Quick {
		first.Label = strings.TrimSuffix(QuickLabel+"; "+first.Label, "; ")
	}
	if j.Make == nil {
		return e.train(ctx, j, first)
	}
	records, err := j.Make(ctx)
	for i := range records {
		r := &records[i]
		r.Panel, r.Series, r.Setting, r.X, r.Settings, r.Label = first.Panel, first.Series, first.Setting, first.X, first.Settings, first.Label
		r.NoGuarantee = simulated
	}
	return records, err
}

// simulated is why what no run of train made has no guarantee.
const simulated = DeclaredPublic + "; simulated with ordinary pseudo-random noise"

// train makes one run in a directory of its own and gives its evaluations.
func (e *Env) train(ctx context.Context, j Job, first Record) (Records, error) {
	dir, err := os.MkdirTemp("", "privgrad-reproduce-")
	if err != nil {
		return nil, fmt.Errorf("a directory for a run: %w", err)
	}
	defer os.RemoveAll(dir)
	c := j.Config
	c.Device, c.DataIsPublic = e.Device, true
	protector := j.Protector
	if j.Lesson != nil {
		if protector, err = j.Lesson.Protection(ctx); err != nil {
			return nil, err
		}
	}
	if protector != nil {
		c.L2P.Protector = filepath.Join(dir, "protector.safetensors")
		if err := protector.Write(c.L2P.Protector); err != nil {
			return nil, err
		}
	}
	if !e.OnGPU() {
		c.Threads = 1
		if c.Device == "" {
			c.Device = "cpu"
		}
	}
	if c.Memory == "" {
		c.Memory = "1GiB" // several runs share the machine's
	}
	first.NoGuarantee = DeclaredPublic
	o := train.Options{Out: filepath.Join(dir, "run"), Sources: e.Sources}
	if j.Network != nil {
		if o.Network, err = j.Network(); err != nil {
			return nil, err
		}
	}
	result, err := train.Run(ctx, c, o)
	if errors.Is(err, accountant.ErrBudget) {
		first.Final, first.Epsilon, first.Delta, first.Note = true, c.Epsilon, c.Delta, "the budget does not pay for a single step"
		return Records{first}, nil
	}
	if err != nil {
		return nil, err
	}
	first.Epsilon, first.Delta, first.Batch, first.Seconds = result.Epsilon, result.Delta, result.ExpectedBatch, result.Seconds
	if result.Accountant != nil {
		first.Accountant = *result.Accountant
	}
	first.Guarantee = result.Guarantee
	first.NoGuarantee = strings.Join(append([]string{DeclaredPublic}, result.NoGuarantee...), "; ")
	first.Gradients, first.Objectives = number(result.GradientEvaluations), number(result.ObjectiveEvaluations)
	records, err := evaluated(result.Evaluations, first)
	if err == nil && j.After != nil {
		j.After(o.Network.Params(), &records[len(records)-1])
	}
	return records, err
}

func number(n *int) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// evaluated puts a run's evaluations into copies of a record.
func evaluated(all []train.Measurement, of Record) (records Records, _ error) {
	for _, m := range all {
		r := of
		r.Step, r.EpsilonSoFar, r.Rate = m.Step, m.EpsilonSoFar, m.LR
		r.TestLoss, r.TestAccuracy, r.TrainLoss, r.TrainAccuracy = m.TestLoss, m.TestAccuracy, m.TrainLoss, m.TrainAccuracy
		records = append(records, r)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("a run has no evaluation; please report this")
	}
	records[len(records)-1].Final = true
	return records, nil
}

// A Protection is the protector of a figure or of a run.
type Protection struct {
	*l2p.Protector
	Digest string // of its card and weights
}

// A Lesson makes a protector when a run first needs it.
type Lesson struct {
	What  string // all that it follows from
	learn func(ctx context.Context) (*l2p.Protector, error)
	mu    sync.Mutex
	made  *Protection
}

// Lesson is the one of this description, which is learned once.
func (e *Env) Lesson(what string, learn func(ctx context.Context) (*l2p.Protector, error)) *Lesson {
	if e.lessons == nil {
		e.lessons = map[string]*Lesson{}
	}
	if e.lessons[what] == nil {
		e.lessons[what] = &Lesson{What: what, learn: learn}
	}
	return e.lessons[what]
}

// Protection is the same for all runs. Those that need it at a time wait for the first.
func (l *Lesson) Protection(ctx context.Context) (*Protection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		p, err := l.learn(ctx)
		if err != nil {
			return nil, err
		}
		l.made = NewProtection(p)
	}
	return l.made, nil
}

// protect finds the protector of a figure that has one.
func (e *Env) protect(f *Figure) error {
	name := e.Protector
	switch {
	case f.Protector == "" && name == "":
		return nil
	case f.Protector == "":
		return usage.Errorf("protector %s: %s is of no protector; leave it out", name, f.Name)
	case name == "":
		name = f.Protector
	}
	p, err := l2p.Find(name)
	if err != nil {
		var u *train.UsageError
		if errors.As(err, &u) {
			return err
		}
		return usage.Errorf("%w; another is chosen by --protector", err)
	}
	e.Learned = NewProtection(p)
	return nil
}

// NewProtection is of a protector that changes no more. Its digest is of the card as it is stored, and of the weights.
func NewProtection(p *l2p.Protector) *Protection {
	text, _ := json.Marshal(p) // fails on no numbers that a protector may have
	h := sha256.Sum256(text)
	return &Protection{p, fmt.Sprintf("%x", h[:8])}
}

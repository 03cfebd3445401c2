// Package compare times training steps of this program beside those of PyTorch, Opacus and JAX.
package compare

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privgrad/privgrad/bench"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/plan"
	"github.com/privgrad/privgrad/internal/timing"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/nn"
)

// scripts measure one peer each, and travel inside the program.
//
//go:embed peers/*.py
var scripts embed.FS

//go:embed peers/requirements.txt
var requirements string

// Requirements are the versions of the peers that the scripts were written
// for, as pip reads them.
func Requirements() []string { return strings.Fields(requirements) }

// A peer is another way to do the same training step, through a script.
type peer struct {
	name, mode string
	private    bool
	script     string
	needs      []string // Python packages
}

var peers = []peer{
	{"opacus", "hooks", true, "torch_steps.py", []string{"torch", "opacus"}},
	{"opacus", "ghost", true, "torch_steps.py", []string{"torch", "opacus"}},
	{"torch", "func", true, "torch_steps.py", []string{"torch"}},
	{"torch", "func-compiled", true, "torch_steps.py", []string{"torch"}},
	{"torch", "func-graphs", true, "torch_steps.py", []string{"torch"}},
	{"jax", "vmap", true, "jax_steps.py", []string{"jax"}},
	{"torch", "plain", false, "torch_steps.py", []string{"torch"}},
	{"torch", "plain-compiled", false, "torch_steps.py", []string{"torch"}},
	{"torch", "plain-graphs", false, "torch_steps.py", []string{"torch"}},
	{"torch", "plain-best", false, "torch_steps.py", []string{"torch"}},
	{"jax", "plain", false, "jax_steps.py", []string{"jax"}},
}

const ours = "privgrad"

// Peers are the names of what a comparison sets beside this program's steps. Those with graphs and the best plain one are
// for a GPU, where they are CUDA graphs: on a CPU they would repeat others.
func Peers() (names []string) {
	for _, p := range peers {
		names = append(names, p.label())
	}
	return names
}

func (p peer) label() string { return p.name + " " + p.mode }

func (p peer) onGPU() bool {
	return strings.HasSuffix(p.mode, "-graphs") || strings.HasSuffix(p.mode, "-best")
}

// Models are the models that the scripts know.
func Models() []string { return append(Usual(), "resnet-small", "wrn-16-4", "wrn-40-4") }

// Usual are the models of a comparison that names none. The others take a CPU minutes, or hours.
func Usual() []string {
	return []string{"mlp-mnist", "mlp-fmnist", "cnn-mnist", "mnist-tf", "cifar-small", "cifar-paper"}
}

// batch is the number of rows of a step, by the model's data.
func batch(m nn.Info) int {
	if m.Input[0] == 3 {
		return 250
	}
	return 300
}

// Options says what to set beside what.
type Options struct {
	Models []string // nil for the usual ones
	Peers  []string // of Peers; nil for all
	Device string   // "cpu" or "cuda", of every process
	Batch  int      // rows of a step; 0 for the usual number of each model
	// Precision is that of matrix products, of every process: "" is float32, on a GPU also tf32 and bf16.
	Precision string
	Threads   int     // of every process, 0 for all
	Seconds   float64 // for each measurement
	Rounds    int
	Python    string   // interpreter that has the peers
	Program   []string // runs this program's command line: bench step is a process of its own, too
	Machine   bench.Machine
	Version   string // of this program
	// Draws measures the speed of this program's noise, as bench.DrawsPerSecond does; nil where it is not known.
	Draws func(threads int) (float64, error)

	// Keep gets what there is after each model, with the others among what was left out: the rest may take an hour. Nil keeps
	// nothing; an error ends the comparison.
	Keep func(*Result) error
	// Notice is told, in a line, what is left out and why; Progress what is
	// measured next, the number done before it, and of how many.
	Notice   func(line string)
	Progress func(done, total int, next string)
}

// Result is training steps of this program and of its peers on one
// machine, in turns.
type Result struct {
	Date      string            `json:"date"` // UTC, of the start
	Machine   bench.Machine     `json:"machine"`
	Device    string            `json:"device"` // "cpu" or "cuda"
	Threads   int               `json:"threads"`
	Precision string            `json:"precision"`
	Seconds   float64           `json:"seconds"` // each measurement went on for
	Rounds    int               `json:"rounds"`
	Versions  map[string]string `json:"versions"`
	// DrawsPerSecond are of this program's noise, on all threads; 0 if unknown.
	DrawsPerSecond float64   `json:"draws_per_second,omitempty"`
	Models         []Model   `json:"models"`
	Skipped        []Skipped `json:"skipped"`
}

// Model is one model's steps.
type Model struct {
	Model      string  `json:"model"`
	Parameters int     `json:"parameters"`
	Batch      int     `json:"batch"`
	Activation string  `json:"activation"`
	Entries    []Entry `json:"entries"`
	Ratios     Ratios  `json:"ratios"`
}

// Entry is one way to do a model's step. A measurement is the median of one
// process's steps; Rounds has all measurements in order, of this program as many
// in a round as there are peers.
type Entry struct {
	Peer    string  `json:"peer"`
	Mode    string  `json:"mode"`
	Private bool    `json:"private"`
	Median  float64 `json:"step_seconds_median"`
	// Waited is with a wait after each step; nil where the other figures are that, too, as on a CPU. On a GPU they are of many
	// steps between two waits.
	Waited  *float64  `json:"step_seconds_waited_median,omitempty"`
	Form    string    `json:"form,omitempty"` // the fastest of several ways in which the last process could do the step
	Min     float64   `json:"step_seconds_min"`
	Max     float64   `json:"step_seconds_max"`
	Rounds  []float64 `json:"step_seconds_rounds"`
	PeakRSS int64     `json:"peak_rss_bytes"` // the largest of all
	// PeakDevice is the most memory taken on a GPU, the largest of all; nil where it is unknown.
	PeakDevice *int64 `json:"peak_device_bytes,omitempty"`

	waited []float64
}

func (e *Entry) label() string { return e.Peer + " " + e.Mode }

// Ratios are of medians; null where one side was not measured. The first two are of this program's steps alone: medians of
// the ratios of measurements that followed one another.
type Ratios struct {
	PrivateOverPlain *float64 `json:"private_over_plain"`
	// PrivateOverPlainAndNoise sets a private step beside a plain one and the noise that it draws, one draw a parameter.
	PrivateOverPlainAndNoise *float64 `json:"private_over_plain_and_noise"`

	FastestPrivatePeer     string   `json:"fastest_private_peer"`                  // "" for none
	FastestPlainPeer       string   `json:"fastest_plain_peer"`                    // "" for none
	PrivatePeerOverPrivate *float64 `json:"fastest_private_peer_over_private"`     // above 1: ours is faster
	PlainPeerOverPlain     *float64 `json:"fastest_plain_peer_over_plain"`         // above 1: ours is faster
	PrivateOverPlainPeer   *float64 `json:"private_over_fastest_plain_peer"`       // below 1: privately faster than others without privacy
	PrivatePeerMemory      *float64 `json:"fastest_private_peer_memory_over_ours"` // peak memory
}

// Skipped is what was left out.
type Skipped struct {
	Model  string `json:"model"` // "" for every model
	Peer   string `json:"peer"`  // "everything" where a comparison ended before a model
	Mode   string `json:"mode"`  // "" for every mode
	Reason string `json:"reason"`
}

// Run measures this program and every peer that is there in turns, in as many rounds as asked for: before each peer both
// of this program's steps, the one of the peer's kind last. Where all peers are of one kind, so is this program's step. A peer
// that is missing or fails is left out.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	n, err := timing.Threads(o.Threads)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "privgrad-peers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, scripts); err != nil {
		return nil, fmt.Errorf("unpacking the peers' scripts: %w", err)
	}
	c := &comparison{Options: o, dir: filepath.Join(dir, "peers"), result: &Result{
		Date: time.Now().UTC().Format(time.RFC3339), Machine: o.Machine, Device: o.Device, Threads: n, Seconds: o.Seconds, Rounds: o.Rounds,
		Precision: o.Precision, Versions: map[string]string{ours: o.Version}, Skipped: []Skipped{},
	}}
	here, err := c.installed(ctx)
	if err != nil {
		return nil, err
	}
	if o.Draws != nil {
		if c.result.DrawsPerSecond, err = o.Draws(n); err != nil {
			return nil, err
		}
	}
	c.total = len(o.Models) * o.Rounds * len(turns(here))
	for i, m := range o.Models {
		if err := c.model(ctx, m, here); err != nil {
			return nil, err
		}
		if o.Keep != nil {
			if err := o.Keep(c.without(o.Models[i+1:])); err != nil {
				return nil, err
			}
		}
	}
	return c.result, nil
}

// check also completes what is chosen.
func (o *Options) check() error {
	if err := timing.CheckSeconds(o.Seconds); err != nil {
		return err
	}
	if o.Rounds < 1 || o.Rounds > 1000 {
		return usage.Errorf("rounds %d: must be in [1, 1000]", o.Rounds)
	}
	if o.Device != "cpu" && o.Device != "cuda" {
		return usage.Unknown("device", o.Device, []string{"cpu", "cuda"})
	}
	if len(o.Models) == 0 {
		o.Models = Usual()
	}
	for _, m := range o.Models {
		if !slices.Contains(Models(), m) {
			return usage.Errorf("%w, which the peers know", usage.Unknown("model", m, Models()))
		}
	}
	if o.Batch != 0 {
		if err := timing.CheckBatch(o.Batch); err != nil {
			return err
		}
	}
	return o.checkPeers()
}

// checkPeers also completes their precision.
func (o *Options) checkPeers() error {
	for _, p := range o.Peers {
		if !slices.Contains(Peers(), p) {
			return usage.Unknown("peer", p, Peers())
		}
	}
	o.Precision = cmp.Or(o.Precision, device.Float32.String())
	p, err := device.ParsePrecision(o.Precision)
	if err != nil {
		return usage.Wrap(err)
	}
	if p != device.Float32 && o.Device != "cuda" {
		return usage.Errorf("precision %s: only GPUs multiply in it; add --device cuda", o.Precision)
	}
	return nil
}

// chosen says whether a peer is to be measured.
func (o *Options) chosen(p peer) bool {
	if o.Peers == nil {
		return o.Device == "cuda" || !p.onGPU()
	}
	return slices.Contains(o.Peers, p.label())
}

type comparison struct {
	Options
	dir         string
	result      *Result
	done, total int
}

// without is the result if models are left out.
func (c *comparison) without(models []string) *Result {
	r := *c.result
	r.Skipped = slices.Clone(r.Skipped)
	for _, m := range models {
		r.Skipped = append(r.Skipped, Skipped{Model: m, Peer: "everything", Reason: "the comparison ended before"})
	}
	return &r
}

func (c *comparison) skip(s Skipped) {
	c.result.Skipped = append(c.result.Skipped, s)
	c.Notice(s.what() + " is left out: " + s.Reason)
}

// installed finds the peers that the interpreter has. None is needed.
func (c *comparison) installed(ctx context.Context) ([]peer, error) {
	found := map[string]string{}
	out, err := c.run(ctx, []string{c.Python, filepath.Join(c.dir, "installed.py")})
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.skip(Skipped{Peer: "every peer", Reason: fmt.Sprintf("Python interpreter %s: %v; --help says how to install the peers", c.Python, err)})
		return nil, nil
	}
	maps.Copy(c.result.Versions, found)
	var here []peer
	var missing []string
	for _, p := range peers {
		if !c.chosen(p) {
			continue
		}
		lacks := slices.IndexFunc(p.needs, func(name string) bool { return found[name] == "" })
		if lacks < 0 {
			here = append(here, p)
			continue
		}
		if name := p.needs[lacks]; !slices.Contains(missing, p.name) {
			missing = append(missing, p.name)
			c.skip(Skipped{Peer: p.name, Reason: fmt.Sprintf("%s does not have the package %s; --help says how to install the peers", c.Python, name)})
		}
	}
	return here, nil
}

// turns is the order of one round: before each peer this program's step of the same kind and, if peers are of both kinds,
// before that its step of the other kind; without a peer its own two alone.
func turns(here []peer) []peer {
	private, plain := peer{name: ours, mode: "private", private: true}, peer{name: ours, mode: "plain"}
	if len(here) == 0 {
		return []peer{private, plain}
	}
	both := slices.ContainsFunc(here, func(p peer) bool { return p.private != here[0].private })
	var order []peer
	for _, p := range here {
		own, other := plain, private
		if p.private {
			own, other = private, plain
		}
		if both {
			order = append(order, other)
		}
		order = append(order, own, p)
	}
	return order
}

func (c *comparison) model(ctx context.Context, name string, here []peer) error {
	info, err := plan.Model(name)
	if err != nil {
		return err
	}
	m := Model{Model: name, Parameters: info.Parameters, Batch: cmp.Or(c.Batch, batch(info)), Activation: "relu"}
	order := turns(here)
	failed := map[string]bool{}
	for round := range c.Rounds {
		for _, p := range order {
			label := p.label()
			c.Progress(c.done, c.total, fmt.Sprintf("%s, round %d of %d: %s", name, round+1, c.Rounds, label))
			c.done++
			if failed[label] {
				continue
			}
			s, err := c.measure(ctx, p, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				if p.name == ours {
					return fmt.Errorf("%s on %s: %w", label, name, err)
				}
				failed[label] = true
				m.Entries = slices.DeleteFunc(m.Entries, func(e Entry) bool { return e.label() == label })
				c.skip(Skipped{Model: name, Peer: p.name, Mode: p.mode, Reason: err.Error()})
				continue
			}
			e := m.entry(label)
			if e == nil {
				m.Entries = append(m.Entries, Entry{Peer: p.name, Mode: p.mode, Private: p.private})
				e = &m.Entries[len(m.Entries)-1]
			}
			e.add(s)
		}
	}
	for i := range m.Entries {
		m.Entries[i].sum()
	}
	slices.SortStableFunc(m.Entries, func(a, b Entry) int { return rank(a) - rank(b) })
	m.Ratios = ratios(m.Entries, float64(m.Parameters)/c.result.DrawsPerSecond)
	c.result.Models = append(c.result.Models, m)
	return nil
}

// add takes a measurement.
func (e *Entry) add(s *step) {
	e.Rounds = append(e.Rounds, s.StepSeconds)
	e.PeakRSS, e.Form = max(e.PeakRSS, s.PeakRSS), s.Form
	if s.Waited != nil {
		e.waited = append(e.waited, *s.Waited)
	}
	if s.PeakDevice != nil && (e.PeakDevice == nil || *s.PeakDevice > *e.PeakDevice) {
		e.PeakDevice = s.PeakDevice
	}
}

// sum says what the measurements are together.
func (e *Entry) sum() {
	e.Median, e.Min, e.Max = timing.Median(e.Rounds), slices.Min(e.Rounds), slices.Max(e.Rounds)
	if len(e.waited) > 0 {
		e.Waited = new(timing.Median(e.waited))
	}
}

// rank puts private before plain steps, and ours first of each.
func rank(e Entry) (r int) {
	if !e.Private {
		r = 2
	}
	if e.Peer != ours {
		r++
	}
	return r
}

// A step is what bench step and the scripts print, as far as it is compared.
type step struct {
	Model       string   `json:"model"`
	Batch       int      `json:"batch"`
	Parameters  int      `json:"parameters"`
	StepSeconds float64  `json:"step_seconds_median"`
	Waited      *float64 `json:"step_seconds_waited_median"`
	Form        string   `json:"form"`
	Precision   string   `json:"precision"`
	PeakRSS     int64    `json:"peak_rss_bytes"`
	PeakDevice  *int64   `json:"peak_device_bytes"`
}

// measure times one kind of step in a process of its own.
func (c *comparison) measure(ctx context.Context, p peer, m Model) (*step, error) {
	args := []string{
		"--model", m.Model, "--mode", p.mode, "--batch", strconv.Itoa(m.Batch), "--device", c.Device, "--precision", c.Precision,
		"--threads", strconv.Itoa(c.result.Threads), "--seconds", strconv.FormatFloat(c.Seconds, 'g', -1, 64),
	}
	command := []string{c.Python, filepath.Join(c.dir, p.script)}
	if p.name == ours {
		command = append(slices.Clone(c.Program), "bench", "step", "--json", "--activation", m.Activation)
	}
	out, err := c.run(ctx, append(command, args...))
	if err != nil {
		return nil, err
	}
	s := &step{}
	if err := json.Unmarshal(out, s); err != nil {
		return nil, fmt.Errorf("its output is not one JSON object: %w", err)
	}
	if s.Model != m.Model || s.Batch != m.Batch || s.Parameters != m.Parameters {
		return nil, fmt.Errorf("it did another step: %s of %d parameters on %d rows, not %s of %d on %d", s.Model, s.Parameters, s.Batch, m.Model, m.Parameters, m.Batch)
	}
	if s.Precision != c.Precision {
		return nil, fmt.Errorf("it multiplied in %s, not in %s", s.Precision, c.Precision)
	}
	if !(s.StepSeconds > 0) {
		return nil, errors.New("it gave no time")
	}
	return s, nil
}

func (c *comparison) run(ctx context.Context, command []string) ([]byte, error) {
	return timing.Process(ctx, c.result.Threads, command)
}

// ratios are those of a model's entries; noise is the seconds that a step's draws take, infinite if unknown.
func ratios(entries []Entry, noise float64) Ratios {
	best := func(private, own bool) *Entry {
		var b *Entry
		for i := range entries {
			e := &entries[i]
			if e.Private == private && (e.Peer == ours) == own && (b == nil || e.Median < b.Median) {
				b = e
			}
		}
		return b
	}
	ratio := func(a, b *Entry) *float64 {
		if a == nil || b == nil {
			return nil
		}
		return new(a.Median / b.Median)
	}
	private, plain := best(true, true), best(false, true)
	// privacy is the cost of a private step beside a plain one and so many seconds more.
	privacy := func(more float64) *float64 {
		if private == nil || plain == nil || math.IsInf(more, 1) {
			return nil
		}
		var all []float64
		for i, p := range private.Rounds { // as many as of plain
			all = append(all, p/(plain.Rounds[i]+more))
		}
		return new(timing.Median(all))
	}
	privatePeer, plainPeer := best(true, false), best(false, false)
	r := Ratios{
		PrivateOverPlain:         privacy(0),
		PrivateOverPlainAndNoise: privacy(noise),
		PrivatePeerOverPrivate:   ratio(privatePeer, private),
		PlainPeerOverPlain:       ratio(plainPeer, plain),
		PrivateOverPlainPeer:     ratio(private, plainPeer),
	}
	if privatePeer != nil {
		r.FastestPrivatePeer = privatePeer.label()
	}
	if plainPeer != nil {
		r.FastestPlainPeer = plainPeer.label()
	}
	if privatePeer != nil && private != nil {
		r.PrivatePeerMemory = memoryRatio(privatePeer, private)
	}
	return r
}

// memoryRatio is of a GPU's memory where both say what they took of it, else of the host's.
func memoryRatio(a, b *Entry) *float64 {
	switch {
	case a.PeakDevice != nil && b.PeakDevice != nil && *b.PeakDevice > 0:
		return new(float64(*a.PeakDevice) / float64(*b.PeakDevice))
	case a.PeakDevice == nil && b.PeakDevice == nil && b.PeakRSS > 0:
		return new(float64(a.PeakRSS) / float64(b.PeakRSS))
	}
	return nil
}

// Pair gives a peer's step and this program's of the same kind; nil for what was not measured.
func (m *Model) Pair(peer string) (own, theirs *Entry) {
	if theirs = m.entry(peer); theirs != nil {
		own = m.entry(ours + " plain")
		if theirs.Private {
			own = m.entry(ours + " private")
		}
	}
	return own, theirs
}

package l2p

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/privgrad/privgrad/dpoptim"
	"github.com/privgrad/privgrad/internal/device"
	"github.com/privgrad/privgrad/internal/durable"
	"github.com/privgrad/privgrad/internal/safetensors"
	"github.com/privgrad/privgrad/internal/usage"
	"github.com/privgrad/privgrad/internal/written"
)

// Kinds of projectors and schedulers.
const (
	Learned  = "lstm"
	Identity = "identity" // projector: a step of gradient descent
	Constant = "constant" // scheduler: the planned noise in every step
)

// Format is that of the card.
const Format = 1

// Card says what a protector is, and is stored beside its weights as JSON.
type Card struct {
	Format  int    `json:"format"`
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Tasks trained it, and Public are the data sets among them, whose records it may
	// hold: training privately on them has no guarantee.
	Tasks  []string `json:"tasks"`
	Public []Public `json:"public_data"`
	// EpsilonRange, Delta and Neighbouring are those of the runs that it was trained on.
	EpsilonRange [2]float64 `json:"epsilon_range"`
	Delta        float64    `json:"delta"`
	Neighbouring string     `json:"neighbouring"`
	Steps        int        `json:"steps"` // T that a run has unless told otherwise
	Projector    Part       `json:"projector"`
	Scheduler    Part       `json:"scheduler"`
	// Scale multiplies what the projector puts out (appendix C.3).
	Scale  float64 `json:"scale"`
	Recipe string  `json:"recipe"` // the command that trained it
	// Weights is the SHA-256 of the weights, which ties the two files together; Write sets it.
	Weights string `json:"weights_sha256"`
}

// Public names a published data set, and which of its classes; none stand for all. Tables are
// known by the name of their file.
type Public struct {
	Data    string `json:"data"`
	Classes []int  `json:"classes,omitempty"`
}

// Part describes a projector or a scheduler.
type Part struct {
	Kind    string `json:"kind"`
	Layers  int    `json:"layers,omitempty"`
	Hidden  int    `json:"hidden,omitempty"`
	LogSign bool   `json:"log_sign,omitempty"` // projector alone
}

// LSTM is the shape of a learned part that reads so many public figures.
func (p Part) LSTM(context int) device.LSTM {
	return device.LSTM{Layers: p.Layers, Hidden: p.Hidden, Context: context, LogSign: p.LogSign}
}

// Protector is a card with the weights of its learned parts, in the order of
// device.LSTM; nil where a part is not learned.
type Protector struct {
	Card      Card
	Projector []float32
	Scheduler []float32
}

// mostSteps is more than any run makes whose noise is planned.
const mostSteps = 1_000_000

func (p *Protector) digest() string {
	h := sha256.New()
	for _, part := range p.parts() {
		fmt.Fprintf(h, "%s %d\n", part.name, len(*part.weights))
		binary.Write(h, binary.LittleEndian, *part.weights) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Adapts reports whether the noise of a step depends on released values.
func (p *Protector) Adapts() bool { return p.Card.Scheduler.Kind == Learned }

// Validate finds what no run can use.
func (p *Protector) Validate() error {
	c := &p.Card
	switch {
	case c.Format != Format:
		return fmt.Errorf("protector %q has format %d, this program reads %d", c.Name, c.Format, Format)
	case c.Name == "" || strings.ContainsAny(c.Name, "/\\."):
		return fmt.Errorf("protector %q: a name of letters, digits and dashes is needed", c.Name)
	case c.Public == nil:
		return fmt.Errorf("protector %s: its card has no public_data: list the published data that trained it, or [] for none", c.Name)
	case c.Steps < 1 || c.Steps > mostSteps:
		return fmt.Errorf("protector %s: %d steps: must be 1 to %d", c.Name, c.Steps, mostSteps)
	case !(c.Scale > 0) || math.IsInf(c.Scale, 0):
		return fmt.Errorf("protector %s: scale %v: must be a finite number above 0", c.Name, c.Scale)
	case !(c.EpsilonRange[0] > 0) || !(c.EpsilonRange[1] >= c.EpsilonRange[0]):
		return fmt.Errorf("protector %s: epsilon range %v: must be two numbers above 0 in order", c.Name, c.EpsilonRange)
	}
	parts := p.parts()
	return errors.Join(parts[0].validate(c.Name), parts[1].validate(c.Name))
}

func (p part) validate(of string) error {
	weights := *p.weights
	switch {
	case p.kind != Learned && p.kind != p.unlearned:
		return fmt.Errorf("protector %s: unknown %s %q: must be %s or %s", of, p.name, p.kind, Learned, p.unlearned)
	case p.kind != Learned && weights != nil:
		return fmt.Errorf("protector %s: %s %s has weights", of, p.name, p.kind)
	case p.kind != Learned:
		return nil
	}
	if err := p.lstm.Check(); err != nil {
		return fmt.Errorf("protector %s: %s: %w", of, p.name, err)
	}
	if len(weights) != p.lstm.Weights() {
		return fmt.Errorf("protector %s: %s has %d weights, its shape needs %d", of, p.name, len(weights), p.lstm.Weights())
	}
	for _, w := range weights {
		if math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) {
			return fmt.Errorf("protector %s: %s has a weight of %v", of, p.name, w)
		}
	}
	return nil
}

// TablePrefix begins the name of a table.
const TablePrefix = "csv:"

// PublicTable is a table as cards name it: by its file, wherever that lies.
func PublicTable(path string) Public {
	return Public{Data: TablePrefix + strings.TrimSuffix(filepath.Base(path), ".gz")}
}

// Overlap names the data set of the card that holds records of another: of its
// name, and with classes in common. Empty: none does.
func (c *Card) Overlap(data string, classes []int) string {
	if path, ok := strings.CutPrefix(data, TablePrefix); ok {
		data = PublicTable(path).Data
	}
	for _, p := range c.Public {
		common := func(class int) bool { return slices.Contains(p.Classes, class) }
		if p.Data == data && (len(p.Classes) == 0 || len(classes) == 0 || slices.ContainsFunc(classes, common)) {
			return data
		}
	}
	return ""
}

// next is the noise multiplier of the step r.Step: the planned one where the
// scheduler is constant. The state has State values, zero at first.
func (p *Protector) next(s Setting, r Released, state []float64) float64 {
	if !p.Adapts() {
		return s.Planned
	}
	l := p.Card.Scheduler.LSTM(SchedulerContext)
	x, context := s.Scheduled(r)
	var scalars [device.Slots]float32
	scalars[device.Scale], scalars[device.Gain], scalars[device.Rate] = 1, 1, 1
	for i, v := range context {
		scalars[device.Context+device.Slot(i)] = float32(v)
	}
	w := make([]float64, len(p.Scheduler))
	for i, v := range p.Scheduler {
		w[i] = float64(v)
	}
	return s.Multiplier(1 / (1 + math.Exp(-l.Apply(&scalars, w, 0, x, state))))
}

// schedulerState is the number of values of a scheduler's state.
func (p *Protector) schedulerState() int {
	if !p.Adapts() {
		return 0
	}
	return p.Card.Scheduler.LSTM(SchedulerContext).States()
}

// The files of a protector.
const (
	weightsSuffix = ".safetensors"
	cardSuffix    = ".json"
	mostBytes     = 64 << 20
)

// CardPath is where the card of a weights' file lies.
func CardPath(path string) string { return strings.TrimSuffix(path, weightsSuffix) + cardSuffix }

// Write stores a protector: weights in path, which ends in .safetensors, with names
// and shapes as torch.nn.LSTM has them but for one bias in the place of two, and the card beside it.
func (p *Protector) Write(path string) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if !strings.HasSuffix(path, weightsSuffix) {
		return fmt.Errorf("protector file %s: its name must end in %s", path, weightsSuffix)
	}
	var all []safetensors.Tensor
	for _, part := range p.parts() {
		rest := *part.weights
		if rest == nil {
			continue
		}
		for _, t := range part.tensors() {
			n := 1
			for _, d := range t.Shape {
				n *= d
			}
			t.Data, rest = rest[:n], rest[n:]
			all = append(all, t)
		}
	}
	p.Card.Weights = p.digest()
	card, err := json.MarshalIndent(p.Card, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(path, func(w io.Writer) error { return safetensors.Write(w, all, nil) }); err != nil {
		return err
	}
	return durable.WriteFile(CardPath(path), func(w io.Writer) error { _, err := w.Write(append(card, '\n')); return err })
}

// A part is a projector or a scheduler, and its place in the files.
type part struct {
	name, kind, unlearned string
	lstm                  device.LSTM
	weights               *[]float32
}

func (p *Protector) parts() [2]part {
	a, b := p.Card.Projector, p.Card.Scheduler
	return [2]part{
		{"projector", a.Kind, Identity, a.LSTM(ProjectorContext), &p.Projector},
		{"scheduler", b.Kind, Constant, b.LSTM(SchedulerContext), &p.Scheduler},
	}
}

func (p part) tensors() (all []safetensors.Tensor) {
	h := p.lstm.Hidden
	add := func(name string, shape ...int) {
		all = append(all, safetensors.Tensor{Name: p.name + "." + name, Shape: shape})
	}
	for k := range p.lstm.Layers {
		add(fmt.Sprintf("lstm.weight_ih_l%d", k), 4*h, p.lstm.Inputs(k))
		add(fmt.Sprintf("lstm.weight_hh_l%d", k), 4*h, h)
		add(fmt.Sprintf("lstm.bias_ih_l%d", k), 4*h)
	}
	add("output.weight", 1, h)
	add("output.bias", 1)
	return all
}

func Read(path string) (*Protector, error) {
	weights, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("protector %s cannot be read (%w): give a file that `privgrad l2p train` wrote, or a name that `privgrad l2p list` shows", path, usage.Cause(err))
	}
	defer weights.Close()
	card, err := os.ReadFile(CardPath(path))
	if err == nil {
		card, err = written.Text(card)
	}
	if err != nil {
		return nil, fmt.Errorf("protector %s: its card: %w", path, err)
	}
	return parse(path, card, weights)
}

func parse(path string, card []byte, weights io.Reader) (*Protector, error) {
	p := &Protector{}
	if err := dpoptim.DecodeState(card, &p.Card); err != nil {
		return nil, fmt.Errorf("protector %s: its card %s: %w", path, CardPath(path), err)
	}
	stored, _, err := safetensors.Read(weights, mostBytes)
	if err != nil {
		return nil, fmt.Errorf("protector %s: %w", path, err)
	}
	byName := map[string]safetensors.Tensor{}
	for _, t := range stored {
		byName[t.Name] = t
	}
	used := 0
	for _, part := range p.parts() {
		if part.kind != Learned {
			continue
		}
		if err := part.lstm.Check(); err != nil {
			return nil, fmt.Errorf("protector %s: %s: %w", path, part.name, err)
		}
		for _, want := range part.tensors() {
			have, ok := byName[want.Name]
			if !ok || !slices.Equal(have.Shape, want.Shape) {
				return nil, fmt.Errorf("protector %s: tensor %s of shape %v is missing, or has another shape: the file and its card do not belong together", path, want.Name, want.Shape)
			}
			*part.weights = append(*part.weights, have.Data...)
			used++
		}
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if used != len(stored) {
		return nil, fmt.Errorf("protector %s: %d tensors are not of its card: the file and its card do not belong together", path, len(stored)-used)
	}
	if p.digest() != p.Card.Weights {
		return nil, fmt.Errorf("protector %s: its weights are not those of its card: restore the matching pair", path)
	}
	return p, nil
}

package l2p

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/privgrad/privgrad/accountant"
	"github.com/privgrad/privgrad/datasets"
	"github.com/privgrad/privgrad/dpoptim/l2p"
	"github.com/privgrad/privgrad/internal/meta"
	"github.com/privgrad/privgrad/internal/reproduce"
)

// A teacher gives the protector of a line: one that is at hand, or that is learned first.
type teacher struct {
	at     *reproduce.Protection
	lesson *reproduce.Lesson
}

// alone is its projector, with the same noise in every step.
func (t teacher) alone(e *reproduce.Env) teacher {
	if t.at != nil {
		return teacher{at: unscheduled(t.at)}
	}
	return teacher{lesson: e.Lesson("projector alone of "+t.lesson.What, func(ctx context.Context) (*l2p.Protector, error) {
		p, err := t.lesson.Protection(ctx)
		if err != nil {
			return nil, err
		}
		return unscheduled(p).Protector, nil
	})}
}

// Settings of the meta-training in figures: small LSTMs, for runs of 60 steps.
const (
	lessonSteps   = 60
	lessonHidden  = 12
	lessonRuns    = 8 // simulated for an update
	lessonJudged  = 500
	lessonVersion = 1
)

// A course is how much of it there is.
type course struct {
	stages        []meta.Stage
	updates, held int // of an epoch, and tasks that choose among epochs
	rate          float64
}

var (
	short = course{[]meta.Stage{{Epsilon: 0.8, Epochs: 2}, {Epsilon: 0.2, Epochs: 6}}, 8, 32, 0.003}
	long  = course{[]meta.Stage{{Epsilon: 0.8, Epochs: 3}, {Epsilon: 0.2, Epochs: 14}}, 12, 64, 0.006}
)

func (c course) String() string {
	var stages []string
	for _, s := range c.stages {
		stages = append(stages, fmt.Sprintf("%d epochs at ε = %g", s.Epochs, s.Epsilon))
	}
	return fmt.Sprintf("LSTMs of one layer of %d units, runs of %d steps, %s, with %d updates each", lessonHidden, lessonSteps, strings.Join(stages, ", then "), c.updates)
}

// A curriculum is what is particular to a lesson.
type curriculum struct {
	name, summary string
	public        []l2p.Public
	records       int
	rate          float64 // of Poisson sampling
	scale, card   float64 // of the projector's output, in meta-training and in runs
	family        func(records int) (meta.Family, error)
	network       bool
}

func (c curriculum) teach(e *reproduce.Env, in course) teacher {
	records, stages := c.records, in.stages
	if e.Quick {
		stages = stages[:1]
	}
	o := meta.Options{
		Plan:   meta.Plan{Steps: lessonSteps, Rate: c.rate, Clip: pairsClip, Delta: pairsDelta, Neighbouring: accountant.AddRemove, Accountant: spending},
		Stages: stages, Batches: in.updates, Tasks: lessonRuns, LearningRate: in.rate, GradientNorm: 1, Gamma: 4,
		Curvature: c.network, Odd: c.network, Validation: in.held, Seed: 1, Workers: runtime.NumCPU(),
	}
	part := l2p.Part{Kind: l2p.Learned, Layers: 1, Hidden: lessonHidden}
	o.Card = l2p.Card{
		Name: c.name, Summary: c.summary, Tasks: []string{c.name}, Public: append([]l2p.Public{}, c.public...),
		Projector: part, Scheduler: part, Scale: c.scale, Recipe: "privgrad reproduce",
	}
	if e.Work < 0.1 { // of tests
		records, o.Plan.Steps, o.Batches, o.Tasks, o.Validation = 40, 3, 1, 2, 1
	}
	what := fmt.Sprint(lessonVersion, c.name, c.public, records, c.card, o.Plan, o.Stages, o.Batches, o.Tasks, o.LearningRate, o.Gamma, o.Card, o.Curvature, o.Odd, o.Validation, o.Seed)
	return teacher{lesson: e.Lesson(what, func(ctx context.Context) (_ *l2p.Protector, err error) {
		if o.Family, err = c.family(records); err != nil {
			return nil, err
		}
		p, _, err := meta.Train(ctx, o)
		if err == nil {
			p.Card.Scale = c.card
		}
		return p, err
	})}
}

// Lessons on digits: networks of 4 sigmoids on images of 7×7. At these sizes the noise relative to a
// parameter's gradient is about that of mlp-small on 28×28. The scale for that size was chosen on 4 against 9.
const (
	digitPool, digitUnits, digitRecords = 4, 4, 1280
	digitRate                           = 0.25
	digitScale, digitCard               = 0.06, 0.012
)

func digitLesson(e *reproduce.Env, classes []int, in course) teacher {
	return curriculum{
		name: fmt.Sprint("mnist ", classes), public: []l2p.Public{{Data: "mnist", Classes: classes}},
		summary: fmt.Sprintf("networks of %d sigmoids on pairs of the digits %v, %d images of 7×7", digitUnits, classes, digitRecords),
		records: digitRecords, rate: digitRate, scale: digitScale, card: digitCard, network: true,
		family: func(records int) (meta.Family, error) {
			set, err := openMNIST(e)
			if err != nil {
				return nil, err
			}
			pixels, labels := make([]float64, len(set.Train.Features)), make([]int, len(set.Train.Labels))
			for i, b := range set.Train.Features {
				pixels[i] = float64(b)/127.5 - 1
			}
			for i, l := range set.Train.Labels {
				labels[i] = int(l)
			}
			source, err := meta.NewImages(pixels, labels, set.Train.Shape[1], digitPool, classes, records, lessonJudged)
			return meta.Classifiers{Source: source, Model: meta.MLP, Hidden: digitUnits}, err
		},
	}.teach(e, in)
}

// openMNIST is for data of which Images has found the files.
func openMNIST(e *reproduce.Env) (*datasets.Set, error) {
	var j reproduce.Job
	if !e.Images(&j.Config, "mnist") {
		return nil, errors.New("the files of MNIST are gone: put them back, and start again")
	}
	return e.Sources["mnist"].Open(j.Config.DataDir)
}

// censusRecords is the size of the part of IPUMS-BR that trains, so that noise and gradients are alike. Of the scales
// 0.05, 0.2 and 0.6, the last led to the lowest loss on the stand-in.
const (
	censusRecords = 30_400
	censusScale   = 0.6
)

// censusLesson is on records of a stand-in for IPUMS-US, by the model of the runs.
func censusLesson(e *reproduce.Env, model string, l2 float64) teacher {
	us := reproduce.IPUMSUS
	return curriculum{
		name: us.Name + ", " + model, summary: fmt.Sprintf("%s on %d records of a synthetic stand-in for IPUMS-US", model, censusRecords),
		records: censusRecords, rate: pairsBatch / float64(censusRecords), scale: censusScale, card: censusScale,
		family: func(records int) (meta.Family, error) {
			split := us.Fold(us.Name, 1, us.Records).Train // all but a record
			table := &meta.Records{Width: us.Columns}
			for _, b := range split.Features {
				table.Features = append(table.Features, float64(b)/255)
			}
			for _, l := range split.Labels {
				table.Labels = append(table.Labels, int(l))
			}
			source, err := meta.NewTables([]*meta.Records{table}, records, lessonJudged)
			return meta.Classifiers{Source: source, Model: model, Penalty: l2}, err
		},
	}.teach(e, short)
}
